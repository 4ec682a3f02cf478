//! The object store is slow, forgetful, or says no.

use crate::Named;
use zest_sim::devices::Fault;
use zest_sim::plan::{Ending, EngineKind, Path, Setup, Step};

/// The situations of this file.
pub const ALL: &[Named] = &[
    ("three writers wait for memory while the store is slow", full_budget),
    ("half of all answers of the store are lost", lost_answers),
    ("the store refuses every second request", refusing),
    ("reads come back short", short_bodies),
    ("the store denies some writes for good", denied),
];

fn writer(name: &str, pieces: u64) -> Vec<Step> {
    let mut steps = vec![Step::Create { path: Path::new(name), slot: 0, excl: true }];
    for piece in 0..pieces {
        steps.push(Step::Write { slot: 0, at: piece * 190_000, len: 200_000 });
        steps.push(Step::Read { slot: 0, at: piece * 100_000, len: 50_000 });
    }
    steps.push(Step::Fsync { slot: 0 });
    steps.push(Step::Read { slot: 0, at: 0, len: 400_000 });
    steps
}

fn three(fault: Fault, permille: u32) -> Setup {
    let users = ["a", "b", "c"].map(|name| writer(name, 8)).to_vec();
    Setup { cache: 0, ..Setup::calm(2, EngineKind::Embedded) }
        .fault(fault, permille)
        .round(users, Ending::Unmount)
}

fn full_budget() -> Setup {
    Setup { write_budget: 1 << 20, ..three(Fault::SlowObject, 500) }
}

fn lost_answers() -> Setup {
    three(Fault::LostObjectReply, 300)
}

fn refusing() -> Setup {
    three(Fault::RefusedObject, 300)
}

fn short_bodies() -> Setup {
    three(Fault::ShortBody, 300)
}

fn denied() -> Setup {
    three(Fault::DeniedPut, 100)
}
