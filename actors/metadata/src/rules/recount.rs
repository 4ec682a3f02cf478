//! Counting the entries of a directory whose statistics nobody has kept. What was counted is expected to stand
//! until the commit: the directory as it was, and the length of every file in it. In a directory with more files
//! than one change set may look at, a file that grows meanwhile is counted as it was.

use super::Decision;
use super::draft::{Draft, nothing};
use crate::apply::shown;
use crate::change::AttrFields;
use crate::key::{Key, Scan};
use crate::op::Outcome;
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use zest_types::{Errno, Ino, Name, limits};

/// Files whose length one change set expects.
const EXPECTED: usize = limits::CHANGE_SET_MAX / 4;

/// Writes the statistics of a directory that has none; a directory that has some keeps them.
pub fn decide(dir: Ino, snapshot: &Snapshot) -> Result<Decision, Stop> {
    let key = Key::DirStat(dir);
    snapshot.need(&[Key::Attr(dir), key.clone()])?;
    let attr = snapshot.attr(dir)?.ok_or(Errno::ENOENT)?;
    if !attr.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    if snapshot.get(&key)?.is_some() {
        return nothing(Outcome::Done);
    }
    let mut draft = Draft::new();
    draft.expect_absent(key.clone());
    draft.expect_attr(dir, attr, AttrFields { nlink: true, times: true, ..AttrFields::default() });
    let mut sums = [0i64; 3];
    let mut after: Option<Name> = None;
    let mut expected = 0;
    for round in 0.. {
        if round * limits::READDIR_BATCH >= limits::RECOUNT_ENTRIES {
            return Err(Errno::EOVERFLOW.into());
        }
        let scan = Scan::Dentries { dir, after: after.clone(), limit: limits::READDIR_BATCH };
        let found = snapshot.scan(&scan)?;
        let nodes: Vec<Ino> = found.iter().filter_map(|(_, record)| node(record)).collect();
        let keys: Vec<Key> = nodes.iter().map(|ino| Key::Attr(*ino)).collect();
        snapshot.need(&keys)?;
        for ino in nodes {
            let Some(child) = snapshot.attr(ino)? else {
                sums[1] += 4096;
                sums[2] += 1;
                continue;
            };
            let (length, space) = shown(child).ok_or(Errno::EIO)?;
            for (sum, amount) in sums.iter_mut().zip([length, space, 1]) {
                *sum = sum.checked_add(amount).ok_or(Errno::EIO)?;
            }
            if child.is_file() && expected < EXPECTED {
                expected += 1;
                draft.expect_attr(ino, child, AttrFields { length: true, ..AttrFields::default() });
            }
        }
        match found.last() {
            Some((Key::Dentry(_, name), _)) if found.len() >= limits::READDIR_BATCH => {
                after = Some(name.clone());
            }
            _ => break,
        }
    }
    let [length, space, inodes] = sums;
    draft.put(key, Record::DirStat { length, space, inodes });
    draft.done(Outcome::Done)
}

fn node(record: &Record) -> Option<Ino> {
    match record {
        Record::Dentry { ino, .. } => Some(*ino),
        _ => None,
    }
}
