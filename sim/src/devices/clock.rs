//! Virtual time. The monotonic clock is the virtual clock of the host's runtime; the wall clock starts at a
//! fixed date and never shows the same nanosecond twice, so that any two decisions can be told apart.

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
    last: Mutex<i64>,
}

impl SimClock {
    /// The clock of an incarnation that begins when the world is `before` old. Must be made inside the host.
    #[must_use]
    pub fn new(before: Duration) -> SimClock {
        SimClock { before, started: tokio::time::Instant::now(), last: Mutex::new(0) }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Time {
        let nanos = i64::try_from(self.mono().as_nanos()).unwrap_or(i64::MAX / 2);
        let mut last = self.last.lock();
        *last = nanos.max(*last + 1);
        let nsec = u32::try_from(*last % 1_000_000_000).unwrap_or(0);
        Time::new(DAWN + *last / 1_000_000_000, nsec)
    }

    fn mono(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
