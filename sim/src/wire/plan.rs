//! What happens in a wire world, as plain data.

use crate::devices::Fault;
use crate::plan::Step;
use crate::redis::machine::Mishap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireSetup {
    /// Decides everything that is not written here.
    pub seed: u64,
    /// What the users of each client do, all at the same time.
    pub clients: Vec<Vec<Vec<Step>>>,
    /// How often each client writes its own file, and reads those of the others.
    pub ledger: u32,
    /// Changes are committed by script; else by WATCH, MULTI and EXEC.
    pub scripts: bool,
    /// Clients ask to be told what others change.
    pub push: bool,
    /// How long clients believe records, in milliseconds.
    pub lease_ms: u64,
    /// What goes wrong with the server: per thousand commands or seconds.
    pub mishaps: BTreeMap<Mishap, u32>,
    /// What goes wrong with the object store and the clients' threads, per thousand.
    pub faults: BTreeMap<Fault, u32>,
    /// GiB the server pretends to have.
    pub gib: u64,
    /// Seconds between snapshots; none where it is 0.
    pub save_every: u64,
    /// How far the replica is behind, in milliseconds; there is none without.
    pub lag_ms: Option<u64>,
    /// What a message takes at most, in milliseconds.
    pub latency_ms: u64,
    /// Days in the trash.
    pub trash_days: u32,
    /// How often each of two users of a client locks something.
    #[serde(default)]
    pub locks: u32,
    /// How often each of two users of a client counts, under a lock.
    #[serde(default)]
    pub counts: u32,
    /// Directories `x` and `y` have a quota that is never reached.
    #[serde(default)]
    pub quotas: bool,
    /// The client that dies, and how many milliseconds after everybody has begun.
    #[serde(default)]
    pub dies: Option<(usize, u64)>,
    /// Seconds between heartbeats of sessions.
    #[serde(default = "twelve")]
    pub heartbeat: u64,
    /// Milliseconds in which messages move.
    #[serde(default = "one")]
    pub tick_ms: u64,
    /// Users go on until the world is so old, beginning again with their steps; once through where it is 0.
    pub seconds: u64,
}

fn twelve() -> u64 {
    12
}

fn one() -> u64 {
    1
}

impl WireSetup {
    /// A world in which nothing happens and nothing goes wrong.
    #[must_use]
    pub fn calm(seed: u64) -> WireSetup {
        WireSetup {
            seed,
            clients: Vec::new(),
            ledger: 0,
            scripts: true,
            push: false,
            lease_ms: 0,
            mishaps: BTreeMap::new(),
            faults: BTreeMap::new(),
            gib: 4,
            save_every: 0,
            lag_ms: None,
            latency_ms: 3,
            trash_days: 0,
            locks: 0,
            counts: 0,
            quotas: false,
            dies: None,
            heartbeat: twelve(),
            tick_ms: one(),
            seconds: 0,
        }
    }

    /// Whether requests may fail with input/output errors in this world.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        let refusing = [
            Mishap::FailedSave,
            Mishap::OutOfMemory,
            Mishap::LostTail,
            Mishap::FailOver,
            Mishap::PowerCut,
            Mishap::Evicted,
        ];
        refusing.iter().any(|mishap| self.mishaps.contains_key(mishap))
    }

    /// Whether clocks of clients are wrong in this world.
    #[must_use]
    pub fn has_wrong_clocks(&self) -> bool {
        Fault::OF_CLOCKS.iter().any(|fault| self.faults.contains_key(fault))
    }

    /// How wrong the clock of a client may be: together less than sessions of the living are safe from. A heartbeat.
    #[must_use]
    pub fn most_wrong(&self) -> Duration {
        Duration::from_secs(self.heartbeat)
    }

    /// After this long without a word everybody has noticed that a session is over.
    #[must_use]
    pub fn session_over(&self) -> Duration {
        let slack = if self.has_wrong_clocks() { 3 } else { 0 };
        Duration::from_secs(self.heartbeat) * (6 + slack)
    }

    /// Whether every answer can be judged: nobody believes anything without asking, and nothing is forgotten.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.lease_ms == 0 && !self.push && !self.forgets()
    }

    /// Whether answers may be forgotten in this world: a machine loses its power, a replica is behind, or keys are
    /// thrown away.
    #[must_use]
    pub fn forgets(&self) -> bool {
        let fails_over =
            self.mishaps.contains_key(&Mishap::FailOver) && self.lag_ms.is_some_and(|lag| lag > 0);
        let loses = [Mishap::PowerCut, Mishap::Evicted];
        fails_over || loses.iter().any(|mishap| self.mishaps.contains_key(mishap))
    }
}
