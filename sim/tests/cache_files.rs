//! Cache files on a disk that crashes, is full, fails and rots: whatever is read is what was stored, or nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use actix::Actor;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_cache::disk::{Level, Settings, Tender};
use zest_cache::evict::Kind;
use zest_cache::{DiskTier, MemoryTier};
use zest_data::BlockId;
use zest_sim::devices::{
    DiskMedia, Fates, Fault, Life, ObjectMedia, SimChance, SimClock, SimDisk, SimObjects, Tape,
};
use zest_types::SliceId;
use zest_world::{BoxFuture, Disk, Offload, World};

const BS: u32 = 1 << 20;

struct Here;

impl Offload for Here {
    fn run(&self, _: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        job();
        Box::pin(async {})
    }
}

fn world(seed: u64) -> World {
    let (clock, life) = (Arc::new(SimClock::new(Duration::from_secs(9))), Arc::new(Life::new(None)));
    let (tape, fates) = (Arc::new(Tape::new(false)), Arc::new(Fates::new(BTreeMap::new(), 0)));
    let chance = Arc::new(SimChance::new(seed, "cache"));
    let media = Arc::new(ObjectMedia::default());
    let objects =
        SimObjects { media, clock: clock.clone(), life, chance: chance.clone(), fates, tape: tape.clone() };
    World { clock, chance, offload: Arc::new(Here), objects: Arc::new(objects), trace: tape }
}

fn len(block: BlockId) -> u32 {
    if block.index == 0 { BS } else { 70_000 + block.slice.0 as u32 * 11_000 }
}

fn body(block: BlockId) -> Bytes {
    let salt = block.slice.0 * 31 + u64::from(block.index) * 7 + 1;
    (0..u64::from(len(block))).map(|at| ((at * salt) >> 5) as u8).collect::<Vec<u8>>().into()
}

#[derive(Default)]
struct Seen {
    given: u64,
    after_a_crash: u64,
    missing: u64,
}

async fn step(tier: &DiskTier, chance: &SimChance, fresh: bool, seen: &mut Seen) {
    let block = BlockId { slice: SliceId(chance.between(1, 8)), index: chance.below(2) as u32 };
    let len = len(block);
    let (a, b) = (chance.below(u64::from(len)) as u32, chance.below(u64::from(len)) as u32 + 1);
    let range = a.min(b)..a.max(b).max(a.min(b) + 1).min(len);
    match chance.below(8) {
        0 | 1 => drop(tier.store(block, body(block)).await),
        2 => tier.keep_range(
            block,
            len,
            range.start,
            body(block).slice(range.start as usize..range.end as usize),
        ),
        3 if chance.permille(100) => drop(tier.forget(block.slice)),
        _ => match tier.read(block, len, range.clone(), false) {
            Some(bytes) => {
                assert_eq!(
                    bytes,
                    body(block).slice(range.start as usize..range.end as usize),
                    "{block:?} {range:?}"
                );
                seen.given += 1;
                seen.after_a_crash += u64::from(fresh);
            }
            None => seen.missing += 1,
        },
    }
}

async fn live(seed: u64, seen: &mut Seen) -> BTreeMap<Fault, u64> {
    let chance = SimChance::new(seed, "steps");
    let rates = match seed % 3 {
        0 => BTreeMap::new(),
        1 => BTreeMap::from([(Fault::FullDisk, 100), (Fault::FailedDisk, 20)]),
        _ => BTreeMap::from([(Fault::RottenBit, 100), (Fault::FailedSync, 100)]),
    };
    let (media, tape) = (Arc::new(DiskMedia::default()), Arc::new(Tape::new(false)));
    let fates = Arc::new(Fates::new(rates, seed));
    let settings = Settings {
        block_size: BS,
        size: 6 << 20,
        verify: if seed % 3 == 2 { Level::Always } else { Level::Extend },
        eviction: Kind::ALL[seed as usize % 4].1,
        ..Settings::default()
    };
    for round in 0..5 {
        let life = Arc::new(Life::new(chance.permille(600).then(|| chance.between(1, 120))));
        let sound = SimDisk::sound(media.clone(), life.clone(), fates.clone(), tape.clone());
        let disk: Arc<dyn Disk> = Arc::new(SimDisk { may: &Fault::OF_SPARE_DISKS, ..sound });
        let world = world(seed * 10 + round);
        let tier = Arc::new(DiskTier::open(&world, &[disk], &settings, Arc::new(MemoryTier::new(0))));
        Tender::new(world, tier.clone()).start();
        // Whatever happened before: what is given now was stored.
        for _ in 0..20 {
            step(&tier, &chance, round > 0, seen).await;
            tokio::task::yield_now().await;
        }
        for _ in 0..40 {
            step(&tier, &chance, false, seen).await;
            tokio::task::yield_now().await;
        }
        if chance.permille(400) {
            tier.close();
        }
        life.kill();
        tier.close();
        if chance.permille(700) {
            media.crash(&chance, &fates, &tape);
        }
        media.closed();
        if seed.is_multiple_of(3) && chance.permille(500) {
            rot(&media, &chance);
        }
    }
    fates.fired()
}

/// What the medium changes while nobody looks.
fn rot(media: &Arc<DiskMedia>, chance: &SimChance) {
    let Some(place) = media.folder("zest") else { return };
    for slice in 1..=8u64 {
        if let Some(folder) = place.folder(&format!("{slice:02x}")) {
            folder.rot(&slice.to_string(), chance.below(2 << 20), chance.below(8) as u8);
        }
    }
    if chance.permille(300) {
        place.rot("index", chance.below(2000), 3);
    }
}

#[test]
fn what_is_given_was_stored_whatever_the_disk_does() {
    let mut seen = Seen::default();
    let mut fired = BTreeMap::new();
    actix::System::new().block_on(async {
        for seed in 0..90 {
            for (fault, count) in live(seed, &mut seen).await {
                *fired.entry(fault).or_insert(0) += count;
            }
        }
    });
    assert!(seen.given > 1000 && seen.after_a_crash > 100 && seen.missing > 100);
    for fault in [Fault::FullDisk, Fault::FailedDisk, Fault::RottenBit, Fault::LostWrite, Fault::TornWrite] {
        assert!(fired.contains_key(&fault), "{} never happened", fault.name());
    }
}
