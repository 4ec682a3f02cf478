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
use zest_cache::{CacheActor, Fetch, FetchError, MemoryTier, Prefetch};
use zest_data::{BlockCodec, BlockId};
use zest_types::SliceId;
use zest_types::limits::{DOWNLOADS, OBJECT_RETRIES};
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
fn a_short_body_is_tried_again_and_never_filled_up() {
    on_one_thread(async {
        let (store, tier, cache) = scene();
        fill(&store, 2);
        store.choose(|call, before| {
            let short = call.key == "k1" || before < 3;
            (Duration::ZERO, if short { Fault::Short } else { Fault::None })
        });
        assert_eq!(cache.send(fetch(0)).await.unwrap(), Ok(body(0)));
        assert_eq!(store.count("get"), 4);
        let error = cache.send(fetch(1)).await.unwrap().unwrap_err();
        let FetchError::Store(ObjectError::Transient { key, why }) = error else { panic!("{error:?}") };
        assert_eq!((key.as_str(), why.as_str()), ("k1", "999 bytes came, 1000 are needed"));
        assert_eq!(store.count("get"), 4 + OBJECT_RETRIES as usize);
        assert!(!tier.contains(&block(1)));
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
        assert!(error.to_string().contains("object k1: it can't be decrypted"), "{error}");
        assert!(!tier.contains(&block(1)));
    });
}
