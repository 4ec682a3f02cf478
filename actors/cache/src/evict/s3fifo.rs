//! New files pass a short queue; those that are used again move to the main queue, the others go and are remembered
//! for a while by name: a name that comes back goes to the main queue at once. One pass over many files therefore does
//! not wash out what is used. Counted in files.

use super::{Eviction, Usage};
use crate::policy::MixState;
use std::collections::{HashMap, VecDeque};

/// The short queue may hold one in this many files.
const SHORT_SHARE: usize = 10;

/// See the head of this file.
#[derive(Default)]
pub struct S3Fifo {
    short: VecDeque<(u64, u64)>,
    main: VecDeque<(u64, u64)>,
    /// Which queue item of a key lives, and whether it is in the short queue.
    living: HashMap<u64, (u64, bool), MixState>,
    in_short: usize,
    ghosts: HashMap<u64, u64, MixState>,
    ghost_order: VecDeque<(u64, u64)>,
    stamp: u64,
}

impl S3Fifo {
    fn remember(&mut self, key: u64) {
        self.ghosts.insert(key, self.stamp);
        self.ghost_order.push_back((key, self.stamp));
        while self.ghost_order.len() > self.living.len().max(16) {
            let Some((old, stamp)) = self.ghost_order.pop_front() else { break };
            if self.ghosts.get(&old) == Some(&stamp) {
                self.ghosts.remove(&old);
            }
        }
    }

    fn lives(&self, key: u64, stamp: u64) -> bool {
        self.living.get(&key).is_some_and(|(living, _)| *living == stamp)
    }

    fn out_of_short(&mut self, usage: &mut dyn Usage) -> Option<u64> {
        while let Some((key, stamp)) = self.short.pop_front() {
            if !self.lives(key, stamp) {
                continue;
            }
            if usage.take_hits(key) > 0 {
                self.living.insert(key, (stamp, false));
                self.in_short -= 1;
                self.main.push_back((key, stamp));
                continue;
            }
            self.remove(key);
            self.stamp += 1;
            self.remember(key);
            return Some(key);
        }
        None
    }

    fn out_of_main(&mut self, usage: &mut dyn Usage) -> Option<u64> {
        // Readers go on using files meanwhile: after one round whatever comes next goes.
        let mut patience = self.main.len();
        while let Some((key, stamp)) = self.main.pop_front() {
            if !self.lives(key, stamp) {
                continue;
            }
            if patience > 0 && usage.take_hits(key) > 0 {
                patience -= 1;
                self.main.push_back((key, stamp));
                continue;
            }
            self.remove(key);
            return Some(key);
        }
        None
    }
}

impl Eviction for S3Fifo {
    fn insert(&mut self, key: u64, _used: u64) {
        self.remove(key);
        self.stamp += 1;
        let short = self.ghosts.remove(&key).is_none();
        self.living.insert(key, (self.stamp, short));
        let queue = if short { &mut self.short } else { &mut self.main };
        queue.push_back((key, self.stamp));
        self.in_short += usize::from(short);
        if self.short.len() + self.main.len() > 2 * self.living.len() + 16 {
            let living = &self.living;
            let lives = |(key, stamp): &(u64, u64)| living.get(key).is_some_and(|(one, _)| one == stamp);
            self.short.retain(lives);
            self.main.retain(lives);
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some((_, short)) = self.living.remove(&key) {
            self.in_short -= usize::from(short);
        }
    }

    fn victim(&mut self, usage: &mut dyn Usage, _draw: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
        if self.in_short * SHORT_SHARE >= self.living.len() {
            self.out_of_short(usage).or_else(|| self.out_of_main(usage))
        } else {
            self.out_of_main(usage).or_else(|| self.out_of_short(usage))
        }
    }

    fn len(&self) -> usize {
        self.living.len()
    }
}
