//! What goes wrong with a simulated server and its machine: each with a rate and a count of how often it really
//! happened to somebody.

use crate::devices::SimChance;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A class of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mishap {
    /// The process forks for a snapshot or a new log, and stands still.
    ForkStall,
    /// A sync of the log takes long, and writes wait for it.
    SyncPause,
    /// A snapshot fails.
    FailedSave,
    /// A write was refused because snapshots fail.
    Misconf,
    /// The process dies and is started again.
    Restart,
    /// The machine loses its power and starts again.
    PowerCut,
    /// A command was refused because records are being loaded.
    Loading,
    /// A write was refused by a replica.
    ReadOnly,
    /// A write was refused for lack of memory.
    OutOfMemory,
    /// A key was thrown away for lack of memory.
    Evicted,
    /// A replica becomes the primary.
    FailOver,
    /// The new primary did not have everything that was answered.
    LostTail,
    /// The process does not run for a while, and nothing says so.
    Frozen,
    /// A connection is closed between two commands.
    KilledConnection,
    /// A connection is closed, and a command on its way is lost.
    LostCommand,
    /// A connection is closed after a command took effect, and the reply is lost.
    LostReply,
    /// A command of one connection arrives late.
    SlowCommand,
}

impl Mishap {
    /// Every class.
    pub const ALL: [Mishap; 17] = [
        Mishap::ForkStall,
        Mishap::SyncPause,
        Mishap::FailedSave,
        Mishap::Misconf,
        Mishap::Restart,
        Mishap::PowerCut,
        Mishap::Loading,
        Mishap::ReadOnly,
        Mishap::OutOfMemory,
        Mishap::Evicted,
        Mishap::FailOver,
        Mishap::LostTail,
        Mishap::Frozen,
        Mishap::KilledConnection,
        Mishap::LostCommand,
        Mishap::LostReply,
        Mishap::SlowCommand,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> String {
        let text = format!("{self:?}");
        let mut out = String::new();
        for letter in text.chars() {
            if letter.is_ascii_uppercase() && !out.is_empty() {
                out.push('-');
            }
            out.push(letter.to_ascii_lowercase());
        }
        out
    }

    /// The class that an error reply belongs to.
    #[must_use]
    pub fn of_reply(text: &str) -> Option<Mishap> {
        match text.split(' ').next()? {
            "MISCONF" => Some(Mishap::Misconf),
            "LOADING" => Some(Mishap::Loading),
            "READONLY" => Some(Mishap::ReadOnly),
            "OOM" => Some(Mishap::OutOfMemory),
            _ => None,
        }
    }
}

/// Draws mishaps and counts those that happened. Rates are in times per thousand: commands for those of connections,
/// seconds for those of machines.
pub struct Mishaps {
    rates: RefCell<BTreeMap<Mishap, u32>>,
    chance: SimChance,
    fired: RefCell<BTreeMap<Mishap, u64>>,
}

impl Mishaps {
    /// Those of a world; a class without a rate never strikes.
    #[must_use]
    pub fn new(rates: BTreeMap<Mishap, u32>, seed: u64) -> Mishaps {
        Mishaps {
            rates: RefCell::new(rates),
            chance: SimChance::new(seed, "mishaps"),
            fired: RefCell::default(),
        }
    }

    /// From now on things strike this often.
    pub fn rate(&self, rates: BTreeMap<Mishap, u32>) {
        *self.rates.borrow_mut() = rates;
    }

    /// Nothing strikes from now on.
    pub fn calm(&self) {
        self.rates.borrow_mut().clear();
    }

    /// Whether this strikes now; not counted yet.
    pub fn strikes(&self, mishap: Mishap) -> bool {
        let rate = self.rates.borrow().get(&mishap).copied().unwrap_or(0);
        rate > 0 && self.chance.permille(rate)
    }

    /// The same for a part of a second, `parts` of which make one.
    pub fn strikes_within(&self, mishap: Mishap, parts: u32) -> bool {
        let rate = self.rates.borrow().get(&mishap).copied().unwrap_or(0);
        rate > 0 && self.chance.below(1000 * u64::from(parts)) < u64::from(rate)
    }

    /// A number from `low` to `high`.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        self.chance.between(low, high)
    }

    /// It happened.
    pub fn count(&self, mishap: Mishap) {
        *self.fired.borrow_mut().entry(mishap).or_insert(0) += 1;
    }

    /// How often each class happened.
    #[must_use]
    pub fn fired(&self) -> BTreeMap<Mishap, u64> {
        self.fired.borrow().clone()
    }
}
