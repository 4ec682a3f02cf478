//! A record store, as the MetadataActor sees it. An engine stores records and applies change sets with `apply`;
//! it knows no rule.

use crate::change::{ChangeSet, Write};
use crate::key::{Key, Scan};
use crate::record::Record;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_types::{Ino, SliceRecord};

/// Why an engine could not answer. Texts name the store and the remedy.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    /// A stored record can't be what it should be.
    #[error("damaged record {key}: {why}")]
    Damaged {
        /// Which record.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// The store has no room left.
    #[error("the metadata store is full: {0}")]
    Full(String),
    /// Anything else the store says.
    #[error("the metadata store failed: {0}")]
    Failed(String),
}

/// Records as they stand now; `None` means absent.
pub type Found = Vec<(Key, Option<Record>)>;

/// A change set that was committed: every record it wrote, as it stands now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Written records.
    pub records: Found,
    /// Chunk lists that are left out of them, see [`Engine::commit_knowing`].
    pub grown: Vec<Key>,
}

/// Chunk lists the asker has, by their lengths.
pub type Lengths = BTreeMap<Key, usize>;

/// The list behind this key, `list` before, once a change set that does nothing else to it has appended to it.
#[must_use]
pub fn grown(key: &Key, list: &[SliceRecord], changes: &ChangeSet) -> Vec<SliceRecord> {
    let mut list = list.to_vec();
    for write in &changes.write {
        if let Write::Append(ino, index, added) | Write::AppendIfPresent(ino, index, added) = write
            && *key == Key::Chunk(*ino, *index)
        {
            list.extend_from_slice(added);
        }
    }
    list
}

/// Records that name slices, and where the next page begins: the store's own words, `None` behind the last one.
pub type SlicePage = (Vec<(Key, Record)>, Option<Vec<u8>>);

/// Why a change set was not committed, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// Something expected does not hold; nothing was written. Carries fresh records of what was expected.
    Conflict(Found),
    /// Nobody knows whether it was written: look before repeating.
    Unknown(String),
    /// Nothing was written.
    Engine(EngineError),
}

impl From<EngineError> for CommitError {
    fn from(error: EngineError) -> CommitError {
        CommitError::Engine(error)
    }
}

/// What somebody else changed, as a store that pushes tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The attributes of a node.
    Attr(Ino),
    /// Entries of a directory: nobody says which.
    Entries(Ino),
    /// A chunk list.
    Chunk(Ino, u32),
    /// Locks on ranges of a file, or on the whole of it.
    Locks(Ino),
    /// Nobody knows what: the connection was lost, or the store was emptied.
    Anything,
}

/// Hears what others change. Called in the order in which answers and changes arrive; must not wait.
pub trait Listener: Send + Sync {
    /// This is no longer as it was.
    fn changed(&self, what: &Changed);
    /// Until this moment (of the monotonic clock) everything not named by `changed` is as it was.
    fn vouch(&self, until: Duration);
}

/// A time in which a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// How long.
    pub lasted: Duration,
    /// Why, in words, as far as the store tells.
    pub cause: String,
}

/// How a store has been answering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Since when it has been silent, on the world's monotonic clock.
    pub since: Option<Duration>,
    /// Stalls that are over.
    pub count: u64,
    /// How long they lasted together.
    pub total: Duration,
    /// The last of them, the oldest first.
    pub recent: Vec<Stall>,
}

/// A record store.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Records under these keys, in their order, all of one moment.
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError>;
    /// The records a scan finds.
    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError>;
    /// A page of all records that name slices: chunk lists first, whoever's they are, then counters and lists of
    /// slices that compaction replaced. A record that is there from the first page to the last is met at least once, in
    /// no order within its kind. `from` is what the page before gave.
    async fn slices(&self, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
        let _ = from;
        Err(EngineError::Failed("this store can't list what refers to slices".into()))
    }
    /// Commits all of a change set or nothing of it.
    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError>;
    /// As [`Engine::commit`]. A list that was found as long as `known` says, and to which all was appended that the
    /// change set appends to it and nothing else done, need not be read: it may be named in [`Applied::grown`].
    async fn commit_knowing(&self, changes: &ChangeSet, known: &Lengths) -> Result<Applied, CommitError> {
        let _ = known;
        self.commit(changes).await
    }
    /// Everything committed before this call survives a crash once it returns `Ok`.
    async fn sync(&self) -> Result<(), EngineError>;
    /// Whether nobody else can change the volume while this engine has it: leases last for ever then.
    fn exclusive(&self) -> bool;
    /// Tells this listener, from now on, what others change; `false` where the store cannot.
    fn listen(&self, listener: Arc<dyn Listener>) -> bool {
        let _ = listener;
        false
    }
    /// When it did not answer, as far as it looks.
    fn stalls(&self) -> Stalls {
        Stalls::default()
    }
}
