//! Records in a map: the smallest record store there is. For tests and simulated worlds, and a picture of what
//! an engine owes to `apply`. Keeps nothing beyond its life, counts nothing, waits for nothing.

use crate::apply::{Records, Refused, apply};
use crate::change::ChangeSet;
use crate::engine::{EngineError, Found};
use crate::key::{Key, Scan};
use crate::record::Record;
use std::collections::BTreeMap;
use zest_types::{Ino, Name, SliceId};

/// All records of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordMap(pub BTreeMap<Key, Record>);

impl RecordMap {
    /// Commits a change set: every record it wrote, as it stands now, or nothing at all.
    pub fn commit(&mut self, changes: &ChangeSet) -> Result<Found, Refused> {
        let written = apply(changes, self)?;
        for (key, record) in &written {
            match record {
                Some(record) => self.0.insert(key.clone(), record.clone()),
                None => self.0.remove(key),
            };
        }
        Ok(written.into_iter().collect())
    }
}

impl Records for RecordMap {
    fn get(&self, key: &Key) -> Result<Option<Record>, EngineError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        let Some(first) = first_key(scan) else { return Ok(Vec::new()) };
        let found = self.0.range(first..).skip_while(|(key, _)| !scan.finds(key) && in_front(scan, key));
        Ok(found
            .take_while(|(key, _)| scan.finds(key))
            .take(scan.limit())
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect())
    }
}

/// Only the name a directory scan goes on behind is met without being found.
fn in_front(scan: &Scan, key: &Key) -> bool {
    match (scan, key) {
        (Scan::Dentries { dir, after: Some(after), .. }, Key::Dentry(d, name)) => d == dir && name == after,
        _ => false,
    }
}

/// A key that is not behind anything the scan finds.
fn first_key(scan: &Scan) -> Option<Key> {
    let first_name = || Name::new(&[1]).ok();
    Some(match scan {
        Scan::Dentries { dir, after: Some(after), .. } => Key::Dentry(*dir, after.clone()),
        Scan::Dentries { dir, after: None, .. } => Key::Dentry(*dir, first_name()?),
        Scan::Parents(ino) => Key::Parent { ino: *ino, parent: Ino(0) },
        Scan::Xattrs(ino) => Key::Xattr(*ino, first_name()?),
        Scan::Chunks { ino, from, .. } => Key::Chunk(*ino, *from),
        Scan::Deleted { .. } => Key::Deleted { ino: Ino(0), length: 0 },
        Scan::Sustained { .. } => Key::Sustained { session: 0, ino: Ino(0) },
        Scan::Sessions { .. } => Key::SessionExpiry(0),
        Scan::SliceRefs { .. } => Key::SliceRef { id: SliceId(0), size: 0 },
        Scan::DirQuotas { .. } => Key::DirQuota(Ino(0)),
        Scan::UserQuotas { .. } => Key::UserQuota(0),
        Scan::GroupQuotas { .. } => Key::GroupQuota(0),
        Scan::Delayed { .. } => Key::DelayedSlices { stamp: i64::MIN, id: SliceId(0) },
        Scan::Detached { .. } => Key::Detached(Ino(0)),
        Scan::Flocks { .. } => Key::Flocks(Ino(0)),
        Scan::RangeLocks { .. } => Key::RangeLocks(Ino(0)),
    })
}
