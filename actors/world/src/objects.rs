//! The object store of a volume, as actors see it. Keys are whole, the volume's name included.

use crate::BoxFuture;
use bytes::Bytes;
use std::ops::Range;
use std::time::Duration;
use zest_types::limits::{OBJECT_RETRIES, OBJECT_TIMEOUT_MS};

/// Why an object request failed. Texts name the key.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ObjectError {
    /// There is no such object.
    #[error("object {0} does not exist")]
    NotFound(String),
    /// The store refused for good: credentials, no such bucket, read-only.
    #[error("object {key}: the store refused: {why}")]
    Refused {
        /// The object.
        key: String,
        /// The store's words.
        why: String,
    },
    /// The store has no room left.
    #[error("object {0}: the store is full")]
    Full(String),
    /// It may work later: time-outs, throttling, broken connections, short bodies.
    #[error("object {key}: {why}")]
    Transient {
        /// The object.
        key: String,
        /// What was seen.
        why: String,
    },
}

impl ObjectError {
    /// Whether trying again can help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, ObjectError::Transient { .. })
    }
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Whole key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// When it was written, unix seconds, by the store's clock.
    pub modified: i64,
}

/// How requests to a store are made. The store says so, since whoever stands in front of it may know better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// A try without an answer is given up after this long.
    pub timeout: Duration,
    /// The store itself does that, and knows when the try began; otherwise the caller does.
    pub keeps_time: bool,
    /// How often a request that failed for now is tried again.
    pub retries: u32,
    /// What is late may be asked for a second time.
    pub hedge: bool,
}

impl Default for Manners {
    fn default() -> Manners {
        let timeout = Duration::from_millis(OBJECT_TIMEOUT_MS);
        Manners { timeout, keeps_time: false, retries: OBJECT_RETRIES, hedge: true }
    }
}

/// An object store. One try a call: retries are the caller's decision.
pub trait Objects: Send + Sync {
    /// Stores an object, whole; replaces one of the same key. When this is `Ok` the object survives a crash of
    /// the store; when it is an error the object may or may not be there.
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>>;
    /// Reads an object or a range of it. Fewer bytes than the range asks for are possible where the object is
    /// shorter: the caller checks.
    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>>;
    /// Removes an object; one that does not exist is removed already.
    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>>;
    /// Up to `limit` objects whose key begins with `prefix` and comes behind `after`, in order of their keys.
    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>>;
    /// How callers make their requests.
    fn manners(&self) -> Manners {
        Manners::default()
    }
}
