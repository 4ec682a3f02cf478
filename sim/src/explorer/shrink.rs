//! Makes a failing plan smaller: leaves out rounds, users, faults and steps, as long as the same rule is still
//! broken. What is left is what matters.

use super::run;
use crate::plan::Setup;
use zest_world::planted::Bug;

/// A smaller plan that breaks the same rule, found with at most `tries` runs.
#[must_use]
pub fn shrink(setup: &Setup, bug: Option<Bug>, mut tries: usize) -> Setup {
    let Some(rule) = run(setup, bug, false).violation.map(|violation| violation.rule) else {
        return setup.clone();
    };
    let mut best = setup.clone();
    let mut still = |candidate: &Setup| {
        tries = tries.saturating_sub(1);
        tries > 0 && run(candidate, bug, false).violation.is_some_and(|violation| violation.rule == rule)
    };
    loop {
        let before = best.clone();
        fewer_parts(&mut best, &mut still);
        for size in [32, 8, 4, 2, 1] {
            fewer_steps(&mut best, size, &mut still);
        }
        if best == before {
            return best;
        }
    }
}

fn fewer_parts(best: &mut Setup, still: &mut impl FnMut(&Setup) -> bool) {
    for fault in best.faults.clone().into_keys() {
        keep_if(best, still, |setup| setup.faults.retain(|other, _| *other != fault));
    }
    for at in (0..best.rounds.len()).rev() {
        keep_if(best, still, |setup| drop(setup.rounds.remove(at)));
    }
    keep_if(best, still, |setup| setup.copies = false);
    keep_if(best, still, |setup| setup.quotas = false);
    for at in 0..best.rounds.len() {
        keep_if(best, still, |setup| setup.rounds[at].later = 0);
        keep_if(best, still, |setup| setup.rounds[at].dies_at = None);
        for user in (0..best.rounds[at].users.len()).rev() {
            keep_if(best, still, |setup| drop(setup.rounds[at].users.remove(user)));
        }
    }
}

fn fewer_steps(best: &mut Setup, size: usize, still: &mut impl FnMut(&Setup) -> bool) {
    for round in 0..best.rounds.len() {
        for user in 0..best.rounds[round].users.len() {
            let mut end = best.rounds[round].users[user].len();
            while end > 0 {
                let start = end.saturating_sub(size);
                keep_if(best, still, |setup| drop(setup.rounds[round].users[user].drain(start..end)));
                end = start;
            }
        }
    }
}

fn keep_if(best: &mut Setup, still: &mut impl FnMut(&Setup) -> bool, change: impl FnOnce(&mut Setup)) {
    let mut candidate = best.clone();
    change(&mut candidate);
    if candidate != *best && still(&candidate) {
        *best = candidate;
    }
}
