//! A disk that is full or fails: what was acknowledged stays, what was not is kept for another try, reads go on.

use crate::disk::{Sync, TestDisk};
use crate::world::world;
use crate::{change, content, put};
use futures::executor::block_on;
use std::sync::Arc;
use zest_engines::EmbeddedEngine;
use zest_metadata::{CommitError, Engine, EngineError};

fn fill(engine: &EmbeddedEngine, inodes: std::ops::Range<u64>, bytes: usize) {
    for ino in inodes {
        engine.commit_now(&change(vec![put(ino, &vec![ino as u8; bytes])])).unwrap();
    }
}

#[test]
fn a_full_disk_loses_nothing_and_the_next_sync_with_room_succeeds() {
    let disk = TestDisk::default();
    let engine = EmbeddedEngine::open(Arc::new(disk.clone()), &world()).unwrap();
    fill(&engine, 0..20, 1000);
    block_on(engine.sync()).unwrap();
    disk.set_room(Some(disk.used()));
    fill(&engine, 20..60, 200_000);
    let before = content(&engine, 60);
    assert_eq!(before.len(), 60);
    for _ in 0..2 {
        let error = block_on(engine.sync()).unwrap_err();
        assert!(matches!(error, EngineError::Full(_)), "{error}");
        assert_eq!(content(&engine, 60), before, "after: {error}");
    }
    // Commits go on in memory and join the batch that waits.
    fill(&engine, 30..31, 500);
    let before = content(&engine, 60);
    disk.set_room(None);
    block_on(engine.sync()).unwrap();
    drop(engine);
    let again = EmbeddedEngine::open(Arc::new(disk), &world()).unwrap();
    assert_eq!(content(&again, 60), before);
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    let disk = TestDisk::default();
    let engine = EmbeddedEngine::open(Arc::new(disk.clone()), &world()).unwrap();
    fill(&engine, 0..5, 100);
    block_on(engine.sync()).unwrap();
    fill(&engine, 5..9, 100);
    disk.set_sync(Sync::Fails);
    let error = block_on(engine.sync()).unwrap_err();
    assert!(error.to_string().contains("mount again"), "{error}");
    disk.set_sync(Sync::Works);
    block_on(engine.sync()).unwrap_err();
    let refused = block_on(engine.commit(&change(vec![put(1, b"x")]))).unwrap_err();
    assert!(matches!(refused, CommitError::Engine(EngineError::Failed(_))), "{refused:?}");
    assert_eq!(content(&engine, 9).len(), 9, "reads go on");
}

#[test]
fn memory_for_commits_is_bounded() {
    let disk = TestDisk::default();
    let engine = EmbeddedEngine::open(Arc::new(disk.clone()), &world()).unwrap();
    let megabyte = vec![1; 1 << 20];
    for ino in 0..80 {
        block_on(engine.commit(&change(vec![put(ino, &megabyte)]))).unwrap();
    }
    assert!(disk.used() > zest_types::limits::META_BUFFER, "{} bytes on disk", disk.used());
    // And when they can't be written, commits are refused before memory runs out.
    disk.set_room(Some(disk.used()));
    let refused = (80..240).find_map(|ino| block_on(engine.commit(&change(vec![put(ino, &megabyte)]))).err());
    let refused = refused.expect("commits were taken without end");
    assert!(matches!(refused, CommitError::Engine(EngineError::Full(_))), "{refused:?}");
}
