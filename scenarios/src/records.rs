//! The record store says conflict, does not say what became of a commit, or says nothing for seconds.

use crate::Named;
use zest_sim::devices::Fault;
use zest_sim::plan::{Ending, EngineKind, Path, Setup, Step};

/// The situations of this file.
pub const ALL: &[Named] = &[
    ("a storm of conflicts", conflicts),
    ("answers to commits are lost, made or not", unknowns),
    ("the record store stalls again and again", stalls),
];

/// Everybody makes, links, moves and removes in the same two directories.
fn crowd() -> Vec<Vec<Step>> {
    let of = |own: &str, other: &str| {
        let (file, moved, linked) = (format!("a/{own}"), format!("b/{own}"), format!("b/{own}{other}"));
        let (file, moved, linked) = (Path::new(&file), Path::new(&moved), Path::new(&linked));
        let round = vec![
            Step::Create { path: file.clone(), slot: 0, excl: false },
            Step::Write { slot: 0, at: 10, len: 3000 },
            Step::Link { from: file.clone(), to: linked.clone() },
            Step::Rename { from: file, to: moved.clone(), how: 0 },
            Step::Chmod { path: moved.clone(), mode: 0o600 },
            Step::Unlink { path: linked },
            Step::Fsync { slot: 0 },
            Step::List { path: Path::new("b") },
            Step::Unlink { path: moved },
        ];
        [round.clone(), round].concat()
    };
    let dirs = ["a", "b"].map(|name| Step::Mkdir { path: Path::new(name), mode: 0o755 });
    vec![[dirs.to_vec(), of("c", "d")].concat(), of("d", "e"), of("e", "c")]
}

fn with(fault: Fault, permille: u32) -> Setup {
    Setup::calm(3, EngineKind::Records).fault(fault, permille).round(crowd(), Ending::Unmount)
}

fn conflicts() -> Setup {
    with(Fault::SpuriousConflict, 300)
}

fn unknowns() -> Setup {
    with(Fault::UnknownCommitted, 150).fault(Fault::UnknownDropped, 150)
}

fn stalls() -> Setup {
    with(Fault::Stall, 200)
}
