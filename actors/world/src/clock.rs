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

/// There are no random numbers that are fit for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers to give that nobody can guess")]
pub struct NoSecrets;

/// Random numbers.
pub trait Chance: Send + Sync {
    /// Sixty-four random bits. Nothing secret may hang on them.
    fn next_u64(&self) -> u64;

    /// Fills `bytes` with numbers for keys and nonces. What can't give such numbers fails; nothing less takes
    /// their place.
    fn secret(&self, bytes: &mut [u8]) -> Result<(), NoSecrets> {
        let _ = bytes;
        Err(NoSecrets)
    }
}
