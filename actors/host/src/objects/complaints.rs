//! What a store refuses goes to the log, at most a line a second: an outage fails every request there is.

use parking_lot::Mutex;
use std::time::{Duration, Instant};
use zest_world::ObjectError;

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// When the last line was written, and how much was left out since.
#[derive(Default)]
pub(super) struct Complaints(Mutex<(Option<Instant>, u64)>);

impl Complaints {
    /// Writes a line about a failed request, or counts it. An object that does not exist is an answer, no failure.
    pub(super) fn note(&self, error: &ObjectError) {
        if matches!(error, ObjectError::NotFound(_)) {
            return;
        }
        if let Some(left_out) = self.turn(Instant::now()) {
            match left_out {
                0 => tracing::warn!("{error}"),
                more => tracing::warn!("{error} (and {more} failures more)"),
            }
        }
    }

    /// How many were left out before this one, or `None` if this one is left out, too.
    fn turn(&self, now: Instant) -> Option<u64> {
        let (last, left_out) = &mut *self.0.lock();
        if last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_tells_of_the_others() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        assert_eq!(complaints.turn(start), Some(0));
        assert_eq!(complaints.turn(start + PAUSE / 2), None);
        assert_eq!(complaints.turn(start + PAUSE / 3), None);
        assert_eq!(complaints.turn(start + PAUSE), Some(2));
        assert_eq!(complaints.turn(start + PAUSE * 3), Some(0));
    }
}
