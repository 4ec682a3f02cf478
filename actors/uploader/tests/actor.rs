//! The uploader actor over a store that misbehaves: what arrives in the store, in which order slices are
//! committed, and what is told to whom.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod fake;

use actix::prelude::*;
use bytes::Bytes;
use fake::{Call, Fault, Heard, Store, on_one_thread, world};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use zest_data::{BlockCodec, BlockId, BlockNames, BlockSink, Handover, SealReason};
use zest_types::limits::{UPLOAD_PATIENCE_MS, UPLOADS};
use zest_types::{Errno, Ino, Placed, SliceId, SliceRecord, Time};
use zest_uploader::{Commits, Drain, DrainAll, HandOver, Outcomes, UploaderActor};
use zest_world::BoxFuture;

const BS: u32 = 64 << 10;
const FILE: Ino = Ino(7);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Commit(Ino, SliceId),
    Committed(Ino, SliceId),
    Failed(Ino, SliceId, Errno),
}

/// The file system as the uploader sees it.
#[derive(Clone)]
struct Above {
    store: Store,
    names: BlockNames,
    told: Arc<Mutex<Vec<Told>>>,
    kept: Arc<Mutex<Vec<(BlockId, Bytes)>>>,
    answer: Arc<Mutex<Result<(), Errno>>>,
}

impl Commits for Above {
    fn commit(&self, ino: Ino, parts: Vec<Placed>, _: Time) -> BoxFuture<'static, Result<(), Errno>> {
        for Placed { record, .. } in parts {
            for (_, key) in self.names.of_slice(record.id, record.size) {
                assert!(self.store.has(&key), "commit of a slice without {key}");
            }
            self.told.lock().push(Told::Commit(ino, record.id));
        }
        let answer = *self.answer.lock();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(3)).await;
            answer
        })
    }
}

impl Outcomes for Above {
    fn committed(&self, ino: Ino, slice: SliceId) {
        self.told.lock().push(Told::Committed(ino, slice));
    }
    fn failed(&self, ino: Ino, slice: SliceId, error: Errno) {
        self.told.lock().push(Told::Failed(ino, slice, error));
    }
}

impl BlockSink for Above {
    fn keep(&self, block: BlockId, data: Bytes) {
        self.kept.lock().push((block, data));
    }
}

struct Scene {
    store: Store,
    above: Above,
    heard: Heard,
    uploader: Addr<UploaderActor>,
}

fn scene() -> Scene {
    scene_of(Arc::new(BlockCodec::plain()))
}

fn scene_of(codec: Arc<BlockCodec>) -> Scene {
    let (store, heard) = (Store::default(), Heard::default());
    let names = BlockNames { volume: "vol".into(), hash_prefix: false, block_size: BS };
    let above = Above {
        store: store.clone(),
        names: names.clone(),
        told: Arc::default(),
        kept: Arc::default(),
        answer: Arc::new(Mutex::new(Ok(()))),
    };
    let all = Arc::new(above.clone());
    let actor = UploaderActor::new(world(&store, &heard), names, codec, all.clone(), all.clone(), all);
    Scene { store, above, heard, uploader: actor.start() }
}

/// A whole slice of `len` bytes, as its writer hands it over.
fn slice(id: u64, len: u32) -> Vec<Handover> {
    let slice = SliceId(id);
    let data = Bytes::from(vec![id as u8; len as usize]);
    let mut handed = vec![Handover::Open { slice }];
    for index in 0..len.div_ceil(BS) {
        let range = (index * BS) as usize..((index + 1) * BS).min(len) as usize;
        handed.push(Handover::Block { slice, index, data: data.slice(range) });
    }
    let record = SliceRecord::whole(0, slice, len);
    let (parts, mtime) = (vec![Placed { index: 0, record }], Time::new(1, 0));
    handed.push(Handover::Seal { slice, size: len, parts, mtime, reason: SealReason::Flush });
    handed
}

fn key(id: u64, index: u32, len: u32) -> String {
    zest_data::block::block_key("vol", false, SliceId(id), index, len)
}

#[test]
fn slices_are_committed_in_order_whatever_the_store_does() {
    on_one_thread(async {
        let scene = scene();
        scene.store.choose(|call, before| {
            let n = call.key.bytes().map(u64::from).sum::<u64>() * 31 % 97;
            let fault = match (before, n % 4) {
                (0, 0) => Fault::Transient,
                (0, 1) => Fault::LostAnswer,
                _ => Fault::None,
            };
            (Duration::from_millis(n), fault)
        });
        for id in 1..=40u64 {
            let ino = Ino(id % 2);
            scene.uploader.do_send(HandOver { ino, handed: slice(id, BS * 3 + 1) });
        }
        scene.uploader.send(DrainAll).await.unwrap();
        for ino in [Ino(0), Ino(1)] {
            let expected: Vec<SliceId> = (1..=40).filter(|id| Ino(id % 2) == ino).map(SliceId).collect();
            let (mut asked, mut ended) = (Vec::new(), Vec::new());
            for told in scene.above.told.lock().iter() {
                match *told {
                    Told::Commit(of, slice) if of == ino => asked.push(slice),
                    Told::Committed(of, slice) if of == ino => {
                        ended.push(slice);
                        assert!(asked.starts_with(&ended), "{slice} is told before it is asked for");
                    }
                    _ => {}
                }
            }
            assert_eq!((&asked, &ended), (&expected, &expected));
        }
        assert_eq!(scene.above.told.lock().len(), 80);
        let state = scene.store.0.lock();
        assert_eq!(state.objects.len(), 160);
        assert_eq!(state.most_under_way, UPLOADS);
        assert_eq!(scene.above.kept.lock().len(), 160);
        for (block, data) in scene.above.kept.lock().iter() {
            assert_eq!(state.objects[&key(block.slice.0, block.index, data.len() as u32)], data);
        }
    });
}

#[test]
fn a_slice_that_cannot_be_stored_is_lost_alone() {
    on_one_thread(async {
        let scene = scene();
        let bad = key(2, 1, BS);
        scene.store.choose(move |call, _| {
            let fault = if call.key == bad && call.verb == "put" { Fault::Transient } else { Fault::None };
            (Duration::from_millis(1), fault)
        });
        for id in 1..=3 {
            scene.uploader.do_send(HandOver { ino: FILE, handed: slice(id, BS * 2) });
        }
        let begin = tokio::time::Instant::now();
        scene.uploader.send(Drain { ino: FILE }).await.unwrap();
        let patience = Duration::from_millis(UPLOAD_PATIENCE_MS);
        assert!((patience..patience + Duration::from_secs(60)).contains(&begin.elapsed()));
        let told: Vec<Told> = scene.above.told.lock().clone();
        assert_eq!(
            told,
            [
                Told::Commit(FILE, SliceId(1)),
                Told::Committed(FILE, SliceId(1)),
                Told::Failed(FILE, SliceId(2), Errno::EIO),
                Told::Commit(FILE, SliceId(3)),
                Told::Committed(FILE, SliceId(3)),
            ]
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(scene.store.0.lock().objects.len(), 4, "what was stored of slice 2 is removed");
        assert!(
            scene.above.kept.lock().iter().all(|(block, _)| (block.slice, block.index) != (SliceId(2), 1))
        );
        assert!(scene.heard.0.lock().iter().any(|event| event.kind == "failed" && event.detail == 2));
    });
}

#[test]
fn a_full_store_is_enospc_without_another_try_and_a_refusal_is_eio() {
    on_one_thread(async {
        let scene = scene();
        scene.store.choose(|call, _| {
            let fault = if call.key.ends_with("/1_0_9") { Fault::Full } else { Fault::Refused };
            (Duration::ZERO, if call.verb == "put" { fault } else { Fault::None })
        });
        for id in 1..=2 {
            scene.uploader.do_send(HandOver { ino: FILE, handed: slice(id, 9) });
        }
        scene.uploader.send(Drain { ino: FILE }).await.unwrap();
        assert_eq!(
            *scene.above.told.lock(),
            [Told::Failed(FILE, SliceId(1), Errno::ENOSPC), Told::Failed(FILE, SliceId(2), Errno::EIO)]
        );
        assert_eq!(scene.store.count("put"), 2);
    });
}

#[test]
fn objects_go_when_the_file_is_gone_and_stay_when_nobody_knows() {
    for (answer, left) in [(Errno::ENOENT, 0), (Errno::EDQUOT, 0), (Errno::ENOSPC, 0), (Errno::EIO, 2)] {
        on_one_thread(async move {
            let scene = scene();
            *scene.above.answer.lock() = Err(answer);
            scene.uploader.do_send(HandOver { ino: FILE, handed: slice(5, BS + 1) });
            scene.uploader.send(Drain { ino: FILE }).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(scene.above.told.lock().last(), Some(&Told::Failed(FILE, SliceId(5), answer)));
            assert_eq!(scene.store.0.lock().objects.len(), left, "{answer}");
        });
    }
}

#[test]
fn a_put_without_an_answer_is_tried_again() {
    on_one_thread(async {
        let scene = scene();
        scene
            .store
            .choose(|_, before| (Duration::ZERO, if before == 0 { Fault::Never } else { Fault::None }));
        scene.uploader.do_send(HandOver { ino: FILE, handed: slice(1, 10) });
        scene.uploader.send(Drain { ino: FILE }).await.unwrap();
        assert_eq!(scene.above.told.lock().last(), Some(&Told::Committed(FILE, SliceId(1))));
        assert_eq!(scene.store.count("put"), 2);
    });
}

#[test]
fn a_panic_in_a_put_loses_its_slice_only() {
    on_one_thread(async {
        let scene = scene();
        scene.store.choose(|call, _| {
            let bad = call.verb == "put" && call.key.ends_with("/1_0_10");
            (Duration::ZERO, if bad { Fault::Panic } else { Fault::None })
        });
        for id in 1..=2 {
            scene.uploader.do_send(HandOver { ino: FILE, handed: slice(id, 10) });
        }
        scene.uploader.send(Drain { ino: FILE }).await.unwrap();
        let told = scene.above.told.lock().clone();
        assert_eq!(told.first(), Some(&Told::Failed(FILE, SliceId(1), Errno::EIO)));
        assert_eq!(told.last(), Some(&Told::Committed(FILE, SliceId(2))));
    });
}

#[test]
fn blocks_leave_before_their_slice_is_sealed_and_draining_waits_for_the_seal() {
    on_one_thread(async {
        let scene = scene();
        let mut handed = slice(1, BS * 2);
        let seal = handed.pop().unwrap();
        scene.uploader.do_send(HandOver { ino: FILE, handed });
        let drained = Arc::new(Mutex::new(false));
        let (flag, uploader) = (drained.clone(), scene.uploader.clone());
        actix::spawn(async move {
            uploader.send(Drain { ino: FILE }).await.unwrap();
            *flag.lock() = true;
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(scene.store.0.lock().objects.len(), 2);
        assert!(!*drained.lock() && scene.above.told.lock().is_empty());
        scene.uploader.do_send(HandOver { ino: FILE, handed: vec![seal] });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(*drained.lock());
        scene.uploader.send(Drain { ino: Ino(99) }).await.unwrap();
        scene.uploader.send(DrainAll).await.unwrap();
    });
}

#[test]
fn one_busy_file_does_not_starve_another() {
    on_one_thread(async {
        let scene = scene();
        scene.store.choose(|_, _| (Duration::from_millis(50), Fault::None));
        scene.uploader.do_send(HandOver { ino: Ino(1), handed: slice(1, BS * 200) });
        scene.uploader.do_send(HandOver { ino: Ino(2), handed: slice(2, 10) });
        scene.uploader.send(Drain { ino: Ino(2) }).await.unwrap();
        let calls = scene.store.0.lock().calls.clone();
        let place = calls.iter().position(|call| *call == Call { verb: "put", key: key(2, 0, 10) });
        assert!(place.unwrap() <= UPLOADS + 1, "{place:?}");
        assert_eq!(scene.above.told.lock().first(), Some(&Told::Commit(Ino(2), SliceId(2))));
    });
}

#[test]
fn the_same_messages_give_the_same_events() {
    let run = || {
        let events = Arc::new(Mutex::new(Vec::new()));
        let out = events.clone();
        on_one_thread(async move {
            let scene = scene();
            scene.store.choose(|call, before| {
                let n = call.key.len() as u64 + before as u64;
                (Duration::from_millis(n % 5), if before < 2 { Fault::Transient } else { Fault::None })
            });
            for id in 1..=20u64 {
                scene.uploader.do_send(HandOver { ino: Ino(id % 3), handed: slice(id, BS + id as u32) });
            }
            scene.uploader.send(DrainAll).await.unwrap();
            *out.lock() = scene.heard.0.lock().clone();
        });
        events.lock().clone()
    };
    let first = run();
    assert!(first.len() > 100);
    assert_eq!(first, run());
}

#[test]
fn blocks_are_stored_encoded_and_kept_plain() {
    on_one_thread(async {
        let codec = fake::codec();
        let scene = scene_of(codec.clone());
        scene
            .store
            .choose(|_, before| (Duration::ZERO, if before == 0 { Fault::Transient } else { Fault::None }));
        scene.uploader.do_send(HandOver { ino: Ino(1), handed: slice(1, BS + 5) });
        scene.uploader.send(DrainAll).await.unwrap();
        assert_eq!(scene.above.told.lock().last(), Some(&Told::Committed(Ino(1), SliceId(1))));
        let chance = world(&scene.store, &scene.heard).chance;
        for (index, len) in [(0, BS), (1, 5)] {
            let stored = scene.store.0.lock().objects[&key(1, index, len)].clone();
            let plain = vec![1; len as usize];
            assert_ne!(stored, plain);
            assert_eq!(codec.decode(stored, len as usize, &*chance).unwrap(), plain);
        }
        assert!(scene.above.kept.lock().iter().all(|(_, data)| data.iter().all(|byte| *byte == 1)));
    });
}

/// A store behind which chance has no secrets to give.
struct NoSecrets;

impl zest_world::Chance for NoSecrets {
    fn next_u64(&self) -> u64 {
        7
    }
}

#[test]
fn a_block_that_can_not_be_encrypted_fails_its_slice_and_is_not_stored_plain() {
    on_one_thread(async {
        let mut scene = scene();
        let mut world = world(&scene.store, &scene.heard);
        world.chance = Arc::new(NoSecrets);
        let names = scene.above.names.clone();
        let all = Arc::new(scene.above.clone());
        let actor = UploaderActor::new(world, names, fake::codec(), all.clone(), all.clone(), all);
        scene.uploader = actor.start();
        scene.uploader.do_send(HandOver { ino: Ino(1), handed: slice(1, BS) });
        scene.uploader.send(DrainAll).await.unwrap();
        assert_eq!(*scene.above.told.lock(), [Told::Failed(Ino(1), SliceId(1), Errno::EIO)]);
        assert_eq!(scene.store.count("put"), 0);
    });
}
