//! What happens in a world, as plain data: its faults, and the rounds of steps its users take. Drawn from a seed,
//! written down in a scenario, saved as text, shrunk by leaving parts out.

pub mod draw;
pub mod more;
pub mod step;

use crate::devices::Fault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use step::{Path, Step};

/// Where the records live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineKind {
    /// The embedded engine on the simulated disk.
    Embedded,
    /// The simulated record store.
    Records,
}

/// How a round ends, if its client does not die before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The volume is unmounted in good order.
    Unmount,
    /// The power is cut.
    Cut,
}

/// One incarnation of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// What each user does, at the same time.
    pub users: Vec<Vec<Step>>,
    /// The effect on the outside at which the client dies, if it gets that far.
    pub dies_at: Option<u64>,
    /// Only effects on this device are counted, `disk` for example; all where it is empty.
    #[serde(default)]
    pub dies_in: String,
    /// What happens when all users are done.
    pub ending: Ending,
    /// Hours for which nobody uses the volume before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub later: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Round {
    /// A round that nothing cuts short.
    #[must_use]
    pub fn of(users: Vec<Vec<Step>>, ending: Ending) -> Round {
        Round { users, dies_at: None, dies_in: String::new(), ending, later: 0 }
    }
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Decides everything that is not written here.
    pub seed: u64,
    /// Where the records live.
    pub engine: EngineKind,
    /// KiB of a block.
    pub block_kib: u32,
    /// Days in the trash.
    pub trash_days: u32,
    /// Bytes of unflushed writes.
    pub write_budget: u64,
    /// Bytes of blocks kept in memory.
    pub cache: u64,
    /// Rates of faults, in times per thousand.
    pub faults: BTreeMap<Fault, u32>,
    /// One incarnation after the other.
    pub rounds: Vec<Round>,
    /// There is a place for copies of files, which users never look at.
    #[serde(default)]
    pub copies: bool,
    /// Two directories have a quota that is never reached, and usage of owners is kept.
    #[serde(default)]
    pub quotas: bool,
}

impl Setup {
    /// A world without faults and steps, to be filled in.
    #[must_use]
    pub fn calm(seed: u64, engine: EngineKind) -> Setup {
        Setup {
            seed,
            engine,
            block_kib: 64,
            trash_days: 0,
            write_budget: 16 << 20,
            cache: 4 << 20,
            faults: BTreeMap::new(),
            rounds: Vec::new(),
            copies: false,
            quotas: false,
        }
    }

    /// With this fault at this rate, in times per thousand.
    #[must_use]
    pub fn fault(mut self, fault: Fault, permille: u32) -> Setup {
        self.faults.insert(fault, permille);
        self
    }

    /// With one more round.
    #[must_use]
    pub fn round(mut self, users: Vec<Vec<Step>>, ending: Ending) -> Setup {
        self.rounds.push(Round::of(users, ending));
        self
    }

    /// Number of steps of all users in all rounds.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.rounds.iter().flat_map(|round| &round.users).map(Vec::len).sum()
    }
}
