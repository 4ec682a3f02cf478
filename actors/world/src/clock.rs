//! Time and chance.

use crate::BoxFuture;
use std::time::Duration;
use zest_types::Time;

/// The time, and waiting for it.
pub trait Clock: Send + Sync {
    /// Wall-clock time, for records; may jump.
    fn now(&self) -> Time;
    /// Time since some fixed moment; never goes back.
    fn mono(&self) -> Duration;
    /// Ready after this long.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// Random numbers.
pub trait Chance: Send + Sync {
    /// Sixty-four random bits.
    fn next_u64(&self) -> u64;
}
