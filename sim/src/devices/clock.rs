//! Virtual time. The monotonic clock is the virtual clock of the host's runtime; the wall clock starts at a
//! fixed date and never shows the same nanosecond twice, so that any two decisions can be told apart. Either may be
//! wrong, as the host has it.

use super::wrong::Wrong;
use parking_lot::Mutex;
use std::time::Duration;
use zest_types::Time;
use zest_world::{BoxFuture, Clock};

/// The date at which every world begins: 2030-01-01 UTC.
pub const DAWN: i64 = 1_893_456_000;

/// The clock of one incarnation.
pub struct SimClock {
    before: Duration,
    started: tokio::time::Instant,
    last: Mutex<Last>,
    wrong: Option<Wrong>,
}

/// What the wall clock showed last, and how often it had been set by then.
#[derive(Default)]
struct Last {
    nanos: i64,
    jumps: usize,
}

impl SimClock {
    /// The clock of an incarnation that begins when the world is `before` old. Must be made inside the host.
    #[must_use]
    pub fn new(before: Duration) -> SimClock {
        SimClock { before, started: tokio::time::Instant::now(), last: Mutex::default(), wrong: None }
    }

    /// The same, and wrong.
    #[must_use]
    pub fn wrong(self, wrong: Wrong) -> SimClock {
        SimClock { wrong: Some(wrong), ..self }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Time {
        let age = self.mono();
        let (offset, jumps) = self.wrong.as_ref().map_or((0, 0), |wrong| wrong.offset(age));
        let nanos = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX / 2).saturating_add(offset);
        let mut last = self.last.lock();
        // Only a clock that is set goes back.
        last.nanos = if jumps > last.jumps { nanos } else { nanos.max(last.nanos + 1) };
        last.jumps = jumps;
        let nsec = u32::try_from(last.nanos.rem_euclid(1_000_000_000)).unwrap_or(0);
        Time::new(DAWN + last.nanos.div_euclid(1_000_000_000), nsec)
    }

    fn mono(&self) -> Duration {
        let age = self.started.elapsed();
        self.before + self.wrong.as_ref().map_or(age, |wrong| wrong.shown(age))
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(self.wrong.as_ref().map_or(time, |wrong| wrong.real(time))))
    }
}
