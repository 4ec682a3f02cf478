//! Hosts whose clocks are wrong: never by more than was said, and worlds in which all of it happens break no rule and
//! replay.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_sim::devices::{Fates, Fault, SimChance, Wrong};
use zest_sim::wire::{draw::setup, twice};

fn always() -> BTreeMap<Fault, u32> {
    Fault::OF_CLOCKS.into_iter().map(|fault| (fault, 1000)).collect()
}

#[test]
fn a_clock_is_never_more_wrong_than_was_said() {
    let most = Duration::from_secs(12);
    for seed in 0..50 {
        let fates = Arc::new(Fates::new(always(), seed));
        let wrong = Wrong::draw(&fates, &SimChance::new(seed, "clock"), most).unwrap();
        let (mut seen, mut set) = (Vec::new(), 0);
        for second in 0..200 {
            let shown = wrong.shown(Duration::from_secs(second));
            let real = wrong.real(shown).as_nanos().abs_diff(u128::from(second) * 1_000_000_000);
            assert!(real < 1000, "what is shown is not what it came from: {real} ns");
            let (ahead, jumps) = wrong.offset(shown);
            assert!(u128::from(ahead.unsigned_abs()) <= most.as_nanos() && jumps >= set);
            set = jumps;
            seen.push(ahead);
        }
        seen.dedup();
        assert!(seen.len() > 50, "it was hardly ever set: {}", seen.len());
        assert_eq!(fates.fired().get(&Fault::JumpingClock), Some(&(set as u64)));
    }
    let fates = Arc::new(Fates::new(BTreeMap::new(), 1));
    assert!(Wrong::draw(&fates, &SimChance::new(1, "clock"), most).is_none(), "nothing is wrong by itself");
}

#[test]
fn worlds_with_wrong_clocks_break_no_rule_and_replay() {
    // Some with a client that dies, whose session the others must end, and some in which every answer is judged.
    let dying = (0..).map(setup).filter(|setup| setup.dies.is_some()).take(2);
    let strict = (0..).map(setup).filter(|setup| setup.is_strict() && setup.locks > 0).take(2);
    for mut setup in dying.chain(strict) {
        setup.faults = always();
        setup.heartbeat = 12;
        let outcome = twice(&setup).unwrap();
        assert_eq!(outcome.outcome.violation, None, "seed {}", setup.seed);
        for fault in Fault::OF_CLOCKS {
            assert!(outcome.outcome.fired.contains_key(&fault), "seed {}: no {}", setup.seed, fault.name());
        }
    }
}
