//! What may go wrong in a world: one value, plain data, drawn from the seed or written down in a scenario. Every
//! class of fault has a rate and a counter of how often it really happened.

use super::chance::SimChance;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A class of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fault {
    /// A request to the object store takes seconds.
    SlowObject,
    /// The object store turns a request away, before any effect; it may work later.
    RefusedObject,
    /// The object store did what it was asked, and its answer is lost.
    LostObjectReply,
    /// A read from the object store ends early.
    ShortBody,
    /// The object store turns writes away for good.
    DeniedPut,
    /// The object store has no room for a write.
    FullStore,
    /// The record store says conflict although nothing changed.
    SpuriousConflict,
    /// The record store's answer to a commit is lost; it was made.
    UnknownCommitted,
    /// The record store's answer to a commit is lost; it was not made.
    UnknownDropped,
    /// The record store does not answer for seconds.
    Stall,
    /// Blocking work waits long for a thread.
    SlowOffload,
    /// The client dies with everything it holds in memory.
    Crash,
    /// At a crash the disk lost a write that was not synced.
    LostWrite,
    /// At a crash the disk kept part of a write that was not synced.
    TornWrite,
    /// A sync of the disk fails, and what it should have saved may be gone.
    FailedSync,
    /// A disk that may be full has no room for a write.
    FullDisk,
    /// A call to a disk that may die fails.
    FailedDisk,
    /// A bit of what a disk that may rot holds has changed when it is read.
    RottenBit,
    /// The clock of a client's host is wrong from the beginning.
    SkewedClock,
    /// The clock of a client's host runs fast or slow.
    DriftingClock,
    /// The clock of a client's host is set, forward or back.
    JumpingClock,
}

impl Fault {
    /// Every class.
    pub const ALL: [Fault; 21] = [
        Fault::SlowObject,
        Fault::RefusedObject,
        Fault::LostObjectReply,
        Fault::ShortBody,
        Fault::DeniedPut,
        Fault::FullStore,
        Fault::SpuriousConflict,
        Fault::UnknownCommitted,
        Fault::UnknownDropped,
        Fault::Stall,
        Fault::SlowOffload,
        Fault::Crash,
        Fault::LostWrite,
        Fault::TornWrite,
        Fault::FailedSync,
        Fault::FullDisk,
        Fault::FailedDisk,
        Fault::RottenBit,
        Fault::SkewedClock,
        Fault::DriftingClock,
        Fault::JumpingClock,
    ];

    /// Those of clocks: only worlds with several clients have them.
    pub const OF_CLOCKS: [Fault; 3] = [Fault::SkewedClock, Fault::DriftingClock, Fault::JumpingClock];

    /// Those that only disks meet which may be lost or full: no world without such a disk has them.
    pub const OF_SPARE_DISKS: [Fault; 3] = [Fault::FullDisk, Fault::FailedDisk, Fault::RottenBit];

    /// Its name in reports and saved plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::SlowObject => "slow-object",
            Fault::RefusedObject => "refused-object",
            Fault::LostObjectReply => "lost-object-reply",
            Fault::ShortBody => "short-body",
            Fault::DeniedPut => "denied-put",
            Fault::FullStore => "full-store",
            Fault::SpuriousConflict => "spurious-conflict",
            Fault::UnknownCommitted => "unknown-committed",
            Fault::UnknownDropped => "unknown-dropped",
            Fault::Stall => "stall",
            Fault::SlowOffload => "slow-offload",
            Fault::Crash => "crash",
            Fault::LostWrite => "lost-write",
            Fault::TornWrite => "torn-write",
            Fault::FailedSync => "failed-sync",
            Fault::FullDisk => "full-disk",
            Fault::FailedDisk => "failed-disk",
            Fault::RottenBit => "rotten-bit",
            Fault::SkewedClock => "skewed-clock",
            Fault::DriftingClock => "drifting-clock",
            Fault::JumpingClock => "jumping-clock",
        }
    }

    /// The class of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// Draws faults and counts those that happened.
pub struct Fates {
    rates: BTreeMap<Fault, u32>,
    chance: SimChance,
    fired: Mutex<BTreeMap<Fault, u64>>,
}

impl Fates {
    /// The fates of a world, from rates in times per thousand; a class that is not named never happens.
    #[must_use]
    pub fn new(rates: BTreeMap<Fault, u32>, seed: u64) -> Fates {
        Fates { rates, chance: SimChance::new(seed, "faults"), fired: Mutex::default() }
    }

    /// Whether this fault happens now; counted if so.
    pub fn strikes(&self, fault: Fault) -> bool {
        let strikes = self.chance.permille(self.rate(fault));
        if strikes {
            self.count(fault);
        }
        strikes
    }

    /// How often this fault happens, in times per thousand.
    #[must_use]
    pub fn rate(&self, fault: Fault) -> u32 {
        self.rates.get(&fault).copied().unwrap_or(0)
    }

    /// A number below `end`, for what a fault hits.
    pub fn below(&self, end: u64) -> u64 {
        self.chance.below(end)
    }

    /// Counts a fault that happened by other means than a draw here.
    pub fn count(&self, fault: Fault) {
        *self.fired.lock().entry(fault).or_insert(0) += 1;
    }

    /// How often each class happened.
    #[must_use]
    pub fn fired(&self) -> BTreeMap<Fault, u64> {
        self.fired.lock().clone()
    }
}
