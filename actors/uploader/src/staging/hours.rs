//! When staged blocks may go up: after a delay, and in certain hours of the day. Pure. Source: volume client's
//! options `--upload-delay` and `--upload-hours`.

use std::time::Duration;
use zest_types::Time;

/// A window of every day, in hours of the local clock; may go over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// First hour, 0 to 23.
    pub from: u8,
    /// The hour at which it ends.
    pub to: u8,
    /// Seconds by which the local clock is ahead of UTC.
    pub ahead: i64,
}

impl Hours {
    /// Reads `A-B` or `A,B`; equal hours and an empty text mean always.
    pub fn parse(text: &str, ahead: i64) -> Result<Hours, String> {
        let bad = || format!("{text:?} are no hours: write two of 0 to 23, such as 1-6 or 22,5");
        if text.trim().is_empty() {
            return Ok(Hours { from: 0, to: 0, ahead });
        }
        let (from, to) = text.split_once(['-', ',']).ok_or_else(bad)?;
        let hour = |word: &str| word.trim().parse::<u8>().ok().filter(|hour| *hour < 24).ok_or_else(bad);
        Ok(Hours { from: hour(from)?, to: hour(to)?, ahead })
    }

    /// Whether this time is in the window.
    #[must_use]
    pub fn open(&self, now: Time) -> bool {
        let hour = (now.sec.saturating_add(self.ahead)).rem_euclid(86_400) / 3600;
        let (from, to) = (i64::from(self.from), i64::from(self.to));
        if from < to { (from..to).contains(&hour) } else { from == to || hour >= from || hour < to }
    }
}

/// What holds uploads back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// A block waits at least this long.
    pub delay: Duration,
    /// And for this window.
    pub hours: Option<Hours>,
    /// But never longer than this, because of the two; zero: no bound.
    pub longest: Duration,
}

impl Patience {
    /// Whether a block that was staged at `at` may go up. `pressed`: room is needed, so the delay does not count.
    #[must_use]
    pub fn over(&self, at: i64, now: Time, pressed: bool) -> bool {
        let age = Duration::from_secs(u64::try_from(now.sec.saturating_sub(at)).unwrap_or(0));
        let old = !self.longest.is_zero() && age >= self.longest;
        // A clock that was set back must not hold a block for ever.
        let delayed = age < self.delay && now.sec >= at && !pressed;
        old || (!delayed && self.hours.is_none_or(|hours| hours.open(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64) -> Time {
        Time::new(1_700_000_000 / 86_400 * 86_400 + hour * 3600 + 59, 0)
    }

    #[test]
    fn hours_as_users_write_them() {
        let day = Hours { from: 1, to: 6, ahead: 0 };
        assert_eq!(Hours::parse("1-6", 0), Ok(day));
        assert_eq!(Hours::parse(" 1, 6", 0), Ok(day));
        for always in ["", "5-5"] {
            assert!((0..24).all(|hour| Hours::parse(always, 0).unwrap().open(at(hour))));
        }
        for bad in ["x", "1", "1-24", "-1-3", "1-2-3"] {
            assert!(Hours::parse(bad, 0).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_window_begins_ends_and_goes_over_midnight() {
        let open =
            |from, to, ahead| (0..24).filter(|h| Hours { from, to, ahead }.open(at(*h))).collect::<Vec<_>>();
        assert_eq!(open(1, 4, 0), [1, 2, 3]);
        assert_eq!(open(22, 2, 0), [0, 1, 22, 23]);
        assert_eq!(open(1, 4, 2 * 3600), [0, 1, 23], "the local clock counts");
    }

    #[test]
    fn who_waits_how_long() {
        let secs = Duration::from_secs;
        let patience = Patience { delay: secs(60), hours: None, longest: secs(1000) };
        let now = Time::new(10_000, 0);
        assert!(!patience.over(9_950, now, false) && patience.over(9_940, now, false));
        assert!(patience.over(9_999, now, true), "pressed");
        assert!(patience.over(10_500, now, false), "the clock was set back");
        let shut = Hours { from: 20, to: 21, ahead: 0 };
        let night = Patience { hours: Some(shut), ..patience };
        assert!(
            !night.over(9_500, now, true) && night.over(9_000, now, false),
            "too old to wait for the hour"
        );
        assert!(Patience::default().over(10_000, now, false));
    }
}
