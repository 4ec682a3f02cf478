//! What a rule knows when it decides: records and scan results, or that they are not known yet.

use crate::engine::Found;
use crate::key::{Key, Scan};
use crate::record::Record;
use std::collections::BTreeMap;
use zest_types::{Attr, Errno, FileType, Ino, Name};

/// Something a rule must see before it can decide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Want {
    Key(Key),
    Scan(Scan),
}

/// Why a rule did not decide on a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// These must be seen first; ask again then.
    Need(Vec<Want>),
    /// The answer is this error.
    Fail(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Fail(errno)
    }
}

/// Records and scan results, each seen at some moment. The commit checks whether they still hold.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    records: BTreeMap<Key, Option<Record>>,
    scans: BTreeMap<Scan, Vec<(Key, Record)>>,
}

impl Snapshot {
    /// Takes what was found, in place of what was known.
    pub fn learn(&mut self, found: Found) {
        self.records.extend(found);
    }

    /// Takes what a scan found.
    pub fn learn_scan(&mut self, scan: Scan, found: Vec<(Key, Record)>) {
        self.scans.insert(scan, found);
    }

    /// All keys known here, present or absent.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.records.keys()
    }

    /// All scans known here.
    pub fn scans(&self) -> impl Iterator<Item = &Scan> {
        self.scans.keys()
    }

    /// The record under a key, or the wish to see it.
    pub fn get(&self, key: &Key) -> Result<Option<&Record>, Stop> {
        match self.records.get(key) {
            Some(record) => Ok(record.as_ref()),
            None => Err(Stop::Need(vec![Want::Key(key.clone())])),
        }
    }

    /// What a scan finds, or the wish to see it.
    pub fn scan(&self, scan: &Scan) -> Result<&[(Key, Record)], Stop> {
        match self.scans.get(scan) {
            Some(found) => Ok(found),
            None => Err(Stop::Need(vec![Want::Scan(scan.clone())])),
        }
    }

    /// Fails with everything among `keys` that is not known, so that it is read in one round trip.
    pub fn need(&self, keys: &[Key]) -> Result<(), Stop> {
        let missing: Vec<Want> =
            keys.iter().filter(|k| !self.records.contains_key(*k)).map(|k| Want::Key(k.clone())).collect();
        if missing.is_empty() { Ok(()) } else { Err(Stop::Need(missing)) }
    }

    /// The attributes of a node; `EIO` for a record that is no attribute record.
    pub fn attr(&self, ino: Ino) -> Result<Option<&Attr>, Stop> {
        match self.get(&Key::Attr(ino))? {
            None => Ok(None),
            Some(Record::Attr(attr)) => Ok(Some(attr)),
            Some(_) => Err(Errno::EIO.into()),
        }
    }

    /// Kind and node behind a name.
    pub fn dentry(&self, dir: Ino, name: &Name) -> Result<Option<(FileType, Ino)>, Stop> {
        match self.get(&Key::Dentry(dir, name.clone()))? {
            None => Ok(None),
            Some(Record::Dentry { kind, ino }) => Ok(Some((*kind, *ino))),
            Some(_) => Err(Errno::EIO.into()),
        }
    }

    /// A count; 0 where it is absent.
    pub fn count(&self, key: &Key) -> Result<i64, Stop> {
        match self.get(key)? {
            None => Ok(0),
            Some(Record::Count(n)) => Ok(*n),
            Some(_) => Err(Errno::EIO.into()),
        }
    }
}
