//! The metadata server makes a snapshot every five minutes, and its fork stands still for most of a second: two hosts see
//! it at the same moment. Once believing nothing without asking, once with views that the server keeps fresh.

use zest_sim::plan::{Path, Step};
use zest_sim::wire::WireSetup;
use zest_sim::wire::figures::Figures;

/// Seconds between snapshots.
pub const EVERY: u64 = 300;

/// What the users of a host do, again and again: a worker changes names now and then, readers look at what is there.
fn users(host: &str) -> Vec<Vec<Step>> {
    let own = Path::new(&format!("y/{host}"));
    let directory = |name: &str| Step::Mkdir { path: Path::new(name), mode: 0o755 };
    let worker = vec![
        directory("x"),
        directory("y"),
        Step::Mkfifo { path: own.clone() },
        Step::Pause { ms: 5_000 },
        Step::Unlink { path: own },
        Step::Pause { ms: 5_000 },
    ];
    // Names below a directory that the workers leave alone: views of it hold.
    let reader = |name: &str| vec![Step::Stat { path: Path::new(name) }, Step::Pause { ms: 400 }];
    vec![worker, reader("x"), reader("x/a")]
}

/// Two hosts, a server of forty GiB, two snapshots. Messages move by ten milliseconds, so that ten minutes are lived
/// through in seconds.
#[must_use]
pub fn every_five_minutes(views: bool) -> WireSetup {
    WireSetup {
        clients: vec![users("a"), users("b")],
        push: views,
        gib: 40,
        save_every: EVERY,
        latency_ms: 10,
        tick_ms: 10,
        seconds: 2 * EVERY + 10,
        ..WireSetup::calm(7)
    }
}

/// What is missing of the usual answers while the server stands still, in percent, at its worst fork: over the second
/// in which that begins and the next one. What is usual is counted in pairs of seconds, too, since questions come in
/// steps that do not fit a second.
#[must_use]
pub fn dip(figures: &Figures) -> u64 {
    let pair = |at: &u64| figures.at(*at) + figures.at(at + 1);
    let mut all: Vec<u64> = figures.answers.keys().map(pair).collect();
    all.sort_unstable();
    let usual = all.get(all.len() / 2).copied().unwrap_or(0);
    let least = figures.forks.iter().map(|(at, _)| pair(at)).min().unwrap_or(usual);
    usual.saturating_sub(least) * 100 / usual.max(1)
}
