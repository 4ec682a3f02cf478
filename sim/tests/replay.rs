//! Two hundred worlds, each lived through twice: the same events in the same order, and no rule broken.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_sim::devices::Fault;
use zest_sim::explorer::sweep::sweep;
use zest_sim::explorer::twice::twice;
use zest_sim::plan::draw::setup;

const WORLDS: u64 = 200;

#[test]
fn every_world_replays_to_the_event_and_breaks_no_rule() {
    let report = sweep(0..WORLDS, 2, true, |seed| twice(&setup(seed)));
    assert_eq!(report.runs, WORLDS);
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    // A sweep that never met a fault would prove little.
    let elsewhere = [Fault::OF_SPARE_DISKS, Fault::OF_CLOCKS].concat();
    for fault in Fault::ALL.into_iter().filter(|fault| !elsewhere.contains(fault)) {
        assert!(report.fired.contains_key(&fault), "{} never happened", fault.name());
    }
}
