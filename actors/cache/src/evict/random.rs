//! Two files are drawn by lot, the one that was used longer ago goes.

use super::{Eviction, Usage};
use crate::policy::MixState;
use std::collections::HashMap;

/// See the head of this file.
#[derive(Default)]
pub struct TwoRandom {
    keys: Vec<u64>,
    places: HashMap<u64, usize, MixState>,
}

impl Eviction for TwoRandom {
    fn insert(&mut self, key: u64, _used: u64) {
        if !self.places.contains_key(&key) {
            self.places.insert(key, self.keys.len());
            self.keys.push(key);
        }
    }

    fn remove(&mut self, key: u64) {
        let Some(place) = self.places.remove(&key) else { return };
        self.keys.swap_remove(place);
        if let Some(moved) = self.keys.get(place) {
            self.places.insert(*moved, place);
        }
    }

    fn victim(&mut self, usage: &mut dyn Usage, draw: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
        let count = self.keys.len() as u64;
        if count == 0 {
            return None;
        }
        let first = draw(count);
        // Another one, where there is another.
        let second = if count > 1 { (first + 1 + draw(count - 1)) % count } else { first };
        let key = |at: u64| usize::try_from(at).ok().and_then(|at| self.keys.get(at)).copied();
        let (first, second) = (key(first)?, key(second)?);
        let gone = if usage.used(second) < usage.used(first) { second } else { first };
        self.remove(gone);
        Some(gone)
    }

    fn len(&self) -> usize {
        self.keys.len()
    }
}
