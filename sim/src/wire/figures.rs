//! What a tape tells of speed: answers in each stretch of time, and how long the slowest took.

use super::life::WireOutcome;
use std::collections::BTreeMap;

/// Answers over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Answers in each second.
    pub answers: BTreeMap<u64, u64>,
    /// Longest wait of a question asked in each second, in microseconds.
    pub waits: BTreeMap<u64, u64>,
    /// When the server forked, in seconds, and how long it stood still, in milliseconds.
    pub forks: Vec<(u64, u64)>,
}

/// A second in microseconds.
const SECOND: u64 = 1_000_000;

impl Figures {
    /// Those of a world.
    #[must_use]
    pub fn of(outcome: &WireOutcome) -> Figures {
        let (mut figures, mut asked) = (Figures::default(), BTreeMap::new());
        for stamped in &outcome.outcome.tape {
            match stamped.event.kind {
                "fork" => figures.forks.push((stamped.at / SECOND, stamped.event.detail)),
                "asks" => drop(asked.insert(stamped.event.detail, stamped.at)),
                "is answered" => {
                    *figures.answers.entry(stamped.at / SECOND).or_insert(0) += 1;
                    if let Some(at) = asked.remove(&stamped.event.subject) {
                        let longest = figures.waits.entry(at / SECOND).or_insert(0);
                        *longest = (*longest).max(stamped.at - at);
                    }
                }
                _ => {}
            }
        }
        figures
    }

    /// Answers in the usual second: half have more.
    #[must_use]
    pub fn usual(&self) -> u64 {
        let mut all: Vec<u64> = self.answers.values().copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    }

    /// Answers in a second.
    #[must_use]
    pub fn at(&self, second: u64) -> u64 {
        self.answers.get(&second).copied().unwrap_or(0)
    }
}
