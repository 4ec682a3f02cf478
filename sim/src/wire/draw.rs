//! A wire world from a seed. Users change names and attributes of few nodes that all clients share, and never hold
//! files open, since a client does not know what another has open. Bytes are the ledgers' affair.

use super::plan::WireSetup;
use crate::devices::{Fault, SimChance};
use crate::plan::{Path, Step};
use crate::redis::machine::Mishap;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn path(chance: &SimChance) -> Path {
    let mut parts = Vec::new();
    if chance.permille(450) {
        parts.push(*chance.pick(&["x", "y"]));
    }
    parts.push(*chance.pick(&NAMES));
    Path::new(&parts.join("/"))
}

fn directory(chance: &SimChance) -> Path {
    Path::new(chance.pick::<&str>(&["", "x", "y"]))
}

fn step(chance: &SimChance) -> Step {
    match chance.below(28) {
        0..=4 => Step::Mkfifo { path: path(chance) },
        5 => Step::Mkdir { path: directory(chance), mode: 0o755 },
        6 => Step::Mkdir { path: path(chance), mode: 0o700 },
        7 => Step::Symlink { path: path(chance), len: chance.between(1, 40) as u16 },
        8..=10 => Step::Unlink { path: path(chance) },
        11 => Step::Rmdir { path: if chance.permille(500) { directory(chance) } else { path(chance) } },
        12 | 13 => Step::Rename { from: path(chance), to: path(chance), how: *chance.pick(&[0, 0, 0, 1, 2]) },
        14 | 15 => Step::Link { from: path(chance), to: path(chance) },
        16 | 17 => Step::Stat { path: path(chance) },
        18 => Step::Chmod { path: path(chance), mode: chance.below(0o1000) as u16 },
        19 => Step::List { path: directory(chance) },
        20 => Step::SetXattr {
            path: path(chance),
            name: chance.below(2) as u8,
            len: chance.below(60) as u16,
            how: *chance.pick(&[0, 1, 2]),
        },
        21 => Step::GetXattr { path: path(chance), name: chance.below(2) as u8 },
        22 => Step::Utimes { path: path(chance), sec: 1_000_000_000 + chance.below(1_000) as i64 },
        _ => Step::Pause { ms: chance.between(1, 400) },
    }
}

/// The plan of a seed.
#[must_use]
pub fn setup(seed: u64) -> WireSetup {
    let chance = SimChance::new(seed, "wire plan");
    let mut setup = WireSetup::calm(seed);
    for _ in 0..*chance.pick(&[2, 2, 2, 3]) {
        let users = (0..chance.between(1, 2)).map(|_| {
            let mut steps = Vec::new();
            if chance.permille(700) {
                steps.push(Step::Mkdir { path: directory(&chance), mode: 0o755 });
            }
            steps.extend((0..chance.between(8, 24)).map(|_| step(&chance)));
            steps
        });
        setup.clients.push(users.collect());
    }
    setup.scripts = !chance.permille(250);
    if chance.permille(500) {
        // A read of bytes believes records for as long as it takes: strict worlds have none.
        setup.ledger = chance.between(2, 8) as u32;
        setup.push = chance.permille(700);
        setup.lease_ms = chance.between(100, 1000);
    }
    setup.latency_ms = chance.between(1, 6);
    setup.gib = *chance.pick(&[1, 4, 10, 40]);
    if chance.permille(200) {
        setup.trash_days = 1;
    }
    if chance.permille(200) {
        // A replica that is told before anybody is answered.
        setup.lag_ms = Some(0);
    }
    mishaps(&chance, &mut setup);
    setup
}

fn mishaps(chance: &SimChance, setup: &mut WireSetup) {
    let classes = [
        (Mishap::ForkStall, 700),
        (Mishap::SyncPause, 800),
        (Mishap::Restart, 500),
        (Mishap::Frozen, 500),
        (Mishap::ReadOnly, 600),
        (Mishap::KilledConnection, 8),
        (Mishap::LostCommand, 8),
        (Mishap::LostReply, 12),
        (Mishap::SlowCommand, 30),
        (Mishap::FailedSave, 700),
        (Mishap::OutOfMemory, 600),
        (Mishap::FailOver, 600),
        (Mishap::PowerCut, 300),
    ];
    let how_many = match chance.below(10) {
        0..=1 => 0,
        2..=5 => 1,
        6..=8 => 2,
        _ => 4,
    };
    for _ in 0..how_many {
        let (mishap, rate) = *chance.pick(&classes);
        // What makes a server forget is rare: such a world can be judged by little.
        let forgets = mishap == Mishap::PowerCut;
        if !forgets || chance.permille(200) {
            setup.mishaps.insert(mishap, rate);
        }
        match mishap {
            Mishap::FailOver => {
                setup.lag_ms = Some(if chance.permille(150) { chance.between(1, 500) } else { 0 });
            }
            Mishap::FailedSave => drop(setup.mishaps.insert(Mishap::ForkStall, 700)),
            _ => {}
        }
    }
    if chance.permille(150) {
        setup.faults.insert(*chance.pick(&[Fault::SlowObject, Fault::SlowOffload]), 100);
    }
}
