//! How fast an object store answers: times of recent gets, from which follows how far to read ahead and when a get is
//! late enough to be asked for a second time. Pure; times are given.

use std::collections::VecDeque;
use std::time::Duration;
use zest_types::limits::{HEDGE_AFTER_MS, HEDGE_BURST, HEDGE_SHARE, PACE_KEPT};

/// What a get brings; large ones take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole block.
    Whole,
    /// Part of one.
    Part,
}

/// Fewer times than this say nothing.
const ENOUGH: usize = 16;

#[derive(Clone, Debug, Default)]
struct Times {
    kept: VecDeque<Duration>,
    /// The time that all but one in twenty stay below; made anew now and then.
    late: Option<Duration>,
    since: usize,
}

impl Times {
    fn note(&mut self, took: Duration) {
        if self.kept.len() >= PACE_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(took);
        self.since += 1;
        if self.kept.len() >= ENOUGH && (self.late.is_none() || self.since >= ENOUGH) {
            self.since = 0;
            let mut sorted: Vec<Duration> = self.kept.iter().copied().collect();
            sorted.sort_unstable();
            self.late = sorted.get(sorted.len() * 95 / 100).copied();
        }
    }
}

/// The store's pace so far.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    whole: Times,
    part: Times,
    /// Mean time of a whole block, newer ones weighing more; zero as long as none came.
    block: Duration,
    /// Second requests that may be made, in shares of one.
    credit: u32,
}

impl Pace {
    /// A get was answered.
    pub fn note(&mut self, kind: Kind, took: Duration) {
        self.credit = (self.credit + 1).min(HEDGE_SHARE * HEDGE_BURST);
        match kind {
            Kind::Part => self.part.note(took),
            Kind::Whole => {
                self.whole.note(took);
                self.block = if self.block.is_zero() { took } else { (self.block * 7 + took) / 8 };
            }
        }
    }

    /// Mean time of a whole block.
    #[must_use]
    pub fn block_time(&self) -> Duration {
        self.block
    }

    /// How long a get may take before it is late; `None` as long as too little is known.
    #[must_use]
    pub fn late_after(&self, kind: Kind) -> Option<Duration> {
        let times = match kind {
            Kind::Whole => &self.whole,
            Kind::Part => &self.part,
        };
        Some(times.late?.max(Duration::from_millis(HEDGE_AFTER_MS)))
    }

    /// Takes the right to ask a second time, if there is one: a bounded share of all gets, so that a store that is
    /// slow for everybody is not asked twice for everything.
    pub fn take_hedge(&mut self) -> bool {
        let left = self.credit.checked_sub(HEDGE_SHARE);
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn late_is_what_few_were() {
        let mut pace = Pace::default();
        for n in 0..15 {
            pace.note(Kind::Whole, MS(20 + n % 3));
            assert_eq!(pace.late_after(Kind::Whole), None, "too early to tell");
        }
        for _ in 0..100 {
            pace.note(Kind::Whole, MS(20));
        }
        pace.note(Kind::Whole, MS(900));
        assert!((MS(20)..MS(100)).contains(&pace.late_after(Kind::Whole).unwrap()));
        assert_eq!(pace.late_after(Kind::Part), None);
        (0..200).for_each(|_| pace.note(Kind::Whole, MS(300)));
        assert_eq!(pace.late_after(Kind::Whole), Some(MS(300)), "a slower store is the new measure");
        (0..200).for_each(|_| pace.note(Kind::Part, Duration::from_micros(50)));
        assert_eq!(pace.late_after(Kind::Part), Some(MS(HEDGE_AFTER_MS)));
        assert!((MS(299)..=MS(300)).contains(&pace.block_time()));
    }

    #[test]
    fn second_requests_are_a_bounded_share() {
        let mut pace = Pace::default();
        assert!(!pace.take_hedge());
        (0..10_000).for_each(|_| pace.note(Kind::Whole, MS(1)));
        let at_once = (0..100).filter(|_| pace.take_hedge()).count();
        assert_eq!(at_once, HEDGE_BURST as usize);
        let mut taken = 0;
        for _ in 0..1000 {
            pace.note(Kind::Part, MS(1));
            taken += u32::from(pace.take_hedge());
        }
        assert_eq!(taken, 1000 / HEDGE_SHARE);
    }
}
