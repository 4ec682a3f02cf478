//! The metadata server makes a snapshot every five minutes, and its fork stands still for most of a second: two hosts see
//! it at the same moment. Once believing nothing without asking, once with views that the server keeps fresh.

use zest_sim::plan::{Path, Step};
use zest_sim::wire::WireSetup;

/// Seconds between snapshots.
pub const EVERY: u64 = 300;

/// What each user does, again and again: a worker changes names, a reader looks at what is there.
fn users(own: &str) -> Vec<Vec<Step>> {
    let path = |name: &str| Path::new(name);
    let own = &format!("y/{own}");
    let worker = vec![
        Step::Mkdir { path: path("x"), mode: 0o755 },
        Step::Mkdir { path: path("y"), mode: 0o755 },
        Step::Mkfifo { path: path(own) },
        Step::Pause { ms: 60 },
        Step::Chmod { path: path(own), mode: 0o600 },
        Step::Pause { ms: 60 },
        Step::Unlink { path: path(own) },
        Step::Pause { ms: 60 },
    ];
    // Names below a directory that the workers leave alone: views of it hold.
    let reader = vec![
        Step::Stat { path: path("x") },
        Step::Pause { ms: 40 },
        Step::Stat { path: path("x/a") },
        Step::Pause { ms: 40 },
        Step::Stat { path: path("x/b") },
        Step::Pause { ms: 40 },
    ];
    vec![worker, reader]
}

/// Two hosts, a server of forty GiB, two snapshots.
#[must_use]
pub fn every_five_minutes(views: bool) -> WireSetup {
    WireSetup {
        clients: vec![users("a"), users("b")],
        push: views,
        gib: 40,
        save_every: EVERY,
        latency_ms: 1,
        seconds: 2 * EVERY + 20,
        ..WireSetup::calm(7)
    }
}
