//! Every bug planted for several clients and a Redis is found by the ordinary sweep of wire worlds, and the same worlds
//! are quiet without it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_sim::explorer::planted::first_find_wire;
use zest_sim::wire::{draw::setup, run};
use zest_world::planted::Bug;

const WITHIN: u64 = 2000;

#[test]
fn every_bug_planted_for_several_clients_is_found() {
    let missed: Vec<Bug> = Bug::WIRE
        .into_iter()
        .filter(|bug| match first_find_wire(*bug, WITHIN) {
            Some((seed, violation)) => {
                println!("{bug:?}: seed {seed}, {}", violation.rule);
                let quiet = run(&setup(seed), None, false).outcome.violation;
                assert_eq!(quiet, None, "seed {seed} fails without {bug:?} too");
                false
            }
            None => true,
        })
        .collect();
    assert!(missed.is_empty(), "not found within {WITHIN} worlds: {missed:?}");
}
