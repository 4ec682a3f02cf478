//! What a new volume consists of, as one change set. Source: volume format, creation rules.

use crate::change::{ChangeSet, Expect, Write};
use crate::key::{Counter, Key};
use crate::record::Record;
use zest_types::volume::Settings;
use zest_types::{Attr, FileType, Ino, Time};

/// The first records of a volume: settings, root, counters, and the trash where it is on. It conflicts where a
/// volume is already.
#[must_use]
pub fn new_volume(settings: &Settings, now: Time) -> ChangeSet {
    let now = Time::new(now.sec, 0);
    let directory = |mode| Record::Attr(Attr::new(FileType::Directory, mode, 0, 0, Ino::ROOT, now));
    let count = |counter, n| Write::Put(Key::Counter(counter), Record::Count(n));
    let mut write = vec![
        Write::Put(Key::Setting, Record::Bytes(settings.to_json())),
        Write::Put(Key::Attr(Ino::ROOT), directory(0o777)),
        count(Counter::NextInode, 2),
        count(Counter::NextSlice, 1),
        count(Counter::NextSession, 0),
        count(Counter::UsedSpace, 0),
        count(Counter::TotalInodes, 0),
        Write::Put(Key::Counter(Counter::NextCleanupSlices), Record::Stamp(0)),
    ];
    if settings.trash_days > 0 {
        write.push(Write::Put(Key::Attr(Ino::TRASH), directory(0o555)));
    }
    ChangeSet { expect: vec![Expect::Absent(Key::Setting)], write }
}

/// New settings in place of old ones; `trash_exists` tells whether the trash has its attributes already.
#[must_use]
pub fn update(old: Vec<u8>, settings: &Settings, trash_exists: bool, now: Time) -> ChangeSet {
    let mut write = vec![Write::Put(Key::Setting, Record::Bytes(settings.to_json()))];
    if settings.trash_days > 0 && !trash_exists {
        let now = Time::new(now.sec, 0);
        let trash = Attr::new(FileType::Directory, 0o555, 0, 0, Ino::ROOT, now);
        write.push(Write::Put(Key::Attr(Ino::TRASH), Record::Attr(trash)));
    }
    ChangeSet { expect: vec![Expect::Same(Key::Setting, Record::Bytes(old))], write }
}
