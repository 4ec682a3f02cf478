//! How many bytes may move in a time: a bucket that fills at a rate and lends nothing. Pure; times are given. Who wants
//! to move bytes takes a place in a line, and asks when its turn has come; a new rate holds for all who wait.

use std::time::Duration;

/// Parts of a byte that are counted: as many as a second has nanoseconds.
const NANO: i128 = 1_000_000_000;
/// What gathers while nobody moves anything: the bytes of one in so many seconds.
const BURST: i128 = 10;
/// Nobody waits longer than this without asking again, since the rate may change.
const LONGEST: Duration = Duration::from_millis(500);

/// The rate, and the line of those who wait.
#[derive(Clone, Debug, Default)]
pub struct Bandwidth {
    /// Bytes in a second; 0: as many as anybody likes.
    rate: u64,
    /// Bytes everybody wanted so far, in nano-bytes.
    wanted: i128,
    /// Bytes of them that may have moved.
    allowed: i128,
    /// When that was so.
    at: Duration,
}

/// A place in the line: the bytes wanted by all before, and one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(i128);

impl Bandwidth {
    /// A line with this rate, bytes in a second; 0 is no limit.
    #[must_use]
    pub fn new(rate: u64) -> Bandwidth {
        Bandwidth { rate, ..Bandwidth::default() }
    }

    /// Bytes in a second; 0 is no limit.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// From now on this rate holds.
    pub fn set_rate(&mut self, rate: u64, now: Duration) {
        self.pass(now);
        self.rate = rate;
    }

    /// Takes a place in the line for so many bytes.
    pub fn queue(&mut self, bytes: u64, now: Duration) -> Turn {
        self.pass(now);
        self.wanted += i128::from(bytes) * NANO;
        Turn(self.wanted)
    }

    /// How long to wait before asking again; `None` when these bytes may move.
    pub fn wait(&mut self, turn: Turn, now: Duration) -> Option<Duration> {
        self.pass(now);
        let missing = turn.0 - self.allowed;
        if self.rate == 0 || missing <= 0 {
            return None;
        }
        let nanos = missing / i128::from(self.rate) + 1;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(LONGEST))
    }

    /// So many bytes that were asked for did not move, or will not: others may have them.
    pub fn give_back(&mut self, bytes: u64) {
        self.allowed += i128::from(bytes) * NANO;
    }

    /// So many bytes moved beside those that were asked for: later ones wait for them.
    pub fn charge(&mut self, bytes: u64) {
        if self.rate > 0 {
            self.allowed -= i128::from(bytes) * NANO;
        }
    }

    /// Time goes by.
    fn pass(&mut self, now: Duration) {
        let nanos = i128::try_from(now.saturating_sub(self.at).as_nanos()).unwrap_or(0);
        self.at = self.at.max(now);
        let rate = i128::from(self.rate);
        let full = self.wanted + rate * NANO / BURST;
        self.allowed = match self.rate {
            0 => self.wanted,
            _ => self.allowed.saturating_add(rate * nanos).min(full),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Asks until the turn has come; answers when that was.
    fn moved(line: &mut Bandwidth, turn: Turn, mut now: Duration) -> Duration {
        while let Some(wait) = line.wait(turn, now) {
            assert!(!wait.is_zero() && wait <= LONGEST);
            now += wait;
        }
        now
    }

    #[test]
    fn no_rate_is_no_limit() {
        let mut line = Bandwidth::new(0);
        let turn = line.queue(u64::MAX, MS(1));
        assert_eq!(line.wait(turn, MS(1)), None);
        line.set_rate(1000, MS(2));
        let turn = line.queue(1000, MS(2));
        assert_eq!(moved(&mut line, turn, MS(2)).as_millis(), 1002, "nothing was saved up, nothing is owed");
    }

    #[test]
    fn a_rate_is_kept_and_a_tenth_of_a_second_is_saved_up() {
        let mut line = Bandwidth::new(1000);
        let mut now = MS(60_000);
        for n in 1..=10u32 {
            let turn = line.queue(500, now);
            now = moved(&mut line, turn, now);
            assert_eq!(now.as_millis(), 60_000 + u128::from(n) * 500 - 100);
        }
    }

    #[test]
    fn a_new_rate_holds_for_who_waits_already() {
        let mut line = Bandwidth::new(1);
        let turn = line.queue(10_000, MS(0));
        assert_eq!(line.wait(turn, MS(0)), Some(LONGEST));
        line.set_rate(100_000, MS(500));
        assert!(moved(&mut line, turn, MS(500)) <= MS(601));
        let turn = line.queue(1 << 40, MS(700));
        line.set_rate(0, MS(800));
        assert_eq!(line.wait(turn, MS(800)), None);
    }

    #[test]
    fn what_did_not_move_is_for_others_and_what_was_more_is_paid() {
        let mut line = Bandwidth::new(1000);
        line.queue(5000, MS(0));
        let turn = line.queue(1000, MS(0));
        line.give_back(5000);
        assert_eq!(moved(&mut line, turn, MS(0)).as_millis(), 1000);
        line.charge(2000);
        let turn = line.queue(1000, MS(1000));
        assert_eq!(moved(&mut line, turn, MS(1000)).as_millis(), 4000);
    }

    proptest! {
        #[test]
        fn never_more_in_any_time_than_the_rate_and_what_was_saved(
            rate in 1u64..1_000_000,
            wants in prop::collection::vec((1u64..100_000, 0u64..2_000), 1..60),
        ) {
            let mut line = Bandwidth::new(rate);
            let (mut now, mut moves) = (Duration::ZERO, Vec::new());
            for (bytes, pause) in wants {
                now += MS(pause);
                let turn = line.queue(bytes, now);
                now = moved(&mut line, turn, now);
                moves.push((now, bytes));
            }
            for from in 0..moves.len() {
                // One's own bytes were paid before they moved: only those of later moves count.
                let mut sum = 0u128;
                for (at, bytes) in &moves[from + 1..] {
                    sum += u128::from(*bytes);
                    let nanos = (*at - moves[from].0).as_nanos();
                    let most = u128::from(rate) * nanos / 1_000_000_000 + u128::from(rate / 10) + 2;
                    prop_assert!(sum <= most, "{} bytes in {} ns at {}/s", sum, nanos, rate);
                }
            }
        }

        #[test]
        fn who_stands_in_line_goes_in_order_and_the_line_is_used(
            rate in 1000u64..1_000_000,
            wants in prop::collection::vec(1u64..100_000, 1..40),
        ) {
            let mut line = Bandwidth::new(rate);
            let turns: Vec<Turn> = wants.iter().map(|bytes| line.queue(*bytes, Duration::ZERO)).collect();
            let mut now = Duration::ZERO;
            for turn in &turns {
                now = moved(&mut line, *turn, now);
            }
            let ideal = u128::from(wants.iter().sum::<u64>()) * 1_000_000_000 / u128::from(rate);
            prop_assert!(now.as_nanos() >= ideal && now.as_nanos() <= ideal + 1000 * turns.len() as u128);
        }
    }
}
