//! Slice numbers at hand, so that a write needs no question to the engine.

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zest_types::SliceId;

/// Numbers taken from the engine and not used yet.
#[derive(Default)]
pub struct SlicePool {
    free: Mutex<(Range<u64>, Range<u64>)>,
    refilling: AtomicBool,
    /// Counts how often all numbers were thrown away.
    epoch: AtomicU64,
}

impl SlicePool {
    /// A number nobody else has.
    pub fn take(&self) -> Option<SliceId> {
        let mut free = self.free.lock();
        loop {
            match free.0.next() {
                Some(0) => {}
                Some(number) => return Some(SliceId(number)),
                None if free.1.is_empty() => return None,
                None => free.0 = std::mem::take(&mut free.1),
            }
        }
    }

    /// Whether someone should fetch a batch now; the one who is told so must call [`SlicePool::add`] or
    /// [`SlicePool::give_up`].
    pub fn wants_more(&self) -> bool {
        let low = self.free.lock().1.is_empty();
        low && !self.refilling.swap(true, Ordering::AcqRel)
    }

    /// To be asked for before a batch is.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The store may have forgotten that it gave these numbers out: none of them is used any more.
    pub fn clear(&self) {
        let mut free = self.free.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        *free = (0..0, 0..0);
    }

    /// Takes a batch that was asked for in this epoch.
    pub fn add(&self, batch: Range<u64>, epoch: u64) {
        let mut free = self.free.lock();
        if self.epoch() != epoch {
            // Whoever needs one asks again.
        } else if free.0.is_empty() {
            free.0 = batch;
        } else {
            free.1 = batch;
        }
        self.refilling.store(false, Ordering::Release);
    }

    /// No batch could be had.
    pub fn give_up(&self) {
        self.refilling.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_once_and_never_zero() {
        let pool = SlicePool::default();
        assert!(pool.take().is_none() && pool.wants_more() && !pool.wants_more());
        pool.add(0..3, 0);
        assert!(pool.wants_more());
        pool.add(10..12, 0);
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).map(|id| id.0).collect();
        assert_eq!(all, [1, 2, 10, 11]);
    }

    #[test]
    fn numbers_of_before_are_thrown_away() {
        let pool = SlicePool::default();
        let epoch = pool.epoch();
        pool.add(1..10, epoch);
        pool.add(10..20, epoch);
        pool.clear();
        assert!(pool.take().is_none());
        pool.add(20..30, epoch);
        assert!(pool.take().is_none(), "it was asked for before");
        pool.add(30..40, pool.epoch());
        assert_eq!(pool.take(), Some(SliceId(30)));
    }
}
