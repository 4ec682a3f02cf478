//! Memory that may be used for one purpose, counted in bytes. Taking never waits: who gets nothing decides
//! himself whether to queue, to make room or to give up.

use crate::pool::BlockPool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes shared by all clones.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: u64,
    used: AtomicU64,
    high: AtomicU64,
    pool: BlockPool,
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Budget {
        Budget::with_pool(limit, BlockPool::default())
    }

    /// A budget whose large buffers come from this pool.
    #[must_use]
    pub fn with_pool(limit: u64, pool: BlockPool) -> Budget {
        let (used, high) = (AtomicU64::new(0), AtomicU64::new(0));
        Budget { shared: Arc::new(Shared { limit, used, high, pool }) }
    }

    /// Takes bytes, all or none.
    #[must_use]
    pub fn try_take(&self, bytes: u64) -> Option<Charge> {
        let shared = &self.shared;
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= shared.limit);
        let before = shared.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        shared.high.fetch_max(before + bytes, Ordering::Relaxed);
        Some(Charge { budget: self.clone(), bytes })
    }

    /// Bytes there are in all.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.shared.limit
    }

    /// Bytes taken now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Acquire)
    }

    /// Most bytes ever taken at once.
    #[must_use]
    pub fn high_water(&self) -> u64 {
        self.shared.high.load(Ordering::Relaxed)
    }
}

/// Bytes taken from a [`Budget`]; given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Charge {
    /// How many bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where large buffers that are charged here come from.
    #[must_use]
    pub fn pool(&self) -> &BlockPool {
        &self.budget.shared.pool
    }

    /// Gives back what is more than `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.budget.shared.used.fetch_sub(surplus, Ordering::AcqRel);
    }

    /// Cuts off up to `bytes` as a charge of its own.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Charge {
        let part = bytes.min(self.bytes);
        self.bytes -= part;
        Charge { budget: self.budget.clone(), bytes: part }
    }

    /// Takes over another charge of the same budget.
    pub fn absorb(&mut self, mut other: Charge) {
        debug_assert!(Arc::ptr_eq(&self.budget.shared, &other.budget.shared));
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.shared.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn nothing_is_lost_and_nothing_is_lent_twice() {
        let budget = Budget::new(100);
        let mut a = budget.try_take(60).unwrap();
        assert!(budget.try_take(41).is_none());
        let b = budget.try_take(40).unwrap();
        let part = a.split(10);
        a.shrink_to(20);
        assert_eq!((budget.used(), a.bytes(), part.bytes()), (70, 20, 10));
        a.absorb(part);
        drop(b);
        assert_eq!(budget.used(), 30);
        drop(a);
        assert_eq!((budget.used(), budget.high_water(), budget.limit()), (0, 100, 100));
        assert!(budget.try_take(u64::MAX).is_none());
    }
}
