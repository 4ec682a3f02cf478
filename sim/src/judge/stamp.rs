//! What the judge knows of a time in an attribute: the span it must lie in. Seeing it makes it exact.

use zest_types::Time;

/// A span of time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Not before.
    pub low: Time,
    /// Not after.
    pub high: Time,
}

const FAR: Time = Time::new(i64::MAX, 0);

impl Stamp {
    /// Nothing is known.
    pub const ANY: Stamp = Stamp { low: Time::new(i64::MIN, 0), high: FAR };

    /// Known to the nanosecond.
    #[must_use]
    pub fn exactly(time: Time) -> Stamp {
        Stamp { low: time, high: time }
    }

    /// Some moment of a call that was made at `time` and may not have been answered yet.
    #[must_use]
    pub fn since(time: Time) -> Stamp {
        Stamp { low: time, high: FAR }
    }

    /// The call was answered now.
    pub fn close(&mut self, now: Time) {
        if self.high == FAR && self.low != Stamp::ANY.low {
            self.high = now;
        }
    }

    /// The later of what was there and some moment of `other`.
    #[must_use]
    pub fn touched(self, other: Stamp) -> Stamp {
        if other.low == Stamp::ANY.low {
            return Stamp::ANY;
        }
        Stamp { low: self.low.max(other.low), high: self.high.max(other.high) }
    }

    /// Whether a time that was seen can be this one.
    #[must_use]
    pub fn holds(&self, time: Time) -> bool {
        self.low <= time && time <= self.high
    }
}
