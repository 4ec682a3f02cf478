//! Makes a failing plan smaller: leaves out rounds, clients, users, faults and steps, as long as the same rule is still
//! broken. What is left is what matters.

use crate::plan::{Ending, Setup, Step};
use crate::wire::WireSetup;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use zest_world::planted::Bug;

/// How much may be done for it.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Runs.
    pub tries: usize,
    /// Time of the machine.
    pub time: Duration,
}

/// A plan of either kind.
pub trait Plan: Clone + PartialEq {
    /// The rule it breaks.
    fn broken(&self, bug: Option<Bug>) -> Option<&'static str>;
    /// Tries everything that may be left out, once.
    fn pass(search: &mut Search<'_, Self>);
    /// Requests that users make, and faults that may strike.
    fn size(&self) -> (usize, usize);
}

/// A search for a smaller plan.
pub struct Search<'a, P: Plan> {
    best: P,
    still: &'a mut dyn FnMut(&P) -> bool,
}

impl<P: Plan> Search<'_, P> {
    fn try_without(&mut self, change: impl FnOnce(&mut P)) {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        if candidate != self.best && (self.still)(&candidate) {
            self.best = candidate;
        }
    }
}

/// A smaller plan that breaks the same rule, and the runs it took.
#[must_use]
pub fn shrink<P: Plan>(plan: &P, bug: Option<Bug>, limit: Limit) -> (P, usize) {
    let Some(rule) = plan.broken(bug) else { return (plan.clone(), 1) };
    let (begun, mut tries) = (Instant::now(), 1);
    let mut still = |candidate: &P| {
        if tries >= limit.tries || begun.elapsed() >= limit.time {
            return false;
        }
        tries += 1;
        candidate.broken(bug) == Some(rule)
    };
    let mut search = Search { best: plan.clone(), still: &mut still };
    loop {
        let before = search.best.clone();
        P::pass(&mut search);
        if search.best == before {
            break;
        }
    }
    let best = search.best;
    (best, tries)
}

fn requests<'a>(steps: impl Iterator<Item = &'a Step>) -> usize {
    steps.filter(|step| !matches!(step, Step::Pause { .. })).count()
}

/// Takes pieces of so many steps away, from the end.
const PIECES: [usize; 5] = [32, 8, 4, 2, 1];

impl Plan for Setup {
    fn broken(&self, bug: Option<Bug>) -> Option<&'static str> {
        super::run(self, bug, false).violation.map(|violation| violation.rule)
    }

    fn size(&self) -> (usize, usize) {
        let steps = self.rounds.iter().flat_map(|round| &round.users).flatten();
        let ends = self.rounds.iter().filter(|round| round.dies_at.is_some() || round.ending == Ending::Cut);
        (requests(steps), self.faults.len() + ends.count())
    }

    fn pass(search: &mut Search<'_, Setup>) {
        for fault in search.best.faults.clone().into_keys() {
            search.try_without(|setup| setup.faults.retain(|other, _| *other != fault));
        }
        for at in (0..search.best.rounds.len()).rev() {
            search.try_without(|setup| drop(setup.rounds.remove(at)));
        }
        search.try_without(|setup| setup.copies = false);
        search.try_without(|setup| setup.quotas = false);
        for at in 0..search.best.rounds.len() {
            search.try_without(|setup| setup.rounds[at].later = 0);
            search.try_without(|setup| setup.rounds[at].dies_at = None);
            search.try_without(|setup| setup.rounds[at].ending = Ending::Unmount);
            for user in (0..search.best.rounds[at].users.len()).rev() {
                search.try_without(|setup| drop(setup.rounds[at].users.remove(user)));
            }
        }
        for size in PIECES {
            for round in 0..search.best.rounds.len() {
                for user in 0..search.best.rounds[round].users.len() {
                    let mut end = search.best.rounds[round].users[user].len();
                    while end > 0 {
                        let start = end.saturating_sub(size);
                        search.try_without(|setup| drop(setup.rounds[round].users[user].drain(start..end)));
                        end = start;
                    }
                }
            }
        }
    }
}

impl Plan for WireSetup {
    fn broken(&self, bug: Option<Bug>) -> Option<&'static str> {
        crate::wire::run(self, bug, false).outcome.violation.map(|violation| violation.rule)
    }

    fn size(&self) -> (usize, usize) {
        let often = (self.ledger as usize + self.locks as usize) * 2 * self.clients.len();
        let faults = self.mishaps.len() + self.faults.len() + usize::from(self.dies.is_some());
        (requests(self.clients.iter().flatten().flatten()) + often, faults)
    }

    fn pass(search: &mut Search<'_, WireSetup>) {
        for mishap in search.best.mishaps.clone().into_keys() {
            search.try_without(|setup| setup.mishaps.retain(|other, _| *other != mishap));
        }
        search.try_without(|setup| setup.faults = BTreeMap::new());
        search.try_without(|setup| setup.dies = None);
        search.try_without(|setup| setup.quotas = false);
        search.try_without(|setup| (setup.trash_days, setup.lag_ms) = (0, None));
        search.try_without(|setup| setup.seconds = 0);
        // As few as do: no plan has more of either.
        for most in 0..8 {
            search.try_without(|setup| setup.locks = setup.locks.min(most));
            search.try_without(|setup| setup.ledger = setup.ledger.min(most));
        }
        for client in (0..search.best.clients.len()).rev() {
            if search.best.clients.len() > 1 {
                search.try_without(|setup| drop(setup.clients.remove(client)));
            }
        }
        for client in 0..search.best.clients.len() {
            for user in (0..search.best.clients[client].len()).rev() {
                search.try_without(|setup| drop(setup.clients[client].remove(user)));
            }
        }
        for size in PIECES {
            for client in 0..search.best.clients.len() {
                for user in 0..search.best.clients[client].len() {
                    let mut end = search.best.clients[client][user].len();
                    while end > 0 {
                        let start = end.saturating_sub(size);
                        search.try_without(|setup| drop(setup.clients[client][user].drain(start..end)));
                        end = start;
                    }
                }
            }
        }
    }
}
