//! A process that dies between two syncs, and one that goes on from what it had written down: no commit is missing.

use crate::disk::TestDisk;
use crate::world::world;
use crate::{Dice, Model, change, content, put};
use futures::executor::block_on;
use std::sync::Arc;
use zest_engines::EmbeddedEngine;
use zest_metadata::Engine;
use zest_world::{Disk, DiskFile};

const INODES: u64 = 40;

/// Two files that outlive processes, and nothing else.
fn pieces() -> [Arc<dyn DiskFile>; 2] {
    let memory = TestDisk::default();
    ["one", "two"].map(|name| memory.open(name, true).unwrap())
}

#[test]
fn a_process_that_dies_between_syncs_takes_no_commit_with_it() {
    for seed in 0..20 {
        let (disk, pieces, mut dice) = (TestDisk::default(), pieces(), Dice(seed));
        let mut model = Model::new();
        for _ in 0..8 {
            let engine =
                EmbeddedEngine::open_after(Arc::new(disk.clone()), &world(), pieces.clone()).unwrap();
            assert_eq!(content(&engine, INODES), model, "seed {seed}");
            for _ in 0..dice.below(60) {
                let (ino, len) = (dice.below(INODES), 1 + dice.below(30_000) as usize);
                let target = vec![dice.roll() as u8; len];
                engine.commit_now(&change(vec![put(ino, &target)])).unwrap();
                model.insert(ino, target);
                if dice.below(9) == 0 {
                    block_on(engine.sync()).unwrap();
                }
            }
            // It dies: nothing is synced any more.
        }
        let engine = EmbeddedEngine::open_after(Arc::new(disk), &world(), pieces).unwrap();
        assert_eq!(content(&engine, INODES), model, "seed {seed}");
    }
}

#[test]
fn without_what_was_written_down_the_last_sync_counts() {
    let (disk, pieces) = (TestDisk::default(), pieces());
    let engine = EmbeddedEngine::open_after(Arc::new(disk.clone()), &world(), pieces).unwrap();
    engine.commit_now(&change(vec![put(1, b"synced")])).unwrap();
    block_on(engine.sync()).unwrap();
    engine.commit_now(&change(vec![put(1, b"not synced")])).unwrap();
    drop(engine);
    let engine = EmbeddedEngine::open(Arc::new(disk), &world()).unwrap();
    assert_eq!(content(&engine, INODES).get(&1).map(Vec::as_slice), Some(&b"synced"[..]));
}
