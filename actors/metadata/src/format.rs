//! What a new volume consists of, as one change set. Source: volume format, creation rules.

use crate::change::{ChangeSet, Expect, Write};
use crate::key::{Counter, Key};
use crate::record::Record;
use zest_types::{Attr, FileType, Ino, Time};

/// The first records of a volume: its settings record, root, and the trash where it is on; `counters`: with the
/// first values of its counters, which some engines count from nothing instead. It conflicts where a volume is
/// already.
#[must_use]
pub fn new_volume(setting: Vec<u8>, trash: bool, counters: bool, now: Time) -> ChangeSet {
    let count = |counter, n| Write::Put(Key::Counter(counter), Record::Count(n));
    let mut write = vec![
        Write::Put(Key::Setting, Record::Bytes(setting)),
        Write::Put(Key::Attr(Ino::ROOT), directory(0o777, now)),
        Write::Put(Key::DirStat(Ino::ROOT), Record::DirStat { length: 0, space: 0, inodes: 0 }),
    ];
    let first = [
        count(Counter::NextInode, 2),
        count(Counter::NextSlice, 1),
        count(Counter::NextSession, 0),
        count(Counter::UsedSpace, 0),
        count(Counter::TotalInodes, 0),
        Write::Put(Key::Counter(Counter::NextCleanupSlices), Record::Stamp(0)),
    ];
    write.extend(first.into_iter().filter(|_| counters));
    if trash {
        write.push(Write::Put(Key::Attr(Ino::TRASH), trash_root(now)));
    }
    ChangeSet { expect: vec![Expect::Absent(Key::Setting), Expect::Absent(Key::Attr(Ino::ROOT))], write }
}

/// The attributes of the trash, for a volume that gets one.
#[must_use]
pub fn trash_root(now: Time) -> Record {
    directory(0o555, now)
}

fn directory(mode: u16, now: Time) -> Record {
    // The format keeps no nanoseconds here.
    Record::Attr(Attr::new(FileType::Directory, mode, 0, 0, Ino::ROOT, Time::new(now.sec, 0)))
}
