//! Memory for write requests that came while the memory for unflushed writes was used up: their payload waits
//! here, so that the door's thread never does.

use bytes::Bytes;
use std::sync::Arc;
use zest_data::Budget;
use zest_data::budget::Charge;

/// Bytes of a payload that are taken as long as there is room at all.
const LEAST: u64 = 4096;

/// A bounded place for payloads that wait.
pub struct Reserve {
    budget: Budget,
}

/// A payload that waits; its room is free again when this is dropped.
pub struct Waiting {
    /// The bytes.
    pub data: Bytes,
    _room: Charge,
}

impl Reserve {
    /// Room for this many bytes.
    #[must_use]
    pub fn new(limit: u64) -> Reserve {
        Reserve { budget: Budget::new(limit) }
    }

    /// Bytes that wait now, and that may.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        (self.budget.used(), self.budget.limit())
    }

    /// Copies a payload, or the beginning of one: the less room is left, the less of it, so that many can wait. Who
    /// writes is told how much was written, as of any write that was cut short; with `whole`, for writers who can't be
    /// told, all of it or nothing. `None` when there is no room.
    #[must_use]
    pub fn take(&self, data: &[u8], whole: bool) -> Option<Arc<Waiting>> {
        let left = self.budget.limit().saturating_sub(self.budget.used());
        let share = left.saturating_sub(self.budget.limit() / 4) / 32;
        let share = if whole { u64::MAX } else { share.max(LEAST) };
        let take = data.len().min(usize::try_from(share).unwrap_or(usize::MAX));
        let data = data.split_at_checked(take)?.0;
        let room = self.budget.try_take(data.len() as u64)?;
        Some(Arc::new(Waiting { data: Bytes::copy_from_slice(data), _room: room }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::limits::{MAX_IO, WRITE_RESERVE};

    #[test]
    fn one_gets_all_it_wants_and_thousands_get_something() {
        let reserve = Reserve::new(WRITE_RESERVE);
        let data = vec![7; MAX_IO as usize];
        let first = reserve.take(&data, false).unwrap();
        assert_eq!(first.data, data);
        let mut waiting = vec![first];
        while let Some(next) = reserve.take(&data, false) {
            assert!(next.data.len() >= LEAST as usize && data.starts_with(&next.data));
            waiting.push(next);
        }
        assert!(waiting.len() > 4000, "{}", waiting.len());
        assert!(waiting.iter().map(|one| one.data.len() as u64).sum::<u64>() <= WRITE_RESERVE);
        waiting.clear();
        assert_eq!(reserve.take(&data, false).unwrap().data.len(), data.len());
    }

    #[test]
    fn who_can_not_be_told_of_a_short_write_gets_all_or_nothing() {
        let reserve = Reserve::new(2 * u64::from(MAX_IO));
        let data = vec![7; MAX_IO as usize];
        let waiting: Vec<_> = (0..3).map(|_| reserve.take(&data, true)).collect();
        let sizes: Vec<_> = waiting.iter().map(|one| one.as_ref().map(|one| one.data.len())).collect();
        assert_eq!(sizes, [Some(data.len()), Some(data.len()), None]);
    }
}
