//! Writers, uploader and store together: random writes of several files over a store that misbehaves, read back
//! at any moment and at the end, against arrays of bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod fake;

use actix::prelude::*;
use bytes::Bytes;
use fake::{Fault, Heard, Store, on_one_thread, world};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_data::block::block_ranges;
use zest_data::{
    BlockCodec, BlockId, BlockNames, BlockSink, Budget, ChunkView, FileWriter, Handover, Piece, SealReason,
    WriteError,
};
use zest_types::limits::CHUNK_SIZE;
use zest_types::slice::chunk_ranges;
use zest_types::{Errno, Ino, Placed, SliceId, SliceRecord, Time};
use zest_uploader::{Commits, Drain, DrainAll, HandOver, Outcomes, UploaderActor};
use zest_world::BoxFuture;

const BS: u32 = 64 << 10;
const BASE: u64 = CHUNK_SIZE - 150_000;
const SPAN: usize = 300_000;
const FILES: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Write { ino: u64, at: usize, len: usize },
    Seal(u64),
    Flush(u64),
    Wait(u64),
    Read { ino: u64, at: usize, len: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![3 => 1usize..5_000, 1 => 1usize..100_000];
    let read = (0..FILES, 0..SPAN, 1usize..50_000);
    prop_oneof![
        6 => (0..FILES, 0..SPAN - 100_000, len).prop_map(|(ino, at, len)| Step::Write { ino, at, len }),
        1 => (0..FILES).prop_map(Step::Seal),
        1 => (0..FILES).prop_map(Step::Flush),
        3 => (0u64..400).prop_map(Step::Wait),
        3 => read.prop_map(|(ino, at, len)| Step::Read { ino, at, len: len.min(SPAN - at) }),
    ]
}

#[derive(Default)]
struct Files {
    writers: BTreeMap<Ino, FileWriter>,
    chunks: BTreeMap<(Ino, u32), Vec<SliceRecord>>,
}

#[derive(Clone)]
struct Above(Arc<Mutex<Files>>);

impl Commits for Above {
    fn commit(&self, ino: Ino, parts: Vec<Placed>, _: Time) -> BoxFuture<'static, Result<(), Errno>> {
        let files = self.0.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(parts[0].record.id.0 % 5)).await;
            for Placed { index, record } in parts {
                files.lock().chunks.entry((ino, index)).or_default().push(record);
            }
            Ok(())
        })
    }
}

impl Outcomes for Above {
    fn committed(&self, ino: Ino, slice: SliceId) {
        self.0.lock().writers.get_mut(&ino).unwrap().committed(slice);
    }
    fn failed(&self, ino: Ino, slice: SliceId, error: Errno) {
        self.0.lock().writers.get_mut(&ino).unwrap().failed(slice, error);
    }
}

impl BlockSink for Above {
    fn keep(&self, _: BlockId, _: Bytes) {}
}

struct Scene {
    store: Store,
    names: BlockNames,
    files: Arc<Mutex<Files>>,
    uploader: Addr<UploaderActor>,
    models: BTreeMap<Ino, Vec<u8>>,
    next_id: u64,
}

impl Scene {
    fn new(budget: u64) -> Scene {
        let store = Store::default();
        store.choose(|call, before| {
            let n = call.key.bytes().map(u64::from).sum::<u64>() * 31 % 97 + before as u64;
            let fault = [Fault::None, Fault::Transient, Fault::LostAnswer, Fault::None][n as usize % 4];
            (Duration::from_millis(n), if before < 3 { fault } else { Fault::None })
        });
        let names = BlockNames { volume: "vol".into(), hash_prefix: true, block_size: BS };
        let (files, budget) = (Arc::new(Mutex::new(Files::default())), Budget::new(budget));
        let mut models = BTreeMap::new();
        for ino in (0..FILES).map(Ino) {
            files.lock().writers.insert(ino, FileWriter::new(BS, budget.clone()));
            models.insert(ino, vec![0; SPAN]);
        }
        let above = Arc::new(Above(files.clone()));
        let world = world(&store, &Heard::default());
        let actor = UploaderActor::new(
            world,
            names.clone(),
            Arc::new(BlockCodec::plain()),
            above.clone(),
            above.clone(),
            above,
        );
        Scene { store, names, files, uploader: actor.start(), models, next_id: 0 }
    }

    fn hand_over(&self, ino: Ino, handed: Vec<Handover>) {
        self.uploader.do_send(HandOver { ino, handed });
    }

    fn seal(&self, ino: Ino) {
        let handed = self.files.lock().writers.get_mut(&ino).unwrap().seal_all(SealReason::Flush);
        self.hand_over(ino, handed);
    }

    async fn write(&mut self, ino: Ino, at: usize, data: &[u8]) {
        loop {
            let mut ids = || {
                self.next_id += 1;
                Some(SliceId(self.next_id))
            };
            let now = Time::default();
            let offset = BASE + at as u64;
            let result = self.files.lock().writers.get_mut(&ino).unwrap().write(
                offset,
                data,
                now,
                Duration::ZERO,
                &mut ids,
            );
            match result {
                Ok(handed) => break self.hand_over(ino, handed),
                Err(error) => {
                    assert_eq!(error, WriteError::Full);
                    for ino in (0..FILES).map(Ino) {
                        self.seal(ino);
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
        self.models.get_mut(&ino).unwrap()[at..at + data.len()].copy_from_slice(data);
    }

    fn read(&self, ino: Ino, at: usize, len: usize) -> Vec<u8> {
        let (offset, files) = (BASE + at as u64, self.files.lock());
        let pending = files.writers[&ino].pending_pieces(offset, len as u64);
        let mut out = Vec::new();
        for range in chunk_ranges(offset, len as u64) {
            let list = files.chunks.get(&(ino, range.index)).map_or(&[][..], |list| list);
            for piece in ChunkView::new(list).pieces(range.pos, range.len) {
                match piece {
                    Piece::Zeros { len } => out.resize(out.len() + len as usize, 0),
                    Piece::Stored { slice, size, off, len } => {
                        for part in block_ranges(slice, size, BS, off, len) {
                            let key = self.names.key(part.block, part.block_len);
                            let state = self.store.0.lock();
                            let object = state.objects.get(&key).expect("a committed block is stored");
                            out.extend_from_slice(
                                &object[part.range.start as usize..part.range.end as usize],
                            );
                        }
                    }
                }
            }
        }
        for piece in pending {
            let at = (piece.offset - offset) as usize;
            out[at..at + piece.data.len()].copy_from_slice(&piece.data);
        }
        out
    }

    fn check(&self, ino: Ino, at: usize, len: usize) {
        assert!(self.read(ino, at, len) == self.models[&ino][at..at + len], "file {ino} differs near {at}");
    }
}

async fn play(steps: Vec<Step>, budget: u64) {
    let mut scene = Scene::new(budget);
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::Write { ino, at, len } => {
                let data: Vec<u8> = (0..len).map(|i| (n * 13 + i * 3 + 1) as u8).collect();
                scene.write(Ino(ino), at, &data).await;
            }
            Step::Seal(ino) => scene.seal(Ino(ino)),
            Step::Flush(ino) => {
                scene.seal(Ino(ino));
                scene.uploader.send(Drain { ino: Ino(ino) }).await.unwrap();
                let writers = &scene.files.lock().writers;
                assert!(writers[&Ino(ino)].is_clean(), "flushed, and yet something is left");
            }
            Step::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Read { ino, at, len } => scene.check(Ino(ino), at, len),
        }
    }
    for ino in (0..FILES).map(Ino) {
        scene.seal(ino);
    }
    scene.uploader.send(DrainAll).await.unwrap();
    for ino in (0..FILES).map(Ino) {
        assert!(scene.files.lock().writers[&ino].is_clean());
        scene.check(ino, 0, SPAN);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn every_read_shows_the_last_write(steps in prop::collection::vec(step(), 1..60)) {
        on_one_thread(play(steps, 1 << 30));
    }

    #[test]
    fn little_memory_is_slow_and_right(steps in prop::collection::vec(step(), 1..60)) {
        on_one_thread(play(steps, 300_000));
    }
}
