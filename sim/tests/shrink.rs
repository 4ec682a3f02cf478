//! Plans that find planted bugs are made small; a sample, `zest-sim shrink` does it for all.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;
use zest_sim::explorer::planted::{first_find, first_find_wire};
use zest_sim::explorer::shrink::{Limit, Plan, shrink};
use zest_sim::plan::draw::setup;
use zest_world::planted::Bug;

/// Runs, not time, so that a busy machine finds the same.
const LIMIT: Limit = Limit { tries: 400, time: Duration::MAX };

fn small<P: Plan>(plan: &P, bug: Bug) {
    let (best, tries) = shrink(plan, Some(bug), LIMIT);
    let (requests, faults) = best.size();
    println!("{bug:?}: {requests} requests, {faults} faults, {tries} runs");
    assert_eq!(best.broken(Some(bug)), plan.broken(Some(bug)));
    assert_eq!(best.broken(None), None, "without the bug it is quiet");
    assert!(requests <= 15 && faults <= 3, "{bug:?}: {requests} requests, {faults} faults");
}

#[test]
fn what_finds_a_bug_becomes_small() {
    for bug in [Bug::LostNlink, Bug::UnflushedReadMissed] {
        let (seed, _) = first_find(bug, 1000).unwrap();
        small(&setup(seed), bug);
    }
    let bug = Bug::KeyNotChecked;
    let (seed, _) = first_find_wire(bug, 1000).unwrap();
    small(&zest_sim::wire::draw::setup(seed), bug);
}
