//! The machine's clocks and its source of randomness.

use ring::rand::{SecureRandom, SystemRandom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use zest_types::Time;
use zest_world::{BoxFuture, Chance, Clock, NoSecrets};

/// Wall clock, monotonic clock, and timers of the tokio runtime that polls them.
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock whose monotonic time begins now.
    #[must_use]
    pub fn new() -> RealClock {
        RealClock { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Time {
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Time::new(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
            // A machine that lives before 1970 has a broken clock; the epoch is the nearest time it may claim.
            Err(_) => Time::new(0, 0),
        }
    }

    fn mono(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        // Made inside the future: a timer belongs to the runtime that polls it, not to the caller's.
        Box::pin(async move { tokio::time::sleep(time).await })
    }
}

/// Random numbers of the operating system.
pub struct RealChance {
    source: SystemRandom,
    spare: AtomicU64,
}

impl RealChance {
    /// The system's source.
    #[must_use]
    pub fn new() -> RealChance {
        RealChance { source: SystemRandom::new(), spare: AtomicU64::new(0x9E37_79B9_7F4A_7C15) }
    }
}

impl Default for RealChance {
    fn default() -> RealChance {
        RealChance::new()
    }
}

impl Chance for RealChance {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.source.fill(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            // Without the system's source a counter must do: nothing secret hangs on these numbers (keys and
            // nonces come from `secret`, which fails).
            Err(_) => self.spare.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed),
        }
    }

    fn secret(&self, bytes: &mut [u8]) -> Result<(), NoSecrets> {
        self.source.fill(bytes).map_err(|_| NoSecrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_goes_on_and_chance_differs() {
        let clock = RealClock::new();
        let first = clock.mono();
        assert!(clock.mono() >= first);
        assert!(clock.now().sec > 1_500_000_000);
        let chance = RealChance::new();
        assert_ne!(chance.next_u64(), chance.next_u64());
        let mut secrets = [[0; 32]; 2];
        assert!(secrets.iter_mut().all(|bytes| chance.secret(bytes).is_ok()));
        assert_ne!(secrets[0], secrets[1]);
    }
}
