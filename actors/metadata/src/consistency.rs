//! What must hold between the records of a volume at rest, counted anew from names and chunk lists: link counts,
//! parents, statistics, usage, references. A judge: it reads records and calls no rule. Source: volume format.

use crate::key::{Counter, Key};
use crate::map::RecordMap;
use crate::record::Record;
use std::collections::{BTreeMap, BTreeSet};
use zest_types::attr::align4k;
use zest_types::{Attr, FileType, Ino, SliceId};

/// Everything that does not hold, one line each; empty for a sound volume.
#[must_use]
pub fn problems(records: &RecordMap) -> Vec<String> {
    let mut count = Recount::default();
    for (key, record) in &records.0 {
        count.take(key, record);
    }
    count.check_entries();
    count.check_nodes();
    count.check_stats();
    count.check_usage();
    count.check_quotas();
    count.check_content();
    count.problems
}

/// Records sorted by what they say, and what was found wrong.
#[derive(Default)]
struct Recount {
    attrs: BTreeMap<Ino, Attr>,
    /// Names of a node: how many in which directory.
    names: BTreeMap<Ino, BTreeMap<Ino, i64>>,
    /// Nodes in a directory, one for each name.
    children: BTreeMap<Ino, Vec<(FileType, Ino)>>,
    parents: BTreeMap<Ino, BTreeMap<Ino, i64>>,
    stats: BTreeMap<Ino, [i64; 3]>,
    counters: BTreeMap<Counter, i64>,
    dir_quotas: BTreeMap<Ino, [i64; 2]>,
    owner_quotas: BTreeMap<Key, [i64; 2]>,
    sustained: BTreeSet<Ino>,
    deleted: BTreeSet<Ino>,
    /// Copies in the making, which have no name yet.
    detached: BTreeSet<Ino>,
    symlinks: BTreeMap<Ino, u64>,
    xattrs: BTreeSet<Ino>,
    chunks: BTreeSet<Ino>,
    /// How often a slice is shown by a chunk list.
    shown: BTreeMap<(SliceId, u32), i64>,
    references: BTreeMap<(SliceId, u32), i64>,
    problems: Vec<String>,
}

impl Recount {
    fn wrong(&mut self, what: String) {
        self.problems.push(what);
    }

    fn take(&mut self, key: &Key, record: &Record) {
        match (key, record) {
            (Key::Attr(ino), Record::Attr(attr)) => {
                self.attrs.insert(*ino, attr.clone());
            }
            (Key::Dentry(dir, _), Record::Dentry { kind, ino }) => {
                *self.names.entry(*ino).or_default().entry(*dir).or_default() += 1;
                self.children.entry(*dir).or_default().push((*kind, *ino));
            }
            (Key::Parent { ino, parent }, Record::Count(n)) => {
                if *n > 0 {
                    self.parents.entry(*ino).or_default().insert(*parent, *n);
                }
            }
            (Key::DirStat(dir), Record::DirStat { length, space, inodes }) => {
                self.stats.insert(*dir, [*length, *space, *inodes]);
            }
            (Key::Counter(counter), Record::Count(n)) => {
                self.counters.insert(*counter, *n);
            }
            (Key::Chunk(ino, _), Record::Slices(list)) => {
                self.chunks.insert(*ino);
                if list.iter().any(|record| !record.is_sound()) {
                    self.wrong(format!("{key:?} has a record that leaves its slice or chunk"));
                }
                for record in list.iter().filter(|record| !record.id.is_zeros()) {
                    *self.shown.entry((record.id, record.size)).or_default() += 1;
                }
            }
            (Key::SliceRef { id, size }, Record::Count(n)) => {
                self.references.insert((*id, *size), *n);
            }
            (Key::Symlink(ino), Record::Bytes(target)) => {
                self.symlinks.insert(*ino, target.len() as u64);
            }
            (Key::Xattr(ino, _), Record::Bytes(_)) => {
                self.xattrs.insert(*ino);
            }
            (Key::Sustained { ino, .. }, Record::Mark) => {
                self.sustained.insert(*ino);
            }
            (Key::Deleted { ino, .. }, Record::Stamp(_)) => {
                self.deleted.insert(*ino);
            }
            (Key::Counter(_), Record::Stamp(_))
            | (Key::Setting | Key::SessionInfo(_) | Key::AclRule(_), Record::Bytes(_))
            | (Key::SessionExpiry(_), Record::Stamp(_))
            | (Key::Flocks(_), Record::Flocks(_))
            | (Key::RangeLocks(_), Record::RangeLocks(_)) => {}
            (Key::Detached(ino), Record::Stamp(_)) => {
                self.detached.insert(*ino);
            }
            // What compaction replaced keeps its references until it was kept long enough.
            (Key::DelayedSlices { .. }, Record::SliceList(list)) => {
                for slice in list {
                    *self.shown.entry(*slice).or_default() += 1;
                }
            }
            (Key::DirQuota(dir), Record::Quota { used_space, used_inodes, .. }) => {
                self.dir_quotas.insert(*dir, [*used_space, *used_inodes]);
            }
            (Key::UserQuota(_) | Key::GroupQuota(_), Record::Quota { used_space, used_inodes, .. }) => {
                self.owner_quotas.insert(key.clone(), [*used_space, *used_inodes]);
            }
            _ => self.wrong(format!("{key:?} holds what does not belong there: {record:?}")),
        }
    }

    /// Every entry lies in a directory and leads to a node of its kind.
    fn check_entries(&mut self) {
        let mut wrong = Vec::new();
        for (dir, children) in &self.children {
            if !self.attrs.get(dir).is_some_and(Attr::is_dir) {
                wrong.push(format!("entries in {dir}, which is no directory"));
            }
            for (kind, ino) in children {
                if self.attrs.get(ino).map(|attr| attr.kind) != Some(*kind) {
                    wrong.push(format!("an entry in {dir} leads to {ino}, which is no {kind:?}"));
                }
            }
        }
        self.problems.append(&mut wrong);
    }

    fn check_nodes(&mut self) {
        let mut wrong = Vec::new();
        for (ino, attr) in &self.attrs {
            let none = BTreeMap::new();
            let names = self.names.get(ino).unwrap_or(&none);
            if attr.is_dir() {
                self.check_directory(*ino, attr, names, &mut wrong);
                continue;
            }
            let count: i64 = names.values().sum();
            if i64::from(attr.nlink) != count && !self.detached.contains(ino) {
                wrong.push(format!("{ino} has {count} names and link count {}", attr.nlink));
            }
            if self.detached.contains(ino) {
                continue;
            }
            if attr.nlink == 0 {
                if !self.sustained.contains(ino) {
                    wrong.push(format!("{ino} has no name and nobody who has it open"));
                }
            } else if attr.parent == Ino(0) {
                if self.parents.get(ino).unwrap_or(&none) != names {
                    wrong.push(format!("{ino} has names in {names:?}, but its parent counts differ"));
                }
            } else if names.keys().ne([&attr.parent]) {
                wrong.push(format!("{ino} says it is in {}, but is in {names:?}", attr.parent));
            }
            if (attr.kind == FileType::Symlink) != self.symlinks.contains_key(ino)
                || self.symlinks.get(ino).is_some_and(|length| *length != attr.length)
            {
                wrong.push(format!("{ino} and its symlink target do not fit"));
            }
        }
        let lost = |what: &str, inos: Vec<&Ino>| {
            inos.iter().map(|ino| format!("{what} of no node {ino}")).collect::<Vec<_>>()
        };
        let missing = |ino: &&Ino| !self.attrs.contains_key(*ino);
        wrong.extend(lost("symlink target", self.symlinks.keys().filter(missing).collect()));
        wrong.extend(lost("extended attribute", self.xattrs.iter().filter(missing).collect()));
        wrong.extend(lost("parent count", self.parents.keys().filter(missing).collect()));
        wrong.extend(lost("sustained mark", self.sustained.iter().filter(missing).collect()));
        for ino in self.deleted.iter().filter(|ino| self.attrs.contains_key(*ino)) {
            wrong.push(format!("{ino} waits for removal and is a node still"));
        }
        self.problems.append(&mut wrong);
    }

    fn check_directory(&self, ino: Ino, attr: &Attr, names: &BTreeMap<Ino, i64>, wrong: &mut Vec<String>) {
        let top = ino == Ino::ROOT || ino == Ino::TRASH;
        let top = top || (self.detached.contains(&ino) && names.is_empty());
        if !top && (names.len() != 1 || names.get(&attr.parent) != Some(&1)) {
            wrong.push(format!("directory {ino} says it is in {}, but is in {names:?}", attr.parent));
        }
        let is_dir = |child: &&(FileType, Ino)| child.0 == FileType::Directory;
        let below = self.children.get(&ino).map_or(0, |children| children.iter().filter(is_dir).count());
        // Directories in the trash are not counted.
        let expected = if ino.is_trash() { 2 } else { 2 + below };
        if attr.nlink as usize != expected {
            wrong.push(format!("directory {ino} has link count {}, not {expected}", attr.nlink));
        }
        let (mut at, mut steps) = (ino, 0);
        while at != Ino::ROOT && at != Ino::TRASH && !self.detached.contains(&at) {
            steps += 1;
            match self.attrs.get(&at) {
                Some(attr) if steps <= self.attrs.len() => at = attr.parent,
                _ => return wrong.push(format!("directory {ino} can't be reached from the root")),
            }
        }
    }

    fn check_stats(&mut self) {
        let mut wrong = Vec::new();
        for (dir, stat) in &self.stats {
            if !self.attrs.contains_key(dir) {
                wrong.push(format!("statistics {stat:?} of {dir}, which is gone"));
            }
        }
        for (dir, _) in self.attrs.iter().filter(|(_, attr)| attr.is_dir()) {
            let mut sum = [0i64; 3];
            for (_, child) in self.children.get(dir).map_or(&[][..], Vec::as_slice) {
                let length = self.attrs.get(child).filter(|a| a.is_file()).map_or(0, |a| a.length);
                let amounts = [signed(length), signed(align4k(length)), 1];
                sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
            }
            // Absent statistics were never counted; they are no zeros.
            let Some(stat) = self.stats.get(dir) else { continue };
            if *stat != sum {
                wrong.push(format!("directory {dir} has statistics {stat:?}, not {sum:?}"));
            }
        }
        self.problems.append(&mut wrong);
    }

    fn check_usage(&mut self) {
        let counted = || self.attrs.iter().filter(|(ino, _)| **ino != Ino::ROOT && **ino != Ino::TRASH);
        let space: i64 = counted().map(|(_, attr)| cost(attr)).sum();
        let inodes = counted().count() as i64;
        for (counter, expected) in [(Counter::UsedSpace, space), (Counter::TotalInodes, inodes)] {
            let found = self.counters.get(&counter).copied().unwrap_or(0);
            if found != expected {
                self.wrong(format!("{counter:?} is {found}, not {expected}"));
            }
        }
    }

    /// A directory's quota counts what is below it, each name once; where users and groups are counted, each counts
    /// what it owns.
    fn check_quotas(&mut self) {
        let mut wrong = Vec::new();
        for (dir, used) in &self.dir_quotas {
            let (mut sum, mut below) = ([0i64; 2], vec![*dir]);
            while let Some(dir) = below.pop() {
                for (kind, ino) in self.children.get(&dir).into_iter().flatten() {
                    sum = [sum[0] + self.attrs.get(ino).map_or(4096, cost), sum[1] + 1];
                    below.extend((*kind == FileType::Directory && sum[1] < 1 << 20).then_some(*ino));
                }
            }
            if sum != *used {
                wrong.push(format!("the quota of {dir} says {used:?}, not {sum:?}"));
            }
        }
        let mut owned: BTreeMap<Key, [i64; 2]> = BTreeMap::new();
        for (_, attr) in self.attrs.iter().filter(|(ino, _)| **ino != Ino::ROOT && !ino.is_trash()) {
            for key in [Key::UserQuota(attr.uid), Key::GroupQuota(attr.gid)] {
                let sum = owned.entry(key).or_default();
                *sum = [sum[0] + cost(attr), sum[1] + 1];
            }
        }
        let keys: BTreeSet<&Key> = owned.keys().chain(self.owner_quotas.keys()).collect();
        for key in keys.into_iter().filter(|_| !self.owner_quotas.is_empty()) {
            let of = |all: &BTreeMap<Key, [i64; 2]>| all.get(key).copied().unwrap_or_default();
            let (used, sum) = (of(&self.owner_quotas), of(&owned));
            if used != sum {
                wrong.push(format!("{key:?} says {used:?}, not {sum:?}"));
            }
        }
        self.problems.append(&mut wrong);
    }

    /// Chunk lists belong to files or to what is left of them, and slices know how often they are shown.
    fn check_content(&mut self) {
        let mut wrong = Vec::new();
        for ino in &self.chunks {
            let file = self.attrs.get(ino).is_some_and(Attr::is_file);
            if !file && (self.attrs.contains_key(ino) || !self.deleted.contains(ino)) {
                wrong.push(format!("chunk list of {ino}, which is no file"));
            }
        }
        for (slice, shown) in &self.shown {
            let references = self.references.get(slice).copied().unwrap_or(0) + 1;
            if references != *shown {
                wrong.push(format!("slice {slice:?} is shown {shown} times and has {references} references"));
            }
        }
        for (slice, n) in &self.references {
            if *n >= 0 && !self.shown.contains_key(slice) {
                wrong.push(format!("slice {slice:?} has {} references and is shown nowhere", n + 1));
            }
        }
        self.problems.append(&mut wrong);
    }
}

/// What a node costs.
fn cost(attr: &Attr) -> i64 {
    if attr.is_file() { signed(align4k(attr.length)) } else { 4096 }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX / 4)
}
