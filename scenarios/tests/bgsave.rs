//! A snapshot every five minutes, seen by two hosts at once: nothing fails, both name the cause, and the dip is printed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_scenarios::bgsave::{EVERY, every_five_minutes};
use zest_sim::wire::figures::Figures;
use zest_sim::wire::run;

/// What one way of mounting shows: answers in the usual second, in the worst one around a fork, and the longest wait.
fn lived(views: bool) -> (u64, u64, u64) {
    let outcome = run(&every_five_minutes(views), None, false);
    assert_eq!(outcome.outcome.violation, None, "views {views}");
    let figures = Figures::of(&outcome);
    let seconds: Vec<u64> = figures.forks.iter().map(|(second, _)| *second).collect();
    assert!(seconds.len() >= 2 && seconds[0] >= EVERY - 5, "forks at {seconds:?}");
    let named = outcome.causes.iter().filter(|cause| cause.contains("BGSAVE")).count();
    assert!(named >= 4, "two hosts, two snapshots, but they say {:?}", outcome.causes);
    let around = || seconds.iter().flat_map(|second| [*second, second + 1]);
    let dip = around().map(|second| figures.at(second)).min().unwrap();
    let wait = around().filter_map(|second| figures.waits.get(&second).copied()).max().unwrap();
    println!(
        "views {}: {} answers in the usual second, {dip} in the second of a fork of {:?} ms; the longest wait was {} ms",
        if views { "on" } else { "off" },
        figures.usual(),
        figures.forks.iter().map(|(_, ms)| *ms).collect::<Vec<_>>(),
        wait / 1000
    );
    (figures.usual(), dip, wait / 1000)
}

#[test]
fn a_snapshot_every_five_minutes_is_a_dip_and_no_error() {
    let (usual, dip, wait) = lived(false);
    assert!(wait >= 500 && dip * 2 < usual, "without views the fork is felt");
    let (usual_with, dip_with, _) = lived(true);
    assert!(dip_with * usual > dip * usual_with, "views answer while the server stands still");
}
