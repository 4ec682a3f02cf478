//! Every situation and every saved failure, lived through twice: no rule broken, and the same both times.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_scenarios::{all, crash, saved};
use zest_sim::devices::Fault;
use zest_sim::explorer::{run, twice::twice};

#[test]
fn every_situation_is_survived() {
    for (name, setup) in all() {
        let plan = setup();
        let outcome = twice(&plan).unwrap_or_else(|text| panic!("{name}: {text}"));
        assert_eq!(outcome.violation, None, "{name}");
        for fault in plan.faults.keys() {
            assert!(outcome.fired.contains_key(fault), "{name}: {} never happened", fault.name());
        }
    }
}

#[test]
fn a_safe_replacement_survives_a_crash_at_any_effect() {
    let mut died = 0;
    for number in 1..200 {
        let outcome = run(&crash::replace_and_die_at(number), None, false);
        assert_eq!(outcome.violation, None, "the power goes at effect {number}");
        died += u64::from(outcome.fired.contains_key(&Fault::Crash));
    }
    assert!(died > 50, "the client died in {died} of the runs only");
}

#[test]
fn no_saved_failure_comes_back() {
    let plans = saved::all().unwrap();
    assert!(!plans.is_empty());
    for (name, plan) in plans {
        let outcome = twice(&plan).unwrap_or_else(|text| panic!("{name}: {text}"));
        assert_eq!(
            outcome.violation, None,
            "{name}: again with `cargo run -p zest-sim -- run scenarios/saved/{name}.json`"
        );
    }
}
