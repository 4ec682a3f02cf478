//! Draws a run from a seed. Few names, so that users collide; offsets near the borders of blocks, pages and
//! chunks, where mistakes live. Some worlds have no faults, some one class, some many.

use super::{Ending, EngineKind, Path, Round, Setup, Step, more};
use crate::devices::{Fault, SimChance};
use zest_world::Chance;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const CHUNK: u64 = 64 << 20;
const BLOCK: u64 = 64 << 10;
/// So far out that thousands of chunks lie before it.
const HUGE: u64 = 1 << 40;

/// The run of a seed.
#[must_use]
pub fn setup(seed: u64) -> Setup {
    let chance = SimChance::new(seed, "plan");
    let engine = if chance.permille(500) { EngineKind::Embedded } else { EngineKind::Records };
    let mut setup = Setup::calm(seed, engine);
    setup.cache = *chance.pick(&[0, 256 << 10, 4 << 20]);
    setup.write_budget = *chance.pick(&[2 << 20, 4 << 20, 64 << 20]);
    setup.trash_days = u32::from(chance.permille(400));
    faults(&chance, &mut setup);
    let rounds = chance.between(1, 3);
    let crashing = chance.permille(600);
    for _ in 0..rounds {
        let users = *chance.pick(&[1u64, 1, 2, 2, 3]);
        let steps = chance.between(10, 60);
        let users = (0..users).map(|user| steps_of(&chance, user, steps)).collect();
        let dies_at = (crashing && chance.permille(600)).then(|| chance.between(5, 60 + steps * 10));
        let in_disk = setup.engine == EngineKind::Embedded && chance.permille(500);
        let dies_in = if in_disk { "disk".into() } else { String::new() };
        let ending = if crashing && chance.permille(500) { Ending::Cut } else { Ending::Unmount };
        setup.rounds.push(Round { dies_at, dies_in, ..Round::of(users, ending) });
    }
    more::add(&mut setup);
    setup
}

fn faults(chance: &SimChance, setup: &mut Setup) {
    let usable: &[Fault] = match setup.engine {
        EngineKind::Embedded => &[
            Fault::SlowObject,
            Fault::RefusedObject,
            Fault::LostObjectReply,
            Fault::ShortBody,
            Fault::DeniedPut,
            Fault::FullStore,
            Fault::SlowOffload,
            Fault::FailedSync,
        ],
        EngineKind::Records => &[
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
        ],
    };
    let mood = chance.below(10);
    for fault in usable {
        let wanted = match mood {
            0..=2 => false,
            3..=6 => *fault == usable[(chance_of(setup.seed) % usable.len() as u64) as usize],
            7 | 8 => chance.permille(500),
            _ => true,
        };
        if wanted {
            setup.faults.insert(*fault, *chance.pick(&[20, 80, 200]));
        }
    }
}

fn chance_of(seed: u64) -> u64 {
    SimChance::new(seed, "one fault").next_u64()
}

/// A path that users of all plans meet at.
pub(super) fn path(chance: &SimChance) -> Path {
    let depth = *chance.pick(&[1u8, 1, 1, 2, 2, 3]);
    let parts: Vec<&str> = (0..depth).map(|_| *chance.pick(&NAMES)).collect();
    Path(parts.join("/"))
}

fn directory(chance: &SimChance) -> Path {
    if chance.permille(400) { Path::default() } else { Path((*chance.pick(&NAMES)).into()) }
}

fn offset(chance: &SimChance) -> u64 {
    let base = match chance.below(20) {
        0..=7 => 0,
        8..=11 => BLOCK,
        12..=13 => 2 * BLOCK,
        14..=15 => 3 * BLOCK,
        16 => CHUNK,
        17 => CHUNK - BLOCK,
        18 if chance.permille(200) => HUGE,
        _ => chance.below(4 * BLOCK),
    };
    match chance.below(4) {
        0 => base,
        1 => base + chance.below(100),
        2 => base.saturating_sub(chance.below(100)),
        _ => base + chance.below(5000),
    }
}

fn length(chance: &SimChance) -> u64 {
    match chance.below(8) {
        0 => 1,
        1 | 2 => chance.between(2, 200),
        3 | 4 => chance.between(200, 5000),
        5 => 4096,
        6 => BLOCK,
        _ => chance.between(BLOCK / 2, 3 * BLOCK),
    }
}

fn steps_of(chance: &SimChance, user: u64, steps: u64) -> Vec<Step> {
    // Each user's favourite slot, so that handles live long enough to be used.
    let mut out = vec![Step::Create { path: path(chance), slot: 0, excl: false }];
    if user == 0 {
        out.push(Step::Mkdir { path: Path((*chance.pick(&NAMES)).into()), mode: 0o755 });
    }
    let bytes = *chance.pick(&[200u32, 500, 800]);
    while (out.len() as u64) < steps {
        out.push(if chance.permille(bytes) { of_bytes(chance) } else { of_names(chance) });
    }
    out
}

fn slot(chance: &SimChance) -> u8 {
    *chance.pick(&[0, 0, 0, 1, 1, 2])
}

fn of_bytes(chance: &SimChance) -> Step {
    let (slot, at, len) = (slot(chance), offset(chance), length(chance));
    match chance.below(24) {
        0..=7 => Step::Write { slot, at, len: len as u32 },
        8..=12 => Step::Read { slot, at, len: len as u32 },
        13 => Step::Resize { slot, size: at },
        14 => Step::Truncate { path: path(chance), size: at },
        15 => Step::Fallocate { slot, at, len, how: chance.below(5) as u8 },
        16 => Step::Copy { slot, at, to: self::slot(chance), to_at: offset(chance), len },
        17 => Step::Seek { slot, at, hole: chance.permille(500) },
        18 | 19 => Step::Fsync { slot },
        20 => Step::Flush { slot },
        21 => Step::Fstat { slot },
        22 => Step::Open { path: path(chance), slot, trunc: chance.permille(200) },
        _ => Step::Pause { ms: *chance.pick(&[1, 50, 700, 1500, 6000]) },
    }
}

fn of_names(chance: &SimChance) -> Step {
    match chance.below(40) {
        0..=5 => Step::Create { path: path(chance), slot: slot(chance), excl: chance.permille(300) },
        6..=9 => Step::Mkdir { path: path(chance), mode: *chance.pick(&[0o755, 0o700, 0o2775]) },
        10 => Step::Mkfifo { path: path(chance) },
        11 => Step::Symlink { path: path(chance), len: chance.between(1, 200) as u16 },
        12..=15 => Step::Unlink { path: path(chance) },
        16 | 17 => Step::Rmdir { path: path(chance) },
        18..=22 => Step::Rename { from: path(chance), to: path(chance), how: *chance.pick(&[0, 0, 0, 1, 2]) },
        23..=25 => Step::Link { from: path(chance), to: path(chance) },
        26 => Step::Readlink { path: path(chance) },
        27 | 28 => Step::Stat { path: path(chance) },
        29 => Step::Chmod { path: path(chance), mode: chance.below(0o1000) as u16 },
        30 => Step::Chown { path: path(chance), uid: chance.below(3) as u32, gid: chance.below(3) as u32 },
        31 => Step::Utimes { path: path(chance), sec: chance.between(1, 1_800_000_000) as i64 },
        32 => Step::Close { slot: slot(chance) },
        33 => Step::SetXattr {
            path: path(chance),
            name: chance.below(3) as u8,
            len: chance.below(300) as u16,
            how: *chance.pick(&[0, 0, 1, 2]),
        },
        34 => Step::GetXattr { path: path(chance), name: chance.below(3) as u8 },
        35 if chance.permille(500) => Step::ListXattr { path: path(chance) },
        35 => Step::RemoveXattr { path: path(chance), name: chance.below(3) as u8 },
        36 | 37 => Step::List { path: directory(chance) },
        38 => Step::FsyncDir { path: directory(chance) },
        _ => {
            if chance.permille(300) {
                Step::SyncAll
            } else {
                Step::Statfs
            }
        }
    }
}
