//! The store behind the limits of a user: bandwidth, time-outs, tries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod fake;

use bytes::Bytes;
use fake::{Fault, Heard, Store, on_one_thread, world};
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zest_data::retry::{Asker, retrying};
use zest_data::{LimitedObjects, Traffic};
use zest_world::{ObjectError, World};

const ASKER: Asker = Asker { actor: "test", subject: 0 };

fn limited(store: &Store, traffic: Traffic) -> (World, Arc<LimitedObjects>) {
    let world = world(store, &Heard::default());
    let objects = Arc::new(LimitedObjects::new(world.objects.clone(), world.clock.clone(), traffic));
    (World { objects: objects.clone(), ..world }, objects)
}

/// Whole seconds that went by.
fn seconds(since: Instant) -> u64 {
    since.elapsed().as_millis().div_ceil(100) as u64 / 10
}

#[test]
fn uploads_and_downloads_keep_within_their_rates() {
    on_one_thread(async {
        let store = Store::default();
        let (world, _) = limited(&store, Traffic { upload: 1000, download: 4000, ..Traffic::default() });
        let body = Bytes::from(vec![7; 2000]);
        let begun = Instant::now();
        let puts = (0..10).map(|n| world.objects.put(&format!("k{n}_0_2000"), body.clone()));
        assert!(join_all(puts).await.into_iter().all(|put| put.is_ok()));
        assert_eq!(seconds(begun), 20);
        let begun = Instant::now();
        let gets = (0..10).map(|n| world.objects.get(&format!("k{n}_0_2000"), None));
        assert!(join_all(gets).await.into_iter().all(|got| got.unwrap() == body));
        assert!((4..=5).contains(&seconds(begun)), "{:?}: the lines are two", begun.elapsed());
        let begun = Instant::now();
        let gets = (0..10).map(|n| world.objects.get(&format!("k{n}_0_2000"), Some(0..200)));
        assert!(join_all(gets).await.into_iter().all(|got| got.unwrap().len() == 200));
        assert!(begun.elapsed() < Duration::from_secs(1), "a part costs what it brings");
    });
}

#[test]
fn what_came_and_was_not_expected_is_paid_later_and_what_did_not_come_is_not() {
    on_one_thread(async {
        let store = Store::default();
        let (world, _) = limited(&store, Traffic { download: 1000, ..Traffic::default() });
        store.0.lock().objects.insert("no size".into(), Bytes::from(vec![7; 5000]));
        store.0.lock().objects.insert("small_0_9999".into(), Bytes::from(vec![7; 10]));
        let begun = Instant::now();
        world.objects.get("no size", None).await.unwrap();
        assert_eq!(seconds(begun), 0);
        world.objects.get("no size", Some(0..1000)).await.unwrap();
        assert!((5..=6).contains(&seconds(begun)), "{:?}", begun.elapsed());
        let begun = Instant::now();
        assert!(world.objects.get("missing_0_1000", None).await.is_err());
        world.objects.get("small_0_9999", None).await.unwrap();
        let until = seconds(begun);
        assert!((9..=11).contains(&until), "{until}: nobody knew that it is small");
        world.objects.get("no size", Some(0..100)).await.unwrap();
        assert_eq!(seconds(begun), until, "what was kept for it is for others");
    });
}

#[test]
fn who_gives_up_in_the_line_leaves_his_bytes_to_others_and_a_new_rate_holds_at_once() {
    on_one_thread(async {
        let store = Store::default();
        let (world, objects) = limited(&store, Traffic { upload: 1000, ..Traffic::default() });
        let large = world.objects.put("large", Bytes::from(vec![0; 1_000_000]));
        let begun = Instant::now();
        assert!(tokio::time::timeout(Duration::from_secs(1), large).await.is_err());
        world.objects.put("small", Bytes::from(vec![0; 1000])).await.unwrap();
        assert!(seconds(begun) <= 2, "{:?}", begun.elapsed());
        assert!(!store.has("large"));
        let large = tokio::task::spawn_local(world.objects.put("large", Bytes::from(vec![0; 1_000_000])));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        objects.set_limits(1_000_000, 0);
        large.await.unwrap().unwrap();
        assert!(seconds(begun) <= 2, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_request_that_hangs_is_given_up_after_its_time_and_waiting_in_the_line_is_not_its_time() {
    on_one_thread(async {
        let store = Store::default();
        let (get_timeout, put_timeout) = (Duration::from_secs(2), Duration::from_secs(5));
        let traffic = Traffic { get_timeout, put_timeout, retries: 3, upload: 100, download: 0 };
        let (world, _) = limited(&store, traffic);
        store
            .choose(|call, _| (Duration::ZERO, if call.key == "hangs" { Fault::Never } else { Fault::None }));
        let begun = Instant::now();
        let error = world.objects.get("hangs", None).await.unwrap_err();
        assert_eq!((error.is_transient(), seconds(begun)), (true, 2));
        let begun = Instant::now();
        assert!(world.objects.delete("hangs").await.is_err());
        assert_eq!(seconds(begun), 5);
        let begun = Instant::now();
        world.objects.put("slow", Bytes::from(vec![0; 2000])).await.unwrap();
        assert_eq!(seconds(begun), 20, "longer than a put may take");
        let begun = Instant::now();
        let get = retrying(world.clone(), ASKER, "hangs".into(), |world, key| world.objects.get(key, None));
        assert!(matches!(get.await, Err(ObjectError::Transient { .. })));
        assert_eq!(store.count("get"), 1 + 4, "tried, and tried again three times");
        assert!((8..=12).contains(&seconds(begun)), "{:?}", begun.elapsed());
    });
}
