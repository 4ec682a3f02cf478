//! The file used longest ago goes: a heap of when files were used, put right only where it is looked at.

use super::{Eviction, Usage};
use crate::policy::MixState;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// See the head of this file.
#[derive(Default)]
pub struct Lru {
    /// When used, as far as known; which item of a key lives; the key.
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    living: HashMap<u64, u64, MixState>,
    stamp: u64,
}

impl Lru {
    fn push(&mut self, key: u64, used: u64) {
        self.stamp += 1;
        self.living.insert(key, self.stamp);
        self.heap.push(Reverse((used, self.stamp, key)));
    }
}

impl Eviction for Lru {
    fn insert(&mut self, key: u64, used: u64) {
        self.push(key, used);
        if self.heap.len() > 2 * self.living.len() + 16 {
            let living = &self.living;
            self.heap.retain(|Reverse((_, stamp, key))| living.get(key) == Some(stamp));
        }
    }

    fn remove(&mut self, key: u64) {
        self.living.remove(&key);
    }

    fn victim(&mut self, usage: &mut dyn Usage, _draw: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
        // Readers go on using files meanwhile: after one round whatever comes next goes.
        let mut patience = self.living.len();
        while let Some(Reverse((known, stamp, key))) = self.heap.pop() {
            if self.living.get(&key) != Some(&stamp) {
                continue;
            }
            let used = usage.used(key);
            if used > known && patience > 0 {
                patience -= 1;
                self.push(key, used);
                continue;
            }
            self.living.remove(&key);
            return Some(key);
        }
        None
    }

    fn len(&self) -> usize {
        self.living.len()
    }
}
