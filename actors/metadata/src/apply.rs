//! How a change set meets the records found: the one place that checks expectations and computes commutative
//! and derived writes, for every engine that can read while it commits.

use crate::change::ChangeSet;
use crate::engine::{EngineError, Found};
use crate::key::{Key, Scan};
use crate::record::Record;
use std::collections::BTreeMap;

/// Reads records while a change set is applied; sees none of its writes.
pub trait Records {
    /// The record under a key.
    fn get(&self, key: &Key) -> Result<Option<Record>, EngineError>;
    /// What a scan finds.
    fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError>;
}

/// Why nothing is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An expectation does not hold; fresh records of everything expected.
    Conflict(Found),
    /// The store failed.
    Engine(EngineError),
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Refused {
        Refused::Engine(error)
    }
}

/// What to store so that the change set is done: the new record under each key, `None` to remove it.
pub fn apply(changes: &ChangeSet, records: &dyn Records) -> Result<BTreeMap<Key, Option<Record>>, Refused> {
    let _ = (changes, records);
    Err(Refused::Engine(EngineError::Failed("not built".into())))
}
