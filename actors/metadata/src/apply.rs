//! How a change set meets the records found: the one place that checks expectations and computes commutative
//! and derived writes, for every engine that can read while it commits. Pure: equal change sets on equal records
//! give equal results. Source of the derived amounts: volume format, usage accounting.

use crate::change::{AttrDelta, AttrFields, ChangeSet, Expect, Write};
use crate::engine::{EngineError, Found};
use crate::key::{Counter, Key, Scan};
use crate::record::Record;
use std::collections::BTreeMap;
use zest_types::attr::align4k;
use zest_types::{Attr, FileType, Ino, SliceRecord, Time};

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
    check(&changes.expect, records)?;
    let mut work = Work { records, written: BTreeMap::new() };
    for write in &changes.write {
        work.write(write)?;
    }
    Ok(work.written)
}

/// An attribute record after a change, or `None` where a number would leave its range.
#[must_use]
pub fn changed(attr: &Attr, delta: &AttrDelta) -> Option<Attr> {
    let mut new = attr.clone();
    new.mode = delta.mode.unwrap_or(new.mode);
    new.uid = delta.uid.unwrap_or(new.uid);
    new.gid = delta.gid.unwrap_or(new.gid);
    new.flags = delta.flags.unwrap_or(new.flags);
    new.parent = delta.parent.unwrap_or(new.parent);
    new.access_acl = delta.access_acl.unwrap_or(new.access_acl);
    new.default_acl = delta.default_acl.unwrap_or(new.default_acl);
    new.length = delta.length.unwrap_or(new.length).max(delta.grow_length.unwrap_or(0));
    new.atime = delta.atime.unwrap_or(new.atime);
    new.mtime = delta.mtime.unwrap_or(new.mtime);
    new.mtime = delta.touch_mtime.map_or(new.mtime, |t| moved(new.kind, new.mtime, t));
    new.ctime = delta.ctime.unwrap_or(new.ctime);
    new.ctime = delta.touch_ctime.map_or(new.ctime, |t| new.ctime.max(t));
    new.nlink = new.nlink.checked_add_signed(delta.nlink)?;
    Some(new)
}

/// An mtime that moves forward to this time. That of a file becomes another one in any case, unless it is this already:
/// by it others notice that the content is another, also where their clocks are ahead of whoever changed it.
fn moved(kind: FileType, old: Time, to: Time) -> Time {
    if to < old && kind == FileType::File { old.next() } else { old.max(to) }
}

/// Whether a node found is, in these fields, what a decision saw.
#[must_use]
pub fn agrees(found: &Attr, seen: &Attr, fields: AttrFields) -> bool {
    let access = |a: &Attr| (a.mode, a.uid, a.gid, a.flags, a.access_acl, a.default_acl);
    found.kind == seen.kind
        && (!fields.access || access(found) == access(seen))
        && (!fields.nlink || found.nlink == seen.nlink)
        && (!fields.length || found.length == seen.length)
        && (!fields.parent || found.parent == seen.parent)
        && (!fields.times || (found.atime, found.mtime, found.ctime) == (seen.atime, seen.mtime, seen.ctime))
}

/// Refuses with fresh records of everything expected when one expectation does not hold.
fn check(expect: &[Expect], records: &dyn Records) -> Result<(), Refused> {
    let mut fresh: BTreeMap<Key, Option<Record>> = BTreeMap::new();
    let mut hold = true;
    for expectation in expect {
        let key = match expectation {
            Expect::Absent(key) | Expect::Same(key, _) => key.clone(),
            Expect::Attr { ino, .. } | Expect::Empty(ino) => Key::Attr(*ino),
        };
        if !fresh.contains_key(&key) {
            let found = records.get(&key)?;
            fresh.insert(key.clone(), found);
        }
        let found = fresh.get(&key).and_then(Option::as_ref);
        hold &= match expectation {
            Expect::Absent(_) => found.is_none(),
            Expect::Same(_, record) => found == Some(record),
            Expect::Attr { seen, fields, .. } => match found {
                None => false,
                Some(Record::Attr(attr)) => agrees(attr, seen, *fields),
                Some(_) => return Err(damaged(&key, "not an attribute record").into()),
            },
            Expect::Empty(dir) => {
                records.scan(&Scan::Dentries { dir: *dir, after: None, limit: 1 })?.is_empty()
            }
        };
    }
    if hold { Ok(()) } else { Err(Refused::Conflict(fresh.into_iter().collect())) }
}

fn damaged(key: &Key, why: &str) -> EngineError {
    EngineError::Damaged { key: format!("{key:?}"), why: why.into() }
}

/// The change set so far: what was found, covered by what is written.
struct Work<'a> {
    records: &'a dyn Records,
    written: BTreeMap<Key, Option<Record>>,
}

impl Work<'_> {
    fn get(&self, key: &Key) -> Result<Option<Record>, EngineError> {
        match self.written.get(key) {
            Some(record) => Ok(record.clone()),
            None => self.records.get(key),
        }
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        let mut found: BTreeMap<Key, Record> = self.records.scan(scan)?.into_iter().collect();
        for (key, record) in self.written.iter().filter(|(key, _)| scan.finds(key)) {
            match record {
                Some(record) => found.insert(key.clone(), record.clone()),
                None => found.remove(key),
            };
        }
        Ok(found.into_iter().take(scan.limit()).collect())
    }

    fn put(&mut self, key: Key, record: Record) {
        self.written.insert(key, Some(record));
    }

    fn write(&mut self, write: &Write) -> Result<(), EngineError> {
        match write {
            Write::Put(key, record) => self.put(key.clone(), record.clone()),
            Write::Delete(key) => {
                self.written.insert(key.clone(), None);
            }
            Write::Attr(ino, delta) => {
                self.change(*ino, delta)?;
            }
            Write::Resize { ino, delta, quotas } => {
                let space = self.change(*ino, delta)?;
                for quota in quotas.iter().filter(|_| space != 0) {
                    self.charge(quota, space, 0)?;
                }
            }
            Write::Charge { quota, ino, sign } => {
                let (_, space) = shown(&self.attr(*ino)?).ok_or_else(|| too_long(*ino))?;
                self.charge(quota, i64::from(*sign) * space, i64::from(*sign))?;
            }
            Write::AddQuota { quota, space, inodes } => self.charge(quota, *space, *inodes)?,
            Write::Append(ino, index, added) => self.append(Key::Chunk(*ino, *index), added, true)?,
            Write::AppendIfPresent(ino, index, added) => {
                self.append(Key::Chunk(*ino, *index), added, false)?;
            }
            Write::Add(key, n) => self.add(key.clone(), *n)?,
            Write::DeleteAll(scan) => {
                for (key, _) in self.scan(scan)? {
                    self.written.insert(key, None);
                }
            }
            Write::Account { dir, ino, sign } => {
                let attr = self.attr(*ino)?;
                let (length, space) = shown(&attr).ok_or_else(|| too_long(*ino))?;
                let sign = i64::from(*sign);
                self.account(*dir, [sign * length, sign * space, sign])?;
            }
            Write::Usage { ino, sign } => {
                let attr = self.attr(*ino)?;
                let (_, space) = shown(&attr).ok_or_else(|| too_long(*ino))?;
                self.add(Key::Counter(Counter::UsedSpace), i64::from(*sign) * space)?;
                self.add(Key::Counter(Counter::TotalInodes), i64::from(*sign))?;
            }
        }
        Ok(())
    }

    fn attr(&self, ino: Ino) -> Result<Attr, EngineError> {
        let key = Key::Attr(ino);
        match self.get(&key)? {
            Some(Record::Attr(attr)) => Ok(attr),
            Some(_) => Err(damaged(&key, "not an attribute record")),
            None => Err(damaged(&key, "the node to change is missing")),
        }
    }

    /// Changes a node, and what follows from a new length; tells by how much its space grew.
    fn change(&mut self, ino: Ino, delta: &AttrDelta) -> Result<i64, EngineError> {
        let key = Key::Attr(ino);
        let old = self.attr(ino)?;
        let new = changed(&old, delta).ok_or_else(|| damaged(&key, "the link count leaves its range"))?;
        let mut growth = 0;
        if new.is_file() && new.length != old.length {
            let (old_length, old_space) = shown(&old).ok_or_else(|| too_long(ino))?;
            let (length, space) = shown(&new).ok_or_else(|| too_long(ino))?;
            growth = space - old_space;
            self.add(Key::Counter(Counter::UsedSpace), growth)?;
            // A node without a name is in no directory's statistics.
            let holders = if old.nlink == 0 { Vec::new() } else { self.holders(ino, &old)? };
            for (dir, count) in holders {
                let times = |n: i64| n.checked_mul(count).ok_or_else(|| too_long(ino));
                self.account(dir, [times(length - old_length)?, times(growth)?, 0])?;
            }
        }
        self.put(key, Record::Attr(new));
        Ok(growth)
    }

    /// Directories that hold the node, and how often.
    fn holders(&self, ino: Ino, attr: &Attr) -> Result<Vec<(Ino, i64)>, EngineError> {
        if attr.parent != Ino(0) {
            return Ok(vec![(attr.parent, 1)]);
        }
        let mut holders = Vec::new();
        for (key, record) in self.scan(&Scan::Parents(ino))? {
            match (&key, record) {
                (Key::Parent { parent, .. }, Record::Count(n)) if n > 0 => holders.push((*parent, n)),
                (Key::Parent { .. }, Record::Count(_)) => {}
                _ => return Err(damaged(&key, "not a parent count")),
            }
        }
        Ok(holders)
    }

    fn append(&mut self, key: Key, added: &[SliceRecord], create: bool) -> Result<(), EngineError> {
        let mut list = match self.get(&key)? {
            Some(Record::Slices(list)) => list,
            Some(_) => return Err(damaged(&key, "not a list of slices")),
            None if create => Vec::new(),
            None => return Ok(()),
        };
        if let [only] = added
            && !only.id.is_zeros()
            && list.contains(only)
        {
            return Ok(());
        }
        list.extend_from_slice(added);
        self.put(key, Record::Slices(list));
        Ok(())
    }

    fn add(&mut self, key: Key, n: i64) -> Result<(), EngineError> {
        if n == 0 {
            return Ok(());
        }
        let old = match self.get(&key)? {
            None => 0,
            Some(Record::Count(old)) => old,
            Some(_) => return Err(damaged(&key, "not a number")),
        };
        let new = old.checked_add(n).ok_or_else(|| damaged(&key, "the number leaves its range"))?;
        self.put(key, Record::Count(new));
        Ok(())
    }

    /// Adds to the usage of a quota. A directory without a quota keeps none; users and groups are counted from
    /// the first node they have, with or without a limit.
    fn charge(&mut self, key: &Key, space: i64, inodes: i64) -> Result<(), EngineError> {
        let (max_space, max_inodes, old_space, old_inodes) = match (self.get(key)?, key) {
            (Some(Record::Quota { max_space, max_inodes, used_space, used_inodes }), _) => {
                (max_space, max_inodes, used_space, used_inodes)
            }
            (None, Key::DirQuota(_)) => return Ok(()),
            (None, Key::UserQuota(_) | Key::GroupQuota(_)) => (-1, -1, 0, 0),
            _ => return Err(damaged(key, "not a quota")),
        };
        let sum =
            |a: i64, b: i64| a.checked_add(b).ok_or_else(|| damaged(key, "the number leaves its range"));
        let (used_space, used_inodes) = (sum(old_space, space)?, sum(old_inodes, inodes)?);
        self.put(key.clone(), Record::Quota { max_space, max_inodes, used_space, used_inodes });
        Ok(())
    }

    /// Adds to the statistics of a directory: bytes, space, entries. Absent ones are not known and stay absent.
    fn account(&mut self, dir: Ino, amounts: [i64; 3]) -> Result<(), EngineError> {
        let key = Key::DirStat(dir);
        let old = match self.get(&key)? {
            None => return Ok(()),
            Some(Record::DirStat { length, space, inodes }) => [length, space, inodes],
            Some(_) => return Err(damaged(&key, "not directory statistics")),
        };
        let sum = |i: usize| -> Result<i64, EngineError> {
            let (a, b) = (old.get(i).copied().unwrap_or(0), amounts.get(i).copied().unwrap_or(0));
            a.checked_add(b).ok_or_else(|| damaged(&key, "the number leaves its range"))
        };
        let record = Record::DirStat { length: sum(0)?, space: sum(1)?, inodes: sum(2)? };
        self.put(key, record);
        Ok(())
    }
}

fn too_long(ino: Ino) -> EngineError {
    damaged(&Key::Attr(ino), "the length is beyond what a file can have")
}

/// Bytes and space of a node in the statistics of its directory; `None` for an impossible length. Only files
/// have bytes there, everything else costs one unit of space.
#[must_use]
pub fn shown(attr: &Attr) -> Option<(i64, i64)> {
    if !attr.is_file() {
        return Some((0, 4096));
    }
    // Bounded well below i64's range, so that sums and differences of two lengths can't overflow.
    let in_range = |n: u64| i64::try_from(n).ok().filter(|n| *n <= i64::MAX / 4);
    Some((in_range(attr.length)?, in_range(align4k(attr.length))?))
}

impl Scan {
    /// Whether a record under this key is among what the scan finds, limits aside.
    #[must_use]
    pub fn finds(&self, key: &Key) -> bool {
        match (self, key) {
            (Scan::Dentries { dir, after, .. }, Key::Dentry(d, name)) => {
                d == dir && after.as_ref().is_none_or(|after| name > after)
            }
            (Scan::Parents(ino), Key::Parent { ino: i, .. }) | (Scan::Xattrs(ino), Key::Xattr(i, _)) => {
                i == ino
            }
            (Scan::Chunks { ino, from, .. }, Key::Chunk(i, index)) => i == ino && index >= from,
            (Scan::Deleted { .. }, Key::Deleted { .. })
            | (Scan::Sustained { .. }, Key::Sustained { .. })
            | (Scan::Sessions { .. }, Key::SessionExpiry(_))
            | (Scan::SliceRefs { .. }, Key::SliceRef { .. })
            | (Scan::DirQuotas { .. }, Key::DirQuota(_))
            | (Scan::UserQuotas { .. }, Key::UserQuota(_))
            | (Scan::GroupQuotas { .. }, Key::GroupQuota(_))
            | (Scan::Delayed { .. }, Key::DelayedSlices { .. })
            | (Scan::Detached { .. }, Key::Detached(_))
            | (Scan::Flocks { .. }, Key::Flocks(_))
            | (Scan::RangeLocks { .. }, Key::RangeLocks(_)) => true,
            _ => false,
        }
    }

    /// How many records the scan finds at most.
    #[must_use]
    pub fn limit(&self) -> usize {
        match self {
            Scan::Parents(_) | Scan::Xattrs(_) | Scan::Flocks { .. } | Scan::RangeLocks { .. } => usize::MAX,
            Scan::Dentries { limit, .. }
            | Scan::Chunks { limit, .. }
            | Scan::Deleted { limit }
            | Scan::Sustained { limit }
            | Scan::Sessions { limit }
            | Scan::SliceRefs { limit }
            | Scan::DirQuotas { limit }
            | Scan::UserQuotas { limit }
            | Scan::GroupQuotas { limit }
            | Scan::Delayed { limit }
            | Scan::Detached { limit } => *limit,
        }
    }
}
