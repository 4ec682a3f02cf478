//! Every engine means the same by a change set: random ones meet all engines side by side, and each must answer,
//! and afterwards hold, what the pure `apply` says. The Redis engines need `redis-server`; without it their tests
//! say so and pass.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

mod draw;
mod outside;
mod redis;
mod server;

use draw::Draw;
use std::collections::BTreeMap;
use zest_engines::MemoryEngine;
use zest_metadata::apply::{Records, Refused};
use zest_metadata::map::RecordMap;
use zest_metadata::{ChangeSet, CommitError, Engine, EngineError, Key, Record, Scan, grown};
use zest_types::SliceRecord;

/// The lists a change set touches; now and then another client has made one longer.
fn known_lists(map: &RecordMap, changes: &ChangeSet, round: usize) -> BTreeMap<Key, Vec<SliceRecord>> {
    let list = |key: Key| match map.get(&key).unwrap() {
        Some(Record::Slices(list)) => Some((key, list.get(usize::from(round.is_multiple_of(5))..)?.to_vec())),
        _ => matches!(key, Key::Chunk(..)).then(|| (key, Vec::new())),
    };
    draw::touched(changes).into_iter().filter_map(list).collect()
}

/// Meets the engine and the map of records with the same change sets. Tells how many lists were not read back.
pub async fn agree(engine: &dyn Engine, seed: u64, rounds: usize) -> usize {
    let mut draw = Draw::new(seed);
    let mut map = RecordMap::default();
    let mut not_read = 0;
    for round in 0..rounds {
        let changes = if round == 0 { draw::beginning() } else { draw.changes() };
        let known = known_lists(&map, &changes, round);
        let lengths = known.iter().map(|(key, list)| (key.clone(), list.len())).collect();
        let wanted = map.commit(&changes);
        let mut got = engine.commit_knowing(&changes, &lengths).await;
        if let Ok(got) = &mut got {
            not_read += got.grown.len();
            for key in got.grown.drain(..) {
                let list = grown(&key, &known[&key], &changes);
                got.records.push((key, Some(Record::Slices(list))));
            }
        }
        match (&wanted, &got) {
            (Ok(wanted), Ok(got)) => {
                for (key, record) in &got.records {
                    // What was named and stayed as it was may be told too.
                    let other = wanted.iter().find(|(k, _)| k == key).map(|(_, record)| record.clone());
                    let other = other.unwrap_or_else(|| map.get(key).unwrap());
                    assert_eq!(*record, other, "seed {seed}, round {round}, {key:?} of {changes:?}");
                }
            }
            (Err(Refused::Conflict(wanted)), Err(CommitError::Conflict(got))) => {
                assert_eq!(got, wanted, "seed {seed}, round {round}, {changes:?}");
            }
            (
                Err(Refused::Engine(EngineError::Damaged { .. })),
                Err(CommitError::Engine(EngineError::Damaged { .. })),
            ) => {}
            _ => panic!("seed {seed}, round {round}: {changes:?} gives {got:?}, not {wanted:?}"),
        }
        if round % 16 == 0 || round + 1 == rounds {
            same_content(engine, &map, &format!("seed {seed}, round {round}, after {changes:?}")).await;
        } else {
            same_touched(engine, &map, &changes, &format!("seed {seed}, round {round}, {changes:?}")).await;
        }
    }
    not_read
}

async fn same_touched(engine: &dyn Engine, map: &RecordMap, changes: &ChangeSet, when: &str) {
    let keys = draw::touched(changes);
    same(engine, map, &keys, when).await;
}

async fn same(engine: &dyn Engine, map: &RecordMap, keys: &[Key], when: &str) {
    let wanted: Vec<Option<Record>> = keys.iter().map(|key| map.get(key).unwrap()).collect();
    let got = engine.read(keys).await.unwrap();
    for ((key, wanted), got) in keys.iter().zip(wanted).zip(got) {
        assert_eq!(got, wanted, "{key:?} {when}");
    }
}

async fn same_content(engine: &dyn Engine, map: &RecordMap, when: &str) {
    same(engine, map, &draw::all_keys(), when).await;
    same_slices(engine, map, when).await;
    for scan in draw::scans() {
        // An engine that is not alone may go on with a listing that it fetched a while ago.
        if matches!(scan, Scan::Dentries { after: Some(_), .. }) && !engine.exclusive() {
            continue;
        }
        let wanted = map.scan(&scan).unwrap();
        // Sets with an order of their own may cut elsewhere.
        let any = matches!(scan, Scan::Deleted { .. } | Scan::Sessions { .. } | Scan::Sustained { .. });
        let got = engine.scan(&scan).await.unwrap();
        if any {
            assert_eq!(got.len(), wanted.len(), "{scan:?} {when}");
            assert!(
                got.iter().all(|(key, record)| map.get(key).unwrap().as_ref() == Some(record)),
                "{scan:?}"
            );
        } else {
            assert_eq!(got, wanted, "{scan:?} {when}");
        }
    }
}

/// A page after the other gives every record that names slices, and nothing else.
async fn same_slices(engine: &dyn Engine, map: &RecordMap, when: &str) {
    let mut got = BTreeMap::new();
    let mut from = None;
    loop {
        let (page, next) = engine.slices(from).await.unwrap();
        got.extend(page);
        match next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    let names_slices =
        |key: &Key| matches!(key, Key::Chunk(..) | Key::DelayedSlices { .. } | Key::SliceRef { .. });
    let wanted = map.0.iter().filter(|(key, _)| names_slices(key));
    let wanted: BTreeMap<Key, Record> = wanted.map(|(key, record)| (key.clone(), record.clone())).collect();
    assert_eq!(got, wanted, "slices {when}");
}

#[test]
fn the_engine_in_memory_means_what_apply_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for seed in 0..4 {
        runtime.block_on(agree(&MemoryEngine::default(), seed, 400));
    }
}

#[test]
fn the_embedded_engine_means_what_apply_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for seed in 0..4 {
        let engine = outside::embedded();
        runtime.block_on(agree(&engine, seed, 400));
    }
}
