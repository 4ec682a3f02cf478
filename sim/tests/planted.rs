//! Every planted bug is found by the ordinary sweep, and the same worlds are quiet without it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_sim::explorer::{planted::first_find, run};
use zest_sim::plan::draw::setup;
use zest_world::planted::Bug;

const WITHIN: u64 = 1000;

#[test]
fn every_planted_bug_is_found() {
    let missed: Vec<Bug> = Bug::ALL
        .into_iter()
        .filter(|bug| match first_find(*bug, WITHIN) {
            Some((seed, violation)) => {
                println!("{bug:?}: seed {seed}, {}", violation.rule);
                let quiet = run(&setup(seed), None, false).violation;
                assert_eq!(quiet, None, "seed {seed} fails without {bug:?} too");
                false
            }
            None => true,
        })
        .collect();
    assert!(missed.is_empty(), "not found within {WITHIN} worlds: {missed:?}");
}
