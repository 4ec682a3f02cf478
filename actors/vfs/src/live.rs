//! What of a mount may change while it serves: the volume's limits and trash days, which other clients may set, and
//! whether changes are taken at all. Every thread reads it with each request, so each value stands by itself.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use zest_types::volume::Settings;

/// Values of a mount that may change.
#[derive(Debug, Default)]
pub struct Live {
    capacity: AtomicU64,
    inodes: AtomicU64,
    trash_days: AtomicU32,
    frozen: AtomicBool,
}

impl Live {
    /// The values these settings have.
    #[must_use]
    pub fn new(settings: &Settings) -> Live {
        let live = Live::default();
        live.take(settings);
        live
    }

    /// Takes over new settings.
    pub fn take(&self, settings: &Settings) {
        self.capacity.store(settings.capacity, Ordering::Relaxed);
        self.inodes.store(settings.inodes, Ordering::Relaxed);
        self.trash_days.store(settings.trash_days, Ordering::Relaxed);
    }

    /// Bytes and inodes the volume may hold; 0 means no limit.
    #[must_use]
    pub fn capacity(&self) -> (u64, u64) {
        (self.capacity.load(Ordering::Relaxed), self.inodes.load(Ordering::Relaxed))
    }

    /// Days for which removed files stay in the trash; 0 means no trash.
    #[must_use]
    pub fn trash_days(&self) -> u32 {
        self.trash_days.load(Ordering::Relaxed)
    }

    /// Refuses changes from now on, or takes them again; answers whether that is new. What was written before goes
    /// on its way.
    pub fn freeze(&self, frozen: bool) -> bool {
        self.frozen.swap(frozen, Ordering::AcqRel) != frozen
    }

    /// Whether changes are refused.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }
}
