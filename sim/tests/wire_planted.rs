//! Every bug planted for several clients and a Redis is found by the ordinary sweep of wire worlds, and the same worlds
//! are quiet without it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use zest_sim::explorer::planted::first_find_wire;
use zest_sim::wire::{draw::setup, run};
use zest_world::planted::Bug;

const WITHIN: u64 = 2000;

/// Whether a bug is found by a world that is quiet without it.
fn is_found(bug: Bug) -> bool {
    let Some((seed, violation)) = first_find_wire(bug, WITHIN) else { return false };
    println!("{bug:?}: seed {seed}, {}", violation.rule);
    let quiet = run(&setup(seed), None, false).outcome.violation;
    assert_eq!(quiet, None, "seed {seed} fails without {bug:?} too");
    true
}

#[test]
fn every_bug_planted_for_several_clients_is_found() {
    // Two at a time: a world has a thread to itself.
    let next = AtomicUsize::new(0);
    let look = || {
        let mut missed = Vec::new();
        while let Some(bug) = Bug::WIRE.get(next.fetch_add(1, Ordering::Relaxed)) {
            missed.extend((!is_found(*bug)).then_some(*bug));
        }
        missed
    };
    let missed = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(look), scope.spawn(look));
        [one.join().unwrap(), other.join().unwrap()].concat()
    });
    assert!(missed.is_empty(), "not found within {WITHIN} worlds: {missed:?}");
}
