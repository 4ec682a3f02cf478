//! Uploader and staging together: what was committed reaches the store whole, in any order of crashes and failures of
//! disk and store, and what waits is read from where it waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod crash;
mod fake;

use actix::prelude::*;
use bytes::Bytes;
use crash::{CrashDisk, Dice};
use fake::{Fault, Heard, Store, on_one_thread, world};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_data::{BlockCodec, BlockId, BlockNames, BlockSink, Handover, SealReason};
use zest_types::limits::UPLOADS;
use zest_types::{Errno, Ino, Placed, SliceId, SliceRecord, Time};
use zest_uploader::staging::{Bounds, Hours, Patience, Tally};
use zest_uploader::{Commits, Drain, DrainAll, HandOver, Outcomes, Staging, StagingOptions, UploaderActor};
use zest_world::planted::{Bug, activate};
use zest_world::{BoxFuture, Disk, Objects};

const BS: u32 = 64 << 10;
const FILE: Ino = Ino(7);

/// The file system: which slices are part of files. Survives crashes.
#[derive(Clone, Default)]
struct Above {
    committed: Arc<Mutex<BTreeMap<u64, u32>>>,
    failed: Arc<Mutex<Vec<Errno>>>,
    over: Arc<Mutex<bool>>,
}

impl Commits for Above {
    fn commit(&self, _: Ino, parts: Vec<Placed>, _: Time) -> BoxFuture<'static, Result<(), Errno>> {
        if !*self.over.lock() {
            self.committed.lock().extend(parts.iter().map(|part| (part.record.id.0, part.record.size)));
        }
        Box::pin(async { Ok(()) })
    }
}

impl Outcomes for Above {
    fn committed(&self, _: Ino, _: SliceId) {}
    fn failed(&self, _: Ino, _: SliceId, error: Errno) {
        self.failed.lock().push(error);
    }
}

impl BlockSink for Above {
    fn keep(&self, _: BlockId, _: Bytes) {}
}

fn names() -> BlockNames {
    BlockNames { volume: "vol".into(), hash_prefix: false, block_size: BS }
}

fn content(slice: u64, len: u32) -> Bytes {
    (0..len).map(|at| (slice as u32 * 7 + at / 512) as u8).collect::<Vec<_>>().into()
}

fn slice(id: u64, len: u32) -> Vec<Handover> {
    let (slice, data) = (SliceId(id), content(id, len));
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

struct Scene {
    store: Store,
    heard: Heard,
    disk: CrashDisk,
    above: Above,
}

struct Life {
    staging: Arc<Staging>,
    uploader: Addr<UploaderActor>,
    objects: Arc<dyn Objects>,
}

impl Scene {
    fn new() -> Scene {
        let (store, heard) = (Store::default(), Heard::default());
        Scene { store, heard, disk: CrashDisk::default(), above: Above::default() }
    }

    fn options(&self) -> StagingOptions {
        StagingOptions {
            disk: Arc::new(self.disk.clone()),
            place: "here".into(),
            uuid: "u".into(),
            names: names(),
            others: Vec::new(),
            stage: true,
            below: 0,
            patience: Patience::default(),
            bounds: Bounds { bytes: 8 << 20, keep_free: 0, segment: 256 << 10 },
            uploads: UPLOADS,
        }
    }

    fn begin(&self) -> Life {
        self.begin_with(self.options())
    }

    fn begin_with(&self, options: StagingOptions) -> Life {
        let world = world(&self.store, &self.heard);
        let codec = Arc::new(BlockCodec::plain());
        let staging = Staging::open(world.clone(), options).unwrap();
        staging.runs(staging.actor(codec.clone()).start());
        let objects = staging.objects();
        let world = zest_world::World { objects: objects.clone(), ..world };
        let above = Arc::new(self.above.clone());
        let actor = UploaderActor::new(world, names(), codec, above.clone(), above.clone(), above);
        let uploader = actor.with_staging(Some(staging.clone())).start();
        Life { staging, uploader, objects }
    }

    fn store_is(&self, fault: Fault) {
        self.store.choose(move |call, _| {
            let fault = if call.verb == "put" { fault } else { Fault::None };
            (Duration::from_millis(5), fault)
        });
    }

    /// Every committed slice is in the store, whole; no object has other bytes than its block.
    fn judge(&self) -> Result<(), String> {
        let objects = self.store.0.lock().objects.clone();
        for (id, size) in self.above.committed.lock().iter() {
            if let Some((_, key)) =
                names().of_slice(SliceId(*id), *size).find(|(_, key)| !objects.contains_key(key))
            {
                return Err(format!("committed and lost: {key}"));
            }
        }
        for (key, object) in objects {
            let block = zest_data::block::parse_block_key("vol", false, &key).unwrap().block;
            let whole = content(block.slice.0, 1 << 20);
            let at = (block.index * BS) as usize;
            if whole[at..at + object.len()] != object {
                return Err(format!("{key} has other bytes"));
            }
        }
        Ok(())
    }
}

fn puts(store: &Store) -> Vec<String> {
    store.0.lock().calls.iter().filter(|call| call.verb == "put").map(|call| call.key.clone()).collect()
}

#[test]
fn staged_blocks_count_as_durable_and_are_read_where_they_wait() {
    on_one_thread(async {
        let scene = Scene::new();
        scene.store_is(Fault::Transient);
        let life = scene.begin();
        life.uploader.do_send(HandOver { ino: FILE, handed: slice(1, BS + 5) });
        life.uploader.send(Drain { ino: FILE }).await.unwrap();
        assert_eq!(scene.above.committed.lock().len(), 1, "the store is away");
        assert_eq!(life.staging.of_file(FILE), Tally { blocks: 2, bytes: u64::from(BS) + 5 });
        let key = names().key(BlockId { slice: SliceId(1), index: 0 }, BS);
        assert_eq!(life.objects.get(&key, None).await.unwrap(), content(1, BS));
        assert_eq!(life.objects.get(&key, Some(10..600)).await.unwrap(), content(1, BS).slice(10..600));
        scene.store_is(Fault::None);
        life.staging.drain(Some(FILE)).await;
        scene.judge().unwrap();
        assert_eq!(life.staging.stats().waiting, Tally::default());
        assert_eq!(life.objects.get(&key, None).await.unwrap(), content(1, BS));
        tokio::time::sleep(Duration::from_secs(1)).await;
        life.staging.finish();
        assert_eq!(scene.disk.media.lock().names(), ["lock"], "nothing is left on the disk");
    });
}

#[test]
fn blocks_of_a_file_go_up_in_order_after_any_failure() {
    let order = |bug: Option<Bug>| {
        let out = Arc::new(Mutex::new(Vec::new()));
        let keys = out.clone();
        on_one_thread(async move {
            activate(bug);
            let scene = Scene::new();
            scene.store_is(Fault::Transient);
            let life = scene.begin();
            for id in 1..=30u64 {
                life.uploader.do_send(HandOver { ino: Ino(id % 2), handed: slice(id, 100) });
            }
            life.uploader.send(DrainAll).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            scene.store.0.lock().calls.clear();
            scene.store_is(Fault::None);
            life.staging.drain(None).await;
            scene.judge().unwrap();
            *keys.lock() = puts(&scene.store);
            activate(None);
        });
        let ids = |file: u64| {
            let id = |key: &String| key.rsplit('/').next()?.split('_').next()?.parse::<u64>().ok();
            out.lock().iter().filter_map(id).filter(|id| id % 2 == file).collect::<Vec<_>>()
        };
        ids(0).is_sorted() && ids(1).is_sorted()
    };
    assert!(order(None));
    assert!(!order(Some(Bug::YoungOvertakesOld)), "the bug is not seen");
}

fn live_and_crash(seed: u64, dies_in: u64) -> Result<(), String> {
    let scene = Arc::new(Scene::new());
    let end = scene.clone();
    on_one_thread(async move {
        let mut dice = Dice(seed);
        let life = scene.begin();
        let faults = [Fault::None, Fault::Transient, Fault::LostAnswer, Fault::None];
        let mut draws = Dice(seed + 1);
        let dead = seed.is_multiple_of(3);
        scene.store.choose(move |call, _| {
            let fault =
                if dead && call.verb == "put" { Fault::Transient } else { faults[draws.below(4) as usize] };
            (Duration::from_millis(draws.below(20)), fault)
        });
        scene.disk.media.lock().dies_in = Some(dies_in);
        for id in 1..=12u64 {
            let len = [100, BS, BS * 2 + 9][dice.below(3) as usize];
            life.uploader.do_send(HandOver { ino: Ino(id % 3), handed: slice(id, len) });
            tokio::time::sleep(Duration::from_millis(dice.below(30))).await;
            if scene.disk.media.lock().is_dead() {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(dice.below(200))).await;
        *scene.above.over.lock() = true;
    });
    let (scene, mut dice) = (end, Dice(seed + 2));
    scene.disk.media.lock().crash(&mut dice);
    *scene.above.over.lock() = false;
    let after = scene.clone();
    on_one_thread(async move {
        scene.store.choose(|_, _| (Duration::ZERO, Fault::None));
        let life = scene.begin();
        life.staging.drain(None).await;
    });
    after.judge()
}

#[test]
fn what_was_committed_survives_a_crash_at_any_effect_of_the_disk() {
    for seed in 0..6 {
        for dies_in in 0..40 {
            live_and_crash(seed, dies_in)
                .unwrap_or_else(|text| panic!("seed {seed}, effect {dies_in}: {text}"));
        }
    }
}

#[test]
fn a_reply_before_the_sync_is_found() {
    activate(Some(Bug::ReplyBeforeGroupSync));
    let found = (0..6).any(|seed| (0..40).any(|dies_in| live_and_crash(seed, dies_in).is_err()));
    activate(None);
    assert!(found);
}

#[test]
fn a_full_or_failing_disk_means_the_direct_way() {
    for full in [true, false] {
        on_one_thread(async move {
            let scene = Scene::new();
            let life = scene.begin();
            match full {
                true => scene.disk.media.lock().capacity = Some(0),
                false => scene.disk.media.lock().bad_syncs = 1000,
            }
            for id in 1..=5 {
                life.uploader.do_send(HandOver { ino: FILE, handed: slice(id, 100) });
            }
            life.uploader.send(Drain { ino: FILE }).await.unwrap();
            scene.judge().unwrap();
            assert_eq!(life.staging.stats().waiting.blocks, 0);
            assert_eq!((puts(&scene.store).len(), life.staging.stats().direct), (5, 5));
            scene.disk.media.lock().capacity = None;
            scene.disk.media.lock().bad_syncs = 0;
            scene.store_is(Fault::Transient);
            tokio::time::sleep(Duration::from_secs(10)).await;
            life.uploader.do_send(HandOver { ino: FILE, handed: slice(6, 100) });
            life.uploader.send(Drain { ino: FILE }).await.unwrap();
        });
    }
}

#[test]
fn what_waits_for_too_long_or_is_too_much_waits_no_more() {
    on_one_thread(async {
        let scene = Scene::new();
        // The clock of these tests stands at 1970, hour 0.
        let hours = Some(Hours { from: 5, to: 6, ahead: 0 });
        let patience = Patience { delay: Duration::ZERO, hours, longest: Duration::ZERO };
        let life = scene.begin_with(StagingOptions { patience, below: 1000, ..scene.options() });
        for id in 1..=3 {
            life.uploader
                .do_send(HandOver { ino: Ino(id), handed: slice(id, if id == 3 { 1000 } else { 999 }) });
        }
        life.uploader.send(DrainAll).await.unwrap();
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(puts(&scene.store).len(), 1, "only the large block went up at this hour");
        life.staging.drain(Some(Ino(2))).await;
        assert_eq!(puts(&scene.store).len(), 2, "somebody waited for this file");
        life.staging.drain(None).await;
        scene.judge().unwrap();
    });
}

#[test]
fn what_is_deleted_never_reaches_the_store() {
    on_one_thread(async {
        let scene = Scene::new();
        scene.store_is(Fault::Transient);
        let life = scene.begin();
        for id in 1..=2 {
            life.uploader.do_send(HandOver { ino: FILE, handed: slice(id, 100) });
        }
        life.uploader.send(Drain { ino: FILE }).await.unwrap();
        for id in 1..=2 {
            let key = names().key(BlockId { slice: SliceId(id), index: 0 }, 100);
            life.objects.delete(&key).await.unwrap();
        }
        scene.store_is(Fault::None);
        life.staging.drain(None).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(scene.store.0.lock().objects.is_empty() && life.staging.stats().waiting.blocks == 0);
    });
}

#[test]
fn a_damaged_block_is_kept_and_holds_up_nobody() {
    on_one_thread(async {
        let scene = Scene::new();
        scene.store_is(Fault::Transient);
        let life = scene.begin();
        for id in 1..=3 {
            life.uploader.do_send(HandOver { ino: FILE, handed: slice(id, 4096) });
            life.uploader.send(Drain { ino: FILE }).await.unwrap();
        }
        let (name, bytes) = {
            let media = scene.disk.media.lock();
            let name = media.names().into_iter().find(|name| name.starts_with("journal-")).unwrap();
            (name.clone(), media.bytes_of(&name))
        };
        let second = content(2, 4096);
        let at = bytes.windows(4096).position(|run| run == second).unwrap();
        scene.disk.media.lock().flip(&name, at + 100);
        let key = names().key(BlockId { slice: SliceId(2), index: 0 }, 4096);
        scene.store_is(Fault::None);
        life.staging.drain(Some(FILE)).await;
        assert!(life.objects.get(&key, None).await.is_err(), "no wrong byte");
        assert_eq!(scene.store.0.lock().objects.len(), 2);
        assert_eq!(life.staging.stats().damaged, Tally { blocks: 1, bytes: 4096 });
        tokio::time::sleep(Duration::from_secs(1)).await;
        life.staging.finish();
        assert!(scene.disk.media.lock().names().iter().any(|name| name.starts_with("damaged-")));
    });
}

#[test]
fn a_block_that_the_disk_does_not_give_once_is_no_damaged_block() {
    on_one_thread(async {
        let scene = Scene::new();
        scene.store_is(Fault::Transient);
        let life = scene.begin();
        life.uploader.do_send(HandOver { ino: FILE, handed: slice(1, 4096) });
        life.uploader.send(Drain { ino: FILE }).await.unwrap();
        scene.disk.media.lock().bad_reads = 1;
        scene.store_is(Fault::None);
        life.staging.drain(Some(FILE)).await;
        assert_eq!(scene.disk.media.lock().bad_reads, 0, "nothing was read");
        assert_eq!(scene.store.0.lock().objects.len(), 1);
        assert_eq!(life.staging.stats().damaged, Tally::default());
        scene.judge().unwrap();
    });
}

#[test]
fn staged_blocks_of_the_other_client_are_taken_over() {
    on_one_thread(async {
        let scene = Scene::new();
        scene.store_is(Fault::Transient);
        let others = CrashDisk::default();
        let sum = |data: &[u8]| {
            data.chunks(32 << 10).flat_map(|piece| zest_data::checksum::crc32c(piece).to_be_bytes()).collect()
        };
        let file = |id: u64, len: u32| format!("chunks/0/0/{id}_0_{len}");
        let with_sum = |id: u64, len: u32| [content(id, len).to_vec(), sum(&content(id, len))].concat();
        {
            let mut media = others.media.lock();
            media.leave(&file(1, 100), content(1, 100).to_vec());
            media.leave(&file(2, BS), with_sum(2, BS));
            let mut damaged = with_sum(3, BS);
            damaged[40_000] ^= 1;
            media.leave(&file(3, BS), damaged);
            media.leave(&file(4, 200), content(4, 100).to_vec());
            media.leave("chunks/0/0/5_0_10.tmp", vec![0; 10]);
            media.leave("readme", vec![1]);
        }
        let folder: Arc<dyn Disk> = Arc::new(others.clone());
        let life = scene.begin_with(StagingOptions { others: vec![folder], stage: false, ..scene.options() });
        assert_eq!(life.staging.stats().waiting.blocks, 4);
        let key = format!("vol/{}", file(2, BS));
        assert_eq!(life.objects.get(&key, None).await.unwrap(), content(2, BS));
        scene.store_is(Fault::None);
        life.staging.drain(None).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.judge().unwrap();
        assert_eq!(scene.store.0.lock().objects.len(), 2);
        let left = ["chunks/0/0/3_0_65536", "chunks/0/0/4_0_200", "chunks/0/0/5_0_10.tmp", "readme"];
        assert_eq!(others.media.lock().names(), left, "only what is in the store went");
        life.uploader.do_send(HandOver { ino: FILE, handed: slice(9, 100) });
        life.uploader.send(DrainAll).await.unwrap();
        assert_eq!(life.staging.stats().waiting.blocks, 0, "nothing new is staged");
    });
}
