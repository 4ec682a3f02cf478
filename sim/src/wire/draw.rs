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
    more(&mut setup);
    forgetful(&mut setup);
    clocks(&mut setup);
    counting(&mut setup);
    setup
}

/// Users that count under a lock; from a stream of its own, so that the rest of a plan stays what it was. Reading
/// believes records for as long as it takes: strict worlds have none.
fn counting(setup: &mut WireSetup) {
    let chance = SimChance::new(setup.seed, "wire counting");
    if !setup.is_strict() && !setup.forgets() && chance.permille(600) {
        setup.counts = chance.between(3, 12) as u32;
        // Nobody must be taken for dead while the server starts again and again.
        setup.heartbeat = 12;
    }
}

/// Clocks of hosts that are wrong; from a stream of its own, so that the rest of a plan stays what it was.
fn clocks(setup: &mut WireSetup) {
    let chance = SimChance::new(setup.seed, "wire clocks");
    if setup.forgets() || !chance.permille(200) {
        return;
    }
    for (fault, rate) in [(Fault::SkewedClock, 700), (Fault::DriftingClock, 700), (Fault::JumpingClock, 300)]
    {
        if chance.permille(500) {
            setup.faults.insert(fault, rate);
        }
    }
    if setup.has_wrong_clocks() {
        // Silences of the server and what clocks differ by must not add up to a session's end.
        setup.heartbeat = 12;
    }
}

/// Some servers forget what they answered. Little can be judged of such a world, so it is made for that alone: one way
/// to forget, often enough that it is met, and nobody dies. From a stream of its own, so that other plans stay.
fn forgetful(setup: &mut WireSetup) {
    let chance = SimChance::new(setup.seed, "wire forgetful");
    if !chance.permille(50) {
        return;
    }
    let way = *chance.pick(&[Mishap::PowerCut, Mishap::FailOver, Mishap::Evicted]);
    setup.mishaps.retain(|mishap, _| *mishap == Mishap::LostReply);
    setup.mishaps.insert(way, 700);
    setup.lag_ms = (way == Mishap::FailOver).then(|| chance.between(50, 1_000));
    setup.dies = None;
    // Soon enough to hear that keys were thrown away, and long enough to meet it.
    (setup.heartbeat, setup.seconds) = (4, 4);
}

/// Locks, quotas, crowds, and clients that die; from a stream of its own, so that the rest of a plan stays what it was.
fn more(setup: &mut WireSetup) {
    let chance = SimChance::new(setup.seed, "wire more");
    if chance.permille(300) {
        setup.locks = chance.between(2, 8) as u32;
    }
    setup.quotas = chance.permille(300);
    match chance.below(1000) {
        0..150 => crowd(setup, &chance),
        150..250 if setup.is_strict() && !setup.mishaps.is_empty() => {
            setup.mishaps = [(Mishap::LostReply, 25)].into();
        }
        _ => {}
    }
    // What a dead client had asked for may be or not be: strict worlds would have to think of both for ever.
    if !setup.is_strict() && !setup.may_fail() && !setup.forgets() && chance.permille(300) {
        let client = chance.between(1, setup.clients.len() as u64 - 1) as usize;
        setup.dies = Some((client, chance.between(50, 2_500)));
        setup.locks = setup.locks.max(4);
        // Much longer than a server is silent.
        setup.heartbeat = 4;
    }
    if setup.locks > 0 && chance.permille(300) {
        setup.heartbeat = 4;
    }
}

/// Everybody changes the same few names, without a pause.
fn crowd(setup: &mut WireSetup, chance: &SimChance) {
    (setup.ledger, setup.push, setup.lease_ms) = (0, false, 0);
    setup.scripts = chance.permille(400);
    // Whoever does not hear whether a change was made looks; where others change the same names meanwhile, what it
    // finds tells nothing. That is not promised, so connections hold.
    let quiet = [Mishap::ForkStall, Mishap::SyncPause, Mishap::SlowCommand, Mishap::Frozen];
    setup.mishaps.retain(|mishap, _| quiet.contains(mishap));
    let name = || Path::new(&format!("x/{}", chance.pick(&NAMES[..3])));
    for steps in setup.clients.iter_mut().flatten() {
        let end = steps.len();
        *steps = vec![Step::Mkdir { path: Path::new("x"), mode: 0o755 }];
        steps.extend((0..end).map(|_| match chance.below(8) {
            0 | 1 => Step::Mkfifo { path: name() },
            2 => Step::Unlink { path: name() },
            3 => Step::Link { from: name(), to: name() },
            _ => Step::Rename { from: name(), to: name(), how: *chance.pick(&[0, 0, 1, 2]) },
        }));
    }
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
