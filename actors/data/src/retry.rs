//! How long to wait before an object request is tried again. Pure: chance comes in as a number.

use std::time::Duration;
use zest_types::limits::OBJECT_RETRIES;

const FIRST_MS: u64 = 100;
const MOST_MS: u64 = 30_000;

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
