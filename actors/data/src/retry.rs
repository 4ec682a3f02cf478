//! Object requests that are tried again: how often, how long apart, and when one try is given up. Only failures
//! that may pass are repeated. Clock and chance are the world's.

use futures::future::{Either, select};
use std::time::Duration;
use zest_types::limits::{OBJECT_RETRIES, OBJECT_TIMEOUT_MS};
use zest_world::{BoxFuture, ObjectError, World};

const FIRST_MS: u64 = 100;
const MOST_MS: u64 = 30_000;

/// Who asks, for traces.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The actor.
    pub actor: &'static str,
    /// What it is about: a slice, mostly.
    pub subject: u64,
}

/// Makes a request until it succeeds, fails for good, or was tried `OBJECT_RETRIES` times. A try without an answer
/// is dropped after `OBJECT_TIMEOUT_MS`, and counts as one that may succeed later.
pub async fn retrying<T>(
    world: World,
    asker: Asker,
    key: String,
    request: impl Fn(&World, &str) -> BoxFuture<'static, Result<T, ObjectError>>,
) -> Result<T, ObjectError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let limit = world.clock.sleep(Duration::from_millis(OBJECT_TIMEOUT_MS));
        let answer = match select(request(&world, &key), limit).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                Err(ObjectError::Transient { key: key.clone(), why: "no answer in time".into() })
            }
        };
        let wait = match &answer {
            Err(error) if error.is_transient() => backoff(tries, world.chance.next_u64()),
            _ => None,
        };
        let Some(wait) = wait else { return answer };
        world.tell(asker.actor, "retry", asker.subject, u64::from(tries));
        world.clock.sleep(wait).await;
    }
}

/// How long to wait after try number `tries` (from 1) failed, or `None` when it was the last one. Doubles up to
/// half a minute; the upper half is chance, so that clients do not come back all at once.
#[must_use]
pub fn backoff(tries: u32, chance: u64) -> Option<Duration> {
    if tries >= OBJECT_RETRIES {
        return None;
    }
    let full = FIRST_MS.saturating_mul(1 << tries.clamp(1, 20)).min(MOST_MS);
    let half = full / 2;
    Some(Duration::from_millis(half + chance % (full - half + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_bounds_and_end() {
        assert_eq!(backoff(1, 0), Some(Duration::from_millis(100)));
        assert_eq!(backoff(1, 100), Some(Duration::from_millis(200)));
        let low: Vec<_> = (1..OBJECT_RETRIES).map(|tries| backoff(tries, 0).unwrap()).collect();
        assert!(low.is_sorted());
        assert!((1..OBJECT_RETRIES).all(|t| backoff(t, u64::MAX).unwrap() <= Duration::from_millis(MOST_MS)));
        assert_eq!(backoff(OBJECT_RETRIES, 7), None);
    }
}
