//! What reading costs, counted, and the store's pace; shared by the actor that fetches and by whoever reports or reads
//! ahead.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zest_data::pace::{Kind, Pace};

/// What is counted. Sums since the mount began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Gets of whole blocks that were answered.
    Blocks,
    /// Gets of parts of blocks that were answered.
    Parts,
    /// Bytes that came from the store.
    FetchedBytes,
    /// Bytes that were asked for ahead of a stream of reads.
    AheadBytes,
    /// Bytes of them that the stream came to.
    AheadUsedBytes,
    /// Gets that were asked for a second time because the first was late.
    Hedges,
    /// Second gets that were answered first.
    HedgesWon,
    /// Objects whose bytes were not those of their block.
    Damaged,
    /// Objects that did not exist.
    Missing,
    /// Blocks that were not read ahead for want of room.
    AheadDropped,
}

impl Count {
    /// All of them, with the names they have in reports.
    pub const ALL: [(Count, &'static str); 10] = [
        (Count::Blocks, "blocks"),
        (Count::Parts, "parts"),
        (Count::FetchedBytes, "fetchedBytes"),
        (Count::AheadBytes, "aheadBytes"),
        (Count::AheadUsedBytes, "aheadUsedBytes"),
        (Count::Hedges, "hedges"),
        (Count::HedgesWon, "hedgesWon"),
        (Count::Damaged, "damaged"),
        (Count::Missing, "missing"),
        (Count::AheadDropped, "aheadDropped"),
    ];
}

/// Counters and pace.
#[derive(Default)]
pub struct Meter {
    counts: [AtomicU64; Count::ALL.len()],
    pace: Mutex<Pace>,
    /// Of the pace what every read wants to know, nanoseconds.
    block_time: AtomicU64,
}

impl Meter {
    /// Counts.
    pub fn add(&self, what: Count, n: u64) {
        if let Some(counter) = self.counts.get(what as usize) {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// A sum.
    #[must_use]
    pub fn get(&self, what: Count) -> u64 {
        self.counts.get(what as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// A get was answered after this long.
    pub fn note(&self, kind: Kind, took: Duration) {
        let mut pace = self.pace.lock();
        pace.note(kind, took);
        let nanos = u64::try_from(pace.block_time().as_nanos()).unwrap_or(u64::MAX);
        self.block_time.store(nanos, Ordering::Relaxed);
    }

    /// See [`Pace::late_after`].
    #[must_use]
    pub fn late_after(&self, kind: Kind) -> Option<Duration> {
        self.pace.lock().late_after(kind)
    }

    /// See [`Pace::take_hedge`].
    #[must_use]
    pub fn take_hedge(&self) -> bool {
        self.pace.lock().take_hedge()
    }

    /// See [`Pace::block_time`].
    #[must_use]
    pub fn block_time(&self) -> Duration {
        Duration::from_nanos(self.block_time.load(Ordering::Relaxed))
    }
}
