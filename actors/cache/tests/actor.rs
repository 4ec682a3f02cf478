//! The cache actor over a store that misbehaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

#[path = "../../uploader/tests/fake/mod.rs"]
mod fake;

use actix::prelude::*;
use bytes::Bytes;
use fake::{Fault, Heard, Store, on_one_thread, world};
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use zest_cache::flights::Bounds;
use zest_cache::{CacheActor, Count, Fetch, FetchError, FetchPart, MemoryTier, Meter, Part, Prefetch};
use zest_data::{BlockCodec, BlockId};
use zest_types::SliceId;
use zest_types::limits::{DAMAGED_TRIES, DOWNLOADS, PART_SIZE};
use zest_world::ObjectError;

fn scene() -> (Store, Arc<MemoryTier>, Addr<CacheActor>) {
    scene_of(Arc::new(BlockCodec::plain()))
}

fn scene_of(codec: Arc<BlockCodec>) -> (Store, Arc<MemoryTier>, Addr<CacheActor>) {
    let (store, tier) = (Store::default(), Arc::new(MemoryTier::new(64 << 20)));
    let actor = CacheActor::new(world(&store, &Heard::default()), tier.clone(), codec);
    (store, tier, actor.start())
}

fn block(n: u64) -> BlockId {
    BlockId { slice: SliceId(n), index: 0 }
}

fn body(n: u64) -> Bytes {
    Bytes::from(vec![n as u8; 1000])
}

fn fetch(n: u64) -> Fetch {
    Fetch { block: block(n), len: 1000, key: format!("k{n}") }
}

fn fill(store: &Store, count: u64) {
    for n in 0..count {
        store.0.lock().objects.insert(format!("k{n}"), body(n));
    }
}

#[test]
fn many_who_ask_at_once_cause_one_get() {
    on_one_thread(async {
        let (store, tier, cache) = scene();
        fill(&store, 1);
        store.choose(|_, _| (Duration::from_millis(5), Fault::None));
        let answers = join_all((0..50).map(|_| cache.send(fetch(0)))).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().unwrap() == body(0)));
        assert_eq!(store.count("get"), 1);
        assert_eq!(tier.get(&block(0)), Some(body(0)));
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Ok(body(0)));
        assert_eq!(store.count("get"), 1, "the second time it comes from memory");
    });
}

#[test]
fn gets_under_way_are_bounded() {
    on_one_thread(async {
        let (store, _, cache) = scene();
        fill(&store, 200);
        store.choose(|_, _| (Duration::from_millis(5), Fault::None));
        let answers = join_all((0..200).map(|n| cache.send(fetch(n)))).await;
        assert!(answers.into_iter().zip(0..).all(|(answer, n)| answer.unwrap().unwrap() == body(n)));
        assert_eq!(store.0.lock().most_under_way, DOWNLOADS);
    });
}

#[test]
fn a_short_body_is_tried_again_a_few_times_and_never_filled_up() {
    on_one_thread(async {
        let (store, tier, cache) = scene();
        fill(&store, 2);
        store.choose(|call, before| {
            let short = call.key == "k1" || before + 1 < DAMAGED_TRIES as usize;
            (Duration::ZERO, if short { Fault::Short } else { Fault::None })
        });
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Ok(body(0)));
        assert_eq!(store.count("get"), DAMAGED_TRIES as usize);
        let error = cache.send(fetch(1)).await.unwrap().unwrap_err();
        let FetchError::Damaged { key, why } = error else { panic!("{error:?}") };
        assert_eq!((key.as_str(), why.as_str()), ("k1", "999 bytes came, 1000 are needed"));
        assert_eq!(store.count("get"), 2 * DAMAGED_TRIES as usize);
        assert!(!tier.contains(&block(1)));
    });
}

const LEN: u32 = PART_SIZE * 16;

fn long(store: &Store) -> Bytes {
    let data: Bytes = (0..LEN).map(|n| (n / 5) as u8).collect::<Vec<_>>().into();
    store.0.lock().objects.insert("k0".into(), data.clone());
    data
}

fn part(range: std::ops::Range<u32>) -> FetchPart {
    FetchPart { block: block(0), len: LEN, key: "k0".into(), range, stream: false }
}

#[test]
fn little_is_fetched_of_a_block_until_it_is_wanted_again_and_again() {
    on_one_thread(async {
        let (store, tier, cache) = scene();
        let data = long(&store);
        let got = join_all((0..9).map(|n| cache.send(part(5000 + n..5001 + n)))).await;
        let first = Part { start: 0, data: data.slice(..PART_SIZE as usize) };
        assert!(got.into_iter().all(|part| part.unwrap() == Ok(first.clone())));
        assert_eq!((store.count("get part"), store.count("get")), (1, 0), "one get for all");
        let mut pieces = Vec::new();
        assert!(tier.read(&block(0), &(7..99), &mut pieces));
        assert_eq!(pieces.concat(), data[7..99]);
        for n in 1..4 {
            let got = cache.send(part(n * PART_SIZE..n * PART_SIZE + 1)).await.unwrap().unwrap();
            assert_eq!((got.start, got.data.len()), (n * PART_SIZE, PART_SIZE as usize));
        }
        assert_eq!((store.count("get part"), store.count("get")), (4, 0));
        assert_eq!(cache.send(part(LEN - 9..LEN)).await.unwrap(), Ok(Part { start: 0, data: data.clone() }));
        assert_eq!((store.count("get part"), store.count("get")), (4, 1));
        assert_eq!(tier.get(&block(0)), Some(data));
    });
}

#[test]
fn a_stream_an_encoded_block_and_a_store_that_is_bad_at_ranges_get_whole_blocks() {
    on_one_thread(async {
        let (store, _, cache) = scene();
        let data = long(&store);
        let all = Part { start: 0, data: data.clone() };
        assert_eq!(cache.send(FetchPart { stream: true, ..part(0..1) }).await.unwrap(), Ok(all.clone()));
        assert_eq!((store.count("get part"), store.count("get")), (0, 1));

        let (store, _, cache) = scene();
        long(&store);
        store.choose(|call, _| match call.verb {
            "get part" => (Duration::ZERO, Fault::Short),
            _ => (Duration::ZERO, Fault::None),
        });
        assert_eq!(cache.send(part(0..1)).await.unwrap(), Ok(all.clone()));
        assert_eq!((store.count("get part"), store.count("get")), (2, 1));

        let codec = fake::codec();
        let (store, _, cache) = scene_of(codec.clone());
        let chance = world(&store, &Heard::default()).chance;
        store.0.lock().objects.insert("k0".into(), codec.encode(data, &*chance).unwrap());
        assert_eq!(cache.send(part(0..1)).await.unwrap(), Ok(all));
        assert_eq!((store.count("get part"), store.count("get")), (0, 1));
    });
}

#[test]
fn what_is_late_is_asked_for_again_and_only_few_times() {
    on_one_thread(async {
        let (store, meter) = (Store::default(), Arc::new(Meter::default()));
        let codec = Arc::new(BlockCodec::plain());
        let bounds = Bounds { running: 4, bytes: 1 << 30, prefetches: 4 };
        let actor = CacheActor::new(world(&store, &Heard::default()), Arc::new(MemoryTier::new(0)), codec);
        let cache = actor.with(meter.clone(), bounds).start();
        fill(&store, 1);
        let slow = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_slow = slow.clone();
        store.choose(move |_, before| {
            let late = is_slow.load(std::sync::atomic::Ordering::Relaxed) && before % 2 == 0;
            (Duration::from_millis(if late { 30_000 } else { 20 }), Fault::None)
        });
        for _ in 0..100 {
            cache.send(fetch(0)).await.unwrap().unwrap();
        }
        assert_eq!(meter.get(Count::Hedges), 0, "nothing was late");
        assert_eq!(meter.block_time(), Duration::from_millis(20));
        slow.store(true, std::sync::atomic::Ordering::Relaxed);
        let begun = tokio::time::Instant::now();
        cache.send(fetch(0)).await.unwrap().unwrap();
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        assert_eq!((meter.get(Count::Hedges), meter.get(Count::HedgesWon)), (1, 1));
        for _ in 0..40 {
            cache.send(fetch(0)).await.unwrap().unwrap();
        }
        let hedges = meter.get(Count::Hedges);
        assert!((4..8).contains(&hedges), "{hedges} of 41: a store that is slow for all is not asked twice");
    });
}

#[test]
fn surplus_bytes_are_cut_off() {
    on_one_thread(async {
        let (store, _, cache) = scene();
        store.0.lock().objects.insert("k0".into(), Bytes::from(vec![0; 1001]));
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Ok(body(0)));
    });
}

#[test]
fn what_does_not_exist_is_said_at_once_and_asked_again_next_time() {
    on_one_thread(async {
        let (store, _, cache) = scene();
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Err(FetchError::NotFound("k0".into())));
        assert_eq!(store.count("get"), 1);
        fill(&store, 1);
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Ok(body(0)));
    });
}

#[test]
fn a_get_without_an_answer_is_tried_again() {
    on_one_thread(async {
        let (store, _, cache) = scene();
        fill(&store, 1);
        store.choose(|_, before| (Duration::ZERO, if before == 0 { Fault::Never } else { Fault::None }));
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Ok(body(0)));
    });
}

#[test]
fn a_panic_in_a_get_fails_that_fetch_only() {
    on_one_thread(async {
        let (store, _, cache) = scene();
        fill(&store, 2);
        store.choose(|call, _| (Duration::ZERO, if call.key == "k0" { Fault::Panic } else { Fault::None }));
        let error = cache.send(fetch(0)).await.unwrap().unwrap_err();
        assert!(matches!(error, FetchError::Store(ObjectError::Transient { .. })), "{error:?}");
        assert_eq!(cache.send(fetch(1)).await.unwrap(), Ok(body(1)));
    });
}

#[test]
fn a_prefetched_block_is_there_when_wanted() {
    on_one_thread(async {
        let (store, tier, cache) = scene();
        fill(&store, 3);
        let Fetch { block, len, key } = fetch(2);
        cache.send(Prefetch { block, len, key }).await.unwrap();
        assert_eq!(cache.send(fetch(2)).await.unwrap(), Ok(body(2)));
        assert!(tier.contains(&block));
        let Fetch { block, len, key } = fetch(2);
        cache.send(Prefetch { block, len, key }).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(store.count("get"), 1);
    });
}

#[test]
fn encoded_blocks_are_decoded_once_and_damaged_ones_never_shown() {
    on_one_thread(async {
        let codec = fake::codec();
        let (store, tier, cache) = scene_of(codec.clone());
        let chance = world(&store, &Heard::default()).chance;
        let stored = codec.encode(body(0), &*chance).unwrap();
        let mut damaged = stored.to_vec();
        damaged[300] ^= 1;
        store.0.lock().objects.insert("k0".into(), stored);
        store.0.lock().objects.insert("k1".into(), damaged.into());
        store.choose(|call, before| {
            let short = call.key == "k0" && before < 2;
            (Duration::ZERO, if short { Fault::Short } else { Fault::None })
        });
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Ok(body(0)));
        assert_eq!(tier.get(&block(0)), Some(body(0)), "plain");
        assert_eq!(store.count("get"), 3, "cut short twice");
        let error = cache.send(fetch(1)).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("object k1 is damaged: it can't be decrypted"), "{error}");
        assert!(!tier.contains(&block(1)));
    });
}
