//! A point in time as the volume stores it. Where "now" comes from is the world's business.

use serde::{Deserialize, Serialize};

/// Seconds and nanoseconds since 1970-01-01 UTC; seconds may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time {
    /// Whole seconds.
    pub sec: i64,
    /// 0 to 999,999,999.
    pub nsec: u32,
}

impl Time {
    /// A point in time from its parts.
    #[must_use]
    pub const fn new(sec: i64, nsec: u32) -> Time {
        Time { sec, nsec }
    }

    /// The next point in time there is.
    #[must_use]
    pub const fn next(self) -> Time {
        if self.nsec < 999_999_999 {
            Time { sec: self.sec, nsec: self.nsec + 1 }
        } else {
            Time { sec: self.sec.saturating_add(1), nsec: 0 }
        }
    }

    /// Nanoseconds since 1970; saturates far away from today.
    #[must_use]
    pub fn as_nanos(self) -> i64 {
        self.sec.saturating_mul(1_000_000_000).saturating_add(i64::from(self.nsec))
    }
}
