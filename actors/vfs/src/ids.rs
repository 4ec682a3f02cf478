//! Slice numbers at hand, so that a write needs no question to the engine.

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use zest_types::SliceId;

/// Numbers taken from the engine and not used yet.
#[derive(Default)]
pub struct SlicePool {
    free: Mutex<(Range<u64>, Range<u64>)>,
    refilling: AtomicBool,
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

    /// Takes a batch.
    pub fn add(&self, batch: Range<u64>) {
        let mut free = self.free.lock();
        if free.0.is_empty() {
            free.0 = batch
        } else {
            free.1 = batch
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
        pool.add(0..3);
        assert!(pool.wants_more());
        pool.add(10..12);
        let all: Vec<_> = std::iter::from_fn(|| pool.take()).map(|id| id.0).collect();
        assert_eq!(all, [1, 2, 10, 11]);
    }
}
