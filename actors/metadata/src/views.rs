//! What this mount may believe without asking: attributes, directory entries and chunk lists, each with a lease.
//! Shared by all threads of a door; a hit costs one short read lock. Promises that a record read before a
//! change of ours was committed never replaces what the change left; knows no engine and no rule.

use crate::engine::Found;
use crate::key::Key;
use crate::record::Record;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zest_types::{Attr, FileType, Ino, Name, SliceRecord, limits};

const SHARDS: usize = 64;

/// A chunk list as it is shared: readers may tell by the pointer whether it is still the same.
pub type ChunkList = Arc<[SliceRecord]>;

/// What stands behind a name; `None` means that there is no such entry.
pub type DentryView = Option<(FileType, Ino)>;

#[derive(Clone, PartialEq, Eq, Hash)]
enum ViewKey {
    Attr(Ino),
    Dentry(Ino, Name),
    Chunk(Ino, u32),
}

#[derive(Clone)]
enum View {
    Attr(Attr),
    Dentry(DentryView),
    Chunk(ChunkList),
    /// A node that does not exist.
    NoAttr,
}

struct Leased {
    until: Duration,
    view: View,
}

#[derive(Default)]
struct Shard {
    views: RwLock<HashMap<ViewKey, Leased>>,
    /// Counts what our own changes did to this shard.
    changes: AtomicU64,
}

/// Proof of when a read began; see [`Views::learn`].
pub struct ReadMark(Vec<u64>);

/// Keys of a commit under way; see [`Views::begin_commit`].
pub struct CommitMark(Vec<ViewKey>);

/// The views of a mount.
pub struct Views {
    shards: Vec<Shard>,
    /// Commits under way for a key, and whether two ever overlapped: their order is unknown then.
    in_flight: Mutex<BTreeMap<u64, (u32, bool)>>,
    /// How long a record is believed.
    lease: Duration,
}

impl Views {
    /// Views that are believed for `lease` after they were learned.
    #[must_use]
    pub fn new(lease: Duration) -> Views {
        Views { shards: (0..SHARDS).map(|_| Shard::default()).collect(), in_flight: Mutex::default(), lease }
    }

    /// Attributes of a node.
    #[must_use]
    pub fn attr(&self, ino: Ino, mono: Duration) -> Option<Attr> {
        match self.get(&ViewKey::Attr(ino), mono)? {
            View::Attr(attr) => Some(attr),
            _ => None,
        }
    }

    /// What stands behind a name, if that is known.
    #[must_use]
    pub fn dentry(&self, dir: Ino, name: &Name, mono: Duration) -> Option<DentryView> {
        match self.get(&ViewKey::Dentry(dir, name.clone()), mono)? {
            View::Dentry(dentry) => Some(dentry),
            _ => None,
        }
    }

    /// The list of a chunk; empty where the chunk is a hole.
    #[must_use]
    pub fn chunk(&self, ino: Ino, index: u32, mono: Duration) -> Option<ChunkList> {
        match self.get(&ViewKey::Chunk(ino, index), mono)? {
            View::Chunk(list) => Some(list),
            _ => None,
        }
    }

    /// The record under a key as a rule may see it; the outer `None` means that no view knows.
    #[must_use]
    pub fn record(&self, key: &Key, mono: Duration) -> Option<Option<Record>> {
        Some(match self.get(&view_key(key)?, mono)? {
            View::Attr(attr) => Some(Record::Attr(attr)),
            View::Dentry(dentry) => dentry.map(|(kind, ino)| Record::Dentry { kind, ino }),
            View::Chunk(list) if list.is_empty() => None,
            View::Chunk(list) => Some(Record::Slices(list.to_vec())),
            View::NoAttr => None,
        })
    }

    /// To be taken before records are read that shall be learned.
    #[must_use]
    pub fn begin_read(&self) -> ReadMark {
        ReadMark(self.shards.iter().map(|s| s.changes.load(Ordering::Acquire)).collect())
    }

    /// Takes records that were read after `mark`, unless a change of ours came between.
    pub fn learn(&self, found: &[(Key, Option<Record>)], mark: &ReadMark, mono: Duration) {
        for (key, record) in found {
            let Some((view_key, view)) = to_view(key, record.as_ref()) else { continue };
            let index = shard_of(&view_key);
            let shard = &self.shards[index];
            let mut views = shard.views.write();
            if mark.0.get(index) == Some(&shard.changes.load(Ordering::Acquire)) {
                insert(&mut views, view_key, Leased { until: self.until(mono), view });
            }
        }
    }

    /// To be called before a change set that writes these keys is sent to the engine.
    #[must_use]
    pub fn begin_commit<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> CommitMark {
        let keys: Vec<ViewKey> = keys.filter_map(view_key).collect();
        let mut in_flight = self.in_flight.lock();
        for key in &keys {
            let (count, overlapped) = in_flight.entry(hash_of(key)).or_insert((0, false));
            *overlapped |= *count > 0;
            *count += 1;
        }
        CommitMark(keys)
    }

    /// Takes what a commit wrote. Where commits of a key overlapped, nobody knows which came last: the view goes.
    /// `applied` is `None` when the outcome is an error or unknown: all its keys are forgotten.
    pub fn end_commit(&self, mark: CommitMark, applied: Option<&Found>, mono: Duration) {
        let mut doubtful = Vec::new();
        {
            let mut in_flight = self.in_flight.lock();
            for key in mark.0 {
                let hash = hash_of(&key);
                let Some((count, overlapped)) = in_flight.get_mut(&hash) else { continue };
                *count -= 1;
                let overlapped = *overlapped;
                if *count == 0 {
                    in_flight.remove(&hash);
                }
                if overlapped || applied.is_none() {
                    doubtful.push(key);
                }
            }
        }
        for (key, record) in applied.into_iter().flatten() {
            let Some((view_key, view)) = to_view(key, record.as_ref()) else { continue };
            if !doubtful.contains(&view_key) {
                self.change(view_key, |views, key| {
                    insert(views, key, Leased { until: self.until(mono), view });
                });
            }
        }
        doubtful.iter().for_each(|key| self.forget(key));
    }

    /// Entries in all shards.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.views.read().len()).sum()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, key: &ViewKey, mono: Duration) -> Option<View> {
        let views = self.shards[shard_of(key)].views.read();
        views.get(key).filter(|leased| leased.until >= mono).map(|leased| leased.view.clone())
    }

    fn forget(&self, key: &ViewKey) {
        self.change(key.clone(), |views, key| {
            views.remove(&key);
        });
    }

    fn change(&self, key: ViewKey, with: impl FnOnce(&mut HashMap<ViewKey, Leased>, ViewKey)) {
        let shard = &self.shards[shard_of(&key)];
        let mut views = shard.views.write();
        shard.changes.fetch_add(1, Ordering::AcqRel);
        with(&mut views, key);
    }

    fn until(&self, mono: Duration) -> Duration {
        mono.saturating_add(self.lease)
    }
}

fn insert(views: &mut HashMap<ViewKey, Leased>, key: ViewKey, leased: Leased) {
    if views.len() >= limits::VIEWS_MAX / SHARDS {
        let mut keep = false;
        views.retain(|_, _| {
            keep = !keep;
            keep
        });
    }
    views.insert(key, leased);
}

fn view_key(key: &Key) -> Option<ViewKey> {
    Some(match key {
        Key::Attr(ino) => ViewKey::Attr(*ino),
        Key::Dentry(dir, name) => ViewKey::Dentry(*dir, name.clone()),
        Key::Chunk(ino, index) => ViewKey::Chunk(*ino, *index),
        _ => return None,
    })
}

/// The view a record becomes.
fn to_view(key: &Key, record: Option<&Record>) -> Option<(ViewKey, View)> {
    let view = match (key, record) {
        (Key::Attr(_), Some(Record::Attr(attr))) => View::Attr(attr.clone()),
        (Key::Attr(_), None) => View::NoAttr,
        (Key::Dentry(..), Some(Record::Dentry { kind, ino })) => View::Dentry(Some((*kind, *ino))),
        (Key::Dentry(..), None) => View::Dentry(None),
        (Key::Chunk(..), Some(Record::Slices(list))) => View::Chunk(list.as_slice().into()),
        (Key::Chunk(..), None) => View::Chunk(Arc::new([])),
        _ => return None,
    };
    Some((view_key(key)?, view))
}

fn hash_of(key: &ViewKey) -> u64 {
    // A fixed hasher: the same key has the same place in every run.
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn shard_of(key: &ViewKey) -> usize {
    let number = match key {
        ViewKey::Attr(ino) | ViewKey::Chunk(ino, _) | ViewKey::Dentry(ino, _) => ino.0,
    };
    // Records of one inode share a shard; consecutive inodes do not.
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % SHARDS
}
