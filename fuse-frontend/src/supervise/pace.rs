//! How often a worker may be started again, and after what pause. One that dies at once, again and again, is given up
//! soon; one that serves for a while in between may die more often, but not without end either. Pure.

use std::collections::VecDeque;
use std::time::Duration;
use zest_types::limits;

/// Workers that died.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// In a row, none of which served for a while.
    quick: u32,
    /// When.
    deaths: VecDeque<Duration>,
}

impl Pace {
    /// A worker died now, after it had served for so long. After which pause another may be started; `None`: no more.
    pub fn died(&mut self, now: Duration, served: Duration) -> Option<Duration> {
        let steady = served >= Duration::from_millis(limits::WORKER_STEADY_MS);
        self.quick = if steady { 0 } else { self.quick + 1 };
        let window = Duration::from_secs(limits::RESTARTS_SECS);
        while self.deaths.front().is_some_and(|at| now.saturating_sub(*at) > window) {
            self.deaths.pop_front();
        }
        self.deaths.push_back(now);
        if self.quick > limits::RESTARTS_QUICK || self.deaths.len() > limits::RESTARTS {
            return None;
        }
        Some(match self.quick {
            0 => Duration::ZERO,
            quick => Duration::from_millis(limits::RESTART_PAUSE_MS << (2 * (quick - 1))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dies_at_once_again_and_again_is_given_up() {
        let mut pace = Pace::default();
        let second = Duration::from_secs(1);
        let pauses: Vec<_> =
            (0..limits::RESTARTS_QUICK).map(|n| pace.died(second * n, Duration::ZERO)).collect();
        assert!(pauses.iter().all(Option::is_some) && pauses.is_sorted());
        assert_eq!(pace.died(second * 9, Duration::ZERO), None);
        assert_eq!(pace.died(second * 20, second * 9), Some(Duration::ZERO), "it served for a while");
    }

    #[test]
    fn nobody_dies_without_end() {
        let mut pace = Pace::default();
        let steady = Duration::from_millis(limits::WORKER_STEADY_MS);
        let before = (0..).find(|n| pace.died(steady * *n, steady).is_none());
        assert_eq!(before.map(|n| n as usize), Some(limits::RESTARTS));
        let later = Duration::from_secs(2 * limits::RESTARTS_SECS) + steady * limits::RESTARTS as u32;
        assert!(pace.died(later, steady).is_some());
    }
}
