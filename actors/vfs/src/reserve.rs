//! Memory for write requests that came while the memory for unflushed writes was used up: their payload waits
//! here, so that the door's thread never does.

use bytes::Bytes;
use std::sync::Arc;
use zest_data::Budget;
use zest_data::budget::Charge;

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

    /// Copies a payload; `None` when there is no room.
    #[must_use]
    pub fn take(&self, data: &[u8]) -> Option<Arc<Waiting>> {
        let room = self.budget.try_take(data.len() as u64)?;
        Some(Arc::new(Waiting { data: Bytes::copy_from_slice(data), _room: room }))
    }
}
