//! A decision in the making: expectations and writes, noted one by one, and what a rule wants to see, gathered
//! so that it is read in one round.

use super::Decision;
use crate::change::{AttrDelta, AttrFields, ChangeSet, Expect, Write};
use crate::key::Key;
use crate::op::Outcome;
use crate::record::Record;
use crate::snapshot::{Stop, Want};
use zest_types::{Attr, FileType, Ino, Name, Time};

/// What a decision about a directory's entries looks at.
pub const ACCESS: AttrFields =
    AttrFields { access: true, nlink: false, length: false, parent: false, times: false };
/// What the addition of an entry looks at: a directory in the trash takes none.
pub const ACCESS_AND_PLACE: AttrFields = AttrFields { parent: true, ..ACCESS };
/// Only that the node exists and is what it was.
pub const EXISTS: AttrFields = AttrFields { access: false, ..ACCESS };

/// What a change of content at a time does to the times of a node, its link count aside: they move forward, so
/// that two changes at once leave the later one. An mtime that was set into the future before this change comes
/// back to it, as POSIX wants; the ctime, which nobody sets, tells that it was before.
pub fn touched(seen: &Attr, at: Time, now: Time, nlink: i32) -> AttrDelta {
    let comes_back = seen.mtime > at && at > seen.ctime;
    AttrDelta {
        mtime: comes_back.then_some(at),
        touch_mtime: Some(at),
        touch_ctime: Some(now),
        nlink,
        ..AttrDelta::default()
    }
}

/// A change set in the making.
#[derive(Default)]
pub struct Draft(ChangeSet);

impl Draft {
    pub fn new() -> Draft {
        Draft::default()
    }

    pub fn expect_absent(&mut self, key: Key) {
        self.0.expect.push(Expect::Absent(key));
    }

    /// Expects what was seen under a key, be it nothing.
    pub fn expect_seen(&mut self, key: Key, seen: Option<&Record>) {
        self.0.expect.push(match seen {
            Some(record) => Expect::Same(key, record.clone()),
            None => Expect::Absent(key),
        });
    }

    pub fn expect_entry(&mut self, dir: Ino, name: &Name, (kind, ino): (FileType, Ino)) {
        self.0.expect.push(Expect::Same(Key::Dentry(dir, name.clone()), Record::Dentry { kind, ino }));
    }

    pub fn expect_attr(&mut self, ino: Ino, seen: &Attr, fields: AttrFields) {
        self.0.expect.push(Expect::Attr { ino, seen: Box::new(seen.clone()), fields });
    }

    pub fn expect_empty(&mut self, dir: Ino) {
        self.0.expect.push(Expect::Empty(dir));
    }

    pub fn put(&mut self, key: Key, record: Record) {
        self.0.write.push(Write::Put(key, record));
    }

    pub fn put_entry(&mut self, dir: Ino, name: &Name, (kind, ino): (FileType, Ino)) {
        self.put(Key::Dentry(dir, name.clone()), Record::Dentry { kind, ino });
    }

    pub fn delete(&mut self, key: Key) {
        self.0.write.push(Write::Delete(key));
    }

    pub fn change(&mut self, ino: Ino, delta: AttrDelta) {
        self.0.write.push(Write::Attr(ino, delta));
    }

    pub fn add(&mut self, key: Key, n: i64) {
        self.0.write.push(Write::Add(key, n));
    }

    /// A directory's entries changed, and its number of child directories by `nlink`.
    pub fn touch(&mut self, dir: Ino, seen: &Attr, now: Time, nlink: i32) {
        self.change(dir, touched(seen, now, now, nlink));
    }

    /// One name more (`1`) or less (`-1`) of a hard-linked node in a directory.
    pub fn count_name(&mut self, ino: Ino, parent: Ino, n: i64) {
        self.add(Key::Parent { ino, parent }, n);
    }

    /// The node joins (`1`) or leaves (`-1`) the statistics of a directory.
    pub fn account(&mut self, dir: Ino, ino: Ino, sign: i8) {
        self.write(Write::Account { dir, ino, sign });
    }

    /// The node joins (`1`) or leaves (`-1`) the volume's usage.
    pub fn usage(&mut self, ino: Ino, sign: i8) {
        self.write(Write::Usage { ino, sign });
    }

    pub fn write(&mut self, write: Write) {
        self.0.write.push(write);
    }

    pub fn done(self, outcome: Outcome) -> Result<Decision, Stop> {
        Ok(Decision { changes: self.0, outcome })
    }
}

/// A decision that changes nothing.
pub fn nothing(outcome: Outcome) -> Result<Decision, Stop> {
    Draft::new().done(outcome)
}

/// Gathers what several independent looks want to see.
#[derive(Default)]
pub struct Wants(Vec<Want>);

impl Wants {
    /// The answer of a look, or `None` when it must be waited for.
    pub fn see<T>(&mut self, looked: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match looked {
            Ok(seen) => Ok(Some(seen)),
            Err(Stop::Need(wants)) => {
                self.0.extend(wants);
                Ok(None)
            }
            Err(fail) => Err(fail),
        }
    }

    /// Goes on only when nothing is to be waited for.
    pub fn settle(self) -> Result<(), Stop> {
        if self.0.is_empty() { Ok(()) } else { Err(Stop::Need(self.0)) }
    }
}
