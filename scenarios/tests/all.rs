//! Every situation and every saved failure, lived through twice: no rule broken, and the same both times.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_scenarios::{all, bgsave, crash, saved};
use zest_sim::devices::Fault;
use zest_sim::explorer::{run, twice::twice};
use zest_sim::wire;
use zest_sim::wire::figures::Figures;

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

#[test]
fn a_snapshot_every_five_minutes_is_a_dip_without_views_and_none_with_them() {
    let mut dips = Vec::new();
    for views in [false, true] {
        let outcome = wire::run(&bgsave::every_five_minutes(views), None, false);
        assert_eq!(outcome.outcome.violation, None, "views: {views}");
        let figures = Figures::of(&outcome);
        assert!(figures.forks.len() >= 2, "only {:?}", figures.forks);
        assert!(figures.forks.iter().all(|(_, still)| *still > 500), "{:?}", figures.forks);
        // Both hosts saw both, and were told why.
        let told = outcome.causes.iter().filter(|cause| cause.contains("BGSAVE")).count();
        assert!(told >= 4, "{:?}", outcome.causes);
        dips.push(bgsave::dip(&figures));
        println!(
            "views {}: {} answers a second, {} % less at a fork of {:?} ms",
            if views { "on" } else { "off" },
            figures.usual(),
            bgsave::dip(&figures),
            figures.forks.iter().map(|(_, still)| still).collect::<Vec<_>>()
        );
    }
    assert!(dips[0] >= 20, "without views the dip is {} %", dips[0]);
    assert!(dips[1] <= 10, "with views the dip is {} %", dips[1]);
}
