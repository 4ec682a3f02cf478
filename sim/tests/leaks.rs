//! Leaks of determinism and canaries, planted on purpose: runs that differ are noticed, and so is a court that judges
//! wrongly, keeps a verdict for itself, or waits for an actor that goes round in circles or is gone.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_sim::explorer::run;
use zest_sim::explorer::twice::{apart, twice, twice_with};
use zest_sim::judge::Violation;
use zest_sim::plan::draw::setup;
use zest_sim::plan::{Ending, EngineKind, Path, Setup, Step};
use zest_world::planted::Bug;

/// A world in which blocks are stored, and nothing goes wrong.
fn plain(seed: u64) -> Setup {
    let mut steps = Vec::new();
    for number in 0..6u64 {
        steps.push(Step::Create { path: Path::new(&format!("f{number}")), slot: 0, excl: true });
        steps.push(Step::Write { slot: 0, at: number * 70_000, len: 100_000 });
        steps.push(Step::Fsync { slot: 0 });
    }
    Setup::calm(seed, EngineKind::Records).round(vec![steps], Ending::Unmount)
}

fn verdict(bug: Bug) -> Violation {
    run(&plain(1), Some(bug), false).violation.unwrap_or_else(|| panic!("nobody notices {bug:?}"))
}

#[test]
fn runs_that_differ_are_noticed_whatever_leaks() {
    twice(&plain(1)).unwrap();
    let seen_within_a_process =
        Bug::LEAKS.into_iter().filter(|leak| ![Bug::LeakThread, Bug::LeakEnvironment].contains(leak));
    for leak in seen_within_a_process {
        let noticed = (1..=10).find(|seed| twice_with(&plain(*seed), Some(leak)).is_err());
        println!("{leak:?}: world {noticed:?}");
        assert!(noticed.is_some(), "ten worlds say the same twice in spite of {leak:?}");
    }
}

#[test]
fn a_thread_is_refused() {
    let violation = verdict(Bug::LeakThread);
    assert_eq!(violation.rule, "panic", "{violation:?}");
}

#[test]
fn what_a_process_was_given_is_noticed_by_another() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_zest-sim"));
    // The first world in which blocks are stored.
    let seed =
        (0..50).find(|seed| run(&setup(*seed), None, false).tape.iter().any(|s| s.event.kind == "stored"));
    let seed = seed.unwrap().to_string();
    apart(program, &[&seed]).unwrap();
    let text = apart(program, &[&seed, "--bug", "LeakEnvironment"]).unwrap_err();
    assert!(text.contains("different runs"), "{text}");
}

#[test]
fn a_rule_that_nothing_can_keep_is_heard() {
    assert_eq!(verdict(Bug::CanaryFalseInvariant).rule, "canary");
}

#[test]
fn a_verdict_that_nobody_reports_is_noticed() {
    assert_eq!(verdict(Bug::CanarySwallowedVerdict).rule, "verdict");
}

#[test]
fn an_actor_that_goes_round_in_circles_is_stopped() {
    let violation = verdict(Bug::CanaryEndlessLoop);
    assert!(violation.rule == "panic" && violation.text.contains("endless"), "{violation:?}");
}

#[test]
fn an_actor_that_is_gone_is_missed() {
    assert_eq!(verdict(Bug::CanaryDeadActor).rule, "hang");
}
