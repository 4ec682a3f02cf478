//! The power goes: at the worst moment, at any moment, after a promise was made.

use crate::Named;
use zest_sim::plan::{Ending, EngineKind, Path, Setup, Step};

/// The situations of this file.
pub const ALL: &[Named] = &[
    ("fsync, then the power goes", fsync_then_cut),
    ("a new version is written beside, synced and renamed over", replace_safely),
    ("a removed file is open when the power goes", open_and_removed),
    ("nothing was synced and the power goes", nothing_synced),
];

fn path(text: &str) -> Path {
    Path::new(text)
}

fn embedded(steps: Vec<Step>) -> Setup {
    Setup::calm(1, EngineKind::Embedded).round(vec![steps], Ending::Cut)
}

fn fsync_then_cut() -> Setup {
    embedded(vec![
        Step::Mkdir { path: path("a"), mode: 0o755 },
        Step::Create { path: path("a/b"), slot: 0, excl: true },
        Step::Write { slot: 0, at: 65_000, len: 200_000 },
        Step::Fsync { slot: 0 },
        Step::Write { slot: 0, at: 0, len: 10 },
    ])
}

fn replace_safely() -> Setup {
    let version = |at| Step::Write { slot: 0, at, len: 100_000 };
    let fresh = |excl| Step::Create { path: path("new"), slot: 0, excl };
    let over = || Step::Rename { from: path("new"), to: path("file"), how: 0 };
    let first =
        vec![fresh(true), version(0), Step::Fsync { slot: 0 }, over(), Step::FsyncDir { path: path("") }];
    let second = vec![fresh(true), version(5), Step::Fsync { slot: 0 }, over()];
    embedded([first, second].concat())
}

fn open_and_removed() -> Setup {
    embedded(vec![
        Step::Create { path: path("a"), slot: 0, excl: true },
        Step::Write { slot: 0, at: 0, len: 70_000 },
        Step::Unlink { path: path("a") },
        Step::Fsync { slot: 0 },
        Step::Read { slot: 0, at: 60_000, len: 20_000 },
    ])
}

fn nothing_synced() -> Setup {
    let files = ["a", "b", "c"].map(|name| Step::Create { path: path(name), slot: 0, excl: true });
    embedded(
        files.into_iter().flat_map(|create| [create, Step::Write { slot: 0, at: 0, len: 5000 }]).collect(),
    )
}

/// The safe replacement, with the power going at effect `number`.
#[must_use]
pub fn replace_and_die_at(number: u64) -> Setup {
    let mut setup = replace_safely();
    setup.seed = number;
    setup.rounds[0].dies_at = Some(number);
    setup
}
