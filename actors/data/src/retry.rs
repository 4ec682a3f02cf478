//! Object requests that are tried again: how often, how long apart, and when one try is given up. Only failures
//! that may pass are repeated. Clock and chance are the world's.

use futures::future::{Either, select};
use std::time::Duration;
use zest_world::objects::Manners;
use zest_world::{BoxFuture, Clock, ObjectError, World};

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

/// Makes a request until it succeeds, fails for good, or was tried again as often as the store's [`Manners`] say. A
/// try without an answer is dropped in time, and counts as one that may succeed later.
pub async fn retrying<T>(
    world: World,
    asker: Asker,
    key: String,
    request: impl Fn(&World, &str) -> BoxFuture<'static, Result<T, ObjectError>>,
) -> Result<T, ObjectError> {
    let manners = world.objects.manners();
    let mut tries = 0;
    loop {
        tries += 1;
        let answer = in_time(&world, &manners, &key, request(&world, &key)).await;
        let wait = match &answer {
            Err(error) if error.is_transient() => backoff(tries, manners.retries, world.chance.next_u64()),
            _ => None,
        };
        let Some(wait) = wait else { return answer };
        world.tell(asker.actor, "retry", asker.subject, u64::from(tries));
        world.clock.sleep(wait).await;
    }
}

/// One try, given up when there is no answer in time.
pub async fn in_time<T>(
    world: &World,
    manners: &Manners,
    key: &str,
    request: BoxFuture<'static, Result<T, ObjectError>>,
) -> Result<T, ObjectError> {
    match manners.keeps_time {
        true => request.await,
        false => within(&*world.clock, manners.timeout, key, request).await,
    }
}

/// A request that is given up after this long.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    key: &str,
    request: BoxFuture<'static, Result<T, ObjectError>>,
) -> Result<T, ObjectError> {
    match select(request, clock.sleep(limit)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => {
            Err(ObjectError::Transient { key: key.into(), why: format!("no answer within {limit:?}") })
        }
    }
}

/// How long to wait after try number `tries` (from 1) failed, or `None` when it was the last one. Doubles up to
/// half a minute; the upper half is chance, so that clients do not come back all at once.
#[must_use]
pub fn backoff(tries: u32, retries: u32, chance: u64) -> Option<Duration> {
    if tries > retries {
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
        assert_eq!(backoff(1, 10, 0), Some(Duration::from_millis(100)));
        assert_eq!(backoff(1, 10, 100), Some(Duration::from_millis(200)));
        let low: Vec<_> = (1..=10).map(|tries| backoff(tries, 10, 0).unwrap()).collect();
        assert!(low.is_sorted());
        assert!((1..=10).all(|t| backoff(t, 10, u64::MAX).unwrap() <= Duration::from_millis(MOST_MS)));
        assert_eq!(backoff(11, 10, 7), None);
        assert_eq!(backoff(1, 0, 7), None);
    }
}
