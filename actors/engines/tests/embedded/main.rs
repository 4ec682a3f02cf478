//! The embedded engine on a disk that forgets: what it answers, what survives, and what it says when the disk
//! fails.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod answers;
mod crash;
mod disk;
mod faults;
mod recent;
mod together;
mod waiting;
mod world;

use std::collections::BTreeMap;
use zest_engines::EmbeddedEngine;
use zest_metadata::{ChangeSet, Key, Record, Write};
use zest_types::Ino;

/// Splitmix64: chance for tests, the same for the same seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
}

/// Records that tests write: the symlink targets of some inodes.
pub type Model = BTreeMap<u64, Vec<u8>>;

pub fn put(ino: u64, target: &[u8]) -> Write {
    Write::Put(Key::Symlink(Ino(ino)), Record::Bytes(target.to_vec()))
}

pub fn change(write: Vec<Write>) -> ChangeSet {
    ChangeSet { expect: Vec::new(), write }
}

/// What the engine has under the inodes below `n`.
pub fn content(engine: &EmbeddedEngine, n: u64) -> Model {
    let keys: Vec<Key> = (0..n).map(|ino| Key::Symlink(Ino(ino))).collect();
    let found = engine.read_now(&keys).unwrap();
    let present = |(ino, record)| match record {
        Some(Record::Bytes(target)) => Some((ino, target)),
        None => None,
        other => panic!("{other:?}"),
    };
    (0..n).zip(found).filter_map(present).collect()
}
