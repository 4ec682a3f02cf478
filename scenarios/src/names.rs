//! Names that move under each other's feet.

use crate::Named;
use zest_sim::plan::{Ending, EngineKind, Path, Setup, Step};

/// The situations of this file.
pub const ALL: &[Named] = &[
    ("two users exchange directories and walk through them", exchanging),
    ("one renames over a file the other writes", replaced_while_written),
    ("a directory is moved into itself and its child", into_itself),
];

fn path(text: &str) -> Path {
    Path::new(text)
}

fn rename(from: &str, to: &str, how: u8) -> Step {
    Step::Rename { from: path(from), to: path(to), how }
}

fn world(users: Vec<Vec<Step>>) -> Setup {
    Setup::calm(4, EngineKind::Records).round(users, Ending::Unmount)
}

fn exchanging() -> Setup {
    let mut mover =
        ["a", "b", "a/c", "b/d"].map(|name| Step::Mkdir { path: path(name), mode: 0o755 }).to_vec();
    mover.extend((0..8).map(|_| rename("a", "b", 2)));
    let walker = (0..8).flat_map(|_| [Step::Stat { path: path("a/c") }, Step::List { path: path("b") }]);
    world(vec![mover, walker.collect()])
}

fn replaced_while_written() -> Setup {
    let mut writer = vec![Step::Create { path: path("a"), slot: 0, excl: false }];
    let write = |at| {
        [Step::Write { slot: 0, at, len: 1000 }, Step::Fstat { slot: 0 }, Step::Stat { path: path("a") }]
    };
    writer.extend((0..6).flat_map(|n| write(n * 900)));
    writer.push(Step::Read { slot: 0, at: 0, len: 10_000 });
    let make = || {
        [Step::Create { path: path("b"), slot: 0, excl: false }, rename("b", "a", 0), Step::Pause { ms: 3 }]
    };
    world(vec![writer, (0..4).flat_map(|_| make()).collect()])
}

fn into_itself() -> Setup {
    let dirs = ["a", "a/b", "a/b/c"].map(|name| Step::Mkdir { path: path(name), mode: 0o755 });
    let moves = [
        rename("a", "a/b/d", 0),
        rename("a/b", "a/b/c", 2),
        rename("a/b/c", "a", 0),
        rename("a/b/c", "c", 0),
    ];
    world(vec![[dirs.to_vec(), moves.to_vec(), vec![Step::List { path: path("") }]].concat()])
}
