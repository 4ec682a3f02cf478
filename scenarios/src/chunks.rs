//! Bytes around the borders of blocks and chunks.

use crate::Named;
use zest_sim::plan::{Ending, EngineKind, Path, Setup, Step};

/// The situations of this file.
pub const ALL: &[Named] = &[
    ("writes, holes and truncates across a chunk border", across),
    ("a file is copied into itself, chunk to chunk", copied),
];

const CHUNK: u64 = 64 << 20;

fn world(steps: Vec<Step>) -> Setup {
    let create = vec![Step::Create { path: Path::new("a"), slot: 0, excl: true }];
    let steps = [create, steps].concat();
    Setup { cache: 0, ..Setup::calm(5, EngineKind::Embedded) }
        .round(vec![steps.clone()], Ending::Unmount)
        .round(vec![vec![Step::Stat { path: Path::new("a") }]], Ending::Cut)
}

fn look(at: u64) -> Step {
    Step::Read { slot: 0, at, len: 100_000 }
}

fn across() -> Setup {
    world(vec![
        Step::Write { slot: 0, at: CHUNK - 50_000, len: 100_000 },
        look(CHUNK - 60_000),
        Step::Resize { slot: 0, size: CHUNK - 7 },
        look(CHUNK - 50_000),
        Step::Resize { slot: 0, size: CHUNK + 9000 },
        look(CHUNK - 50_000),
        Step::Fallocate { slot: 0, at: CHUNK - 4096, len: 4096, how: 2 },
        Step::Fsync { slot: 0 },
        look(CHUNK - 50_000),
        Step::Seek { slot: 0, at: 0, hole: false },
        Step::Seek { slot: 0, at: CHUNK - 49_000, hole: true },
    ])
}

fn copied() -> Setup {
    world(vec![
        Step::Write { slot: 0, at: 10, len: 150_000 },
        Step::Copy { slot: 0, at: 5, to: 0, to_at: CHUNK - 70_000, len: 140_000 },
        look(CHUNK - 75_000),
        Step::Write { slot: 0, at: CHUNK - 100, len: 200 },
        Step::Copy { slot: 0, at: CHUNK - 3000, to: 0, to_at: 65_000, len: 6000 },
        look(60_000),
    ])
}
