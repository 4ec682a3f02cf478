//! Wire worlds: clients with the production engine over simulated TCP. Each lived through twice: the same events in the
//! same order, and no rule broken.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use zest_sim::wire::draw::setup;
use zest_sim::wire::twice;

const WORLDS: u64 = 24;

#[test]
fn every_wire_world_replays_to_the_event_and_breaks_no_rule() {
    let (mut struck, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..WORLDS {
        let outcome = twice(&setup(seed)).unwrap_or_else(|text| panic!("wire seed {seed}: {text}"));
        assert_eq!(outcome.outcome.violation, None, "again: cargo run -p zest-sim -- run {seed} --wire");
        struck.extend(outcome.mishaps.keys().copied());
        kinds.insert((setup(seed).scripts, setup(seed).push));
    }
    assert!(kinds.len() >= 3, "only {kinds:?}");
    assert!(struck.len() >= 8, "only {struck:?} happened");
}
