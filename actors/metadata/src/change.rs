//! What a rule wants: what must still hold, and what to write. Commutative writes say what is added, so that
//! clients that touch the same directory do not conflict. How they meet the records found is in `apply`.

use crate::key::{Key, Scan};
use crate::record::Record;
use zest_types::{Attr, Ino, SliceRecord, Time};

/// Fields of an attribute record that a decision looked at. A node must exist and have the same kind always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AttrFields {
    /// Mode, owner, group, flags, rules.
    pub access: bool,
    pub nlink: bool,
    pub length: bool,
    pub parent: bool,
    /// All three times.
    pub times: bool,
}

/// What must still hold when the changes are made; otherwise the commit is a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No such record.
    Absent(Key),
    /// Exactly this record.
    Same(Key, Record),
    /// The node exists, has this kind, and these fields are as here.
    Attr {
        /// The node.
        ino: Ino,
        /// As the decision saw it.
        seen: Box<Attr>,
        /// What the decision looked at.
        fields: AttrFields,
    },
    /// The directory has no entries.
    Empty(Ino),
}

/// A change of an attribute record that leaves alone what it does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AttrDelta {
    pub mode: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub flags: Option<u8>,
    pub parent: Option<Ino>,
    pub access_acl: Option<u32>,
    pub default_acl: Option<u32>,
    /// Sets the length.
    pub length: Option<u64>,
    pub atime: Option<Time>,
    pub mtime: Option<Time>,
    pub ctime: Option<Time>,
    /// Added to the link count.
    pub nlink: i32,
    /// Later of this and the one found. Of a file: in any case another one than that, unless it is just this.
    pub touch_mtime: Option<Time>,
    /// Later of this and the one found.
    pub touch_ctime: Option<Time>,
    /// Larger of this and the one found.
    pub grow_length: Option<u64>,
}

impl AttrDelta {
    /// Parent touch: mtime and ctime move to `now`, and the link count by `nlink`.
    #[must_use]
    pub fn touch(now: Time, nlink: i32) -> AttrDelta {
        AttrDelta { nlink, touch_mtime: Some(now), touch_ctime: Some(now), ..AttrDelta::default() }
    }
}

/// One write of a change set. Writes are made in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a record.
    Put(Key, Record),
    /// Removes a record; a missing one is fine.
    Delete(Key),
    /// Changes a node that exists. A change of a file's length also moves the volume's used space and the
    /// statistics of its directories, by what is found.
    Attr(Ino, AttrDelta),
    /// Appends to a chunk list, which may be missing. A single record of a stored slice that the list already
    /// has is not added again (a repeated commit changes nothing).
    Append(Ino, u32, Vec<SliceRecord>),
    /// Appends to a chunk list that exists; a missing one stays missing.
    AppendIfPresent(Ino, u32, Vec<SliceRecord>),
    /// Adds to a `Record::Count`; a missing one counts as 0.
    Add(Key, i64),
    /// Removes all records the scan finds.
    DeleteAll(Scan),
    /// The node, as found, joins (`+1`) or leaves (`−1`) the statistics of a directory, where those are known: an
    /// absent record stays absent.
    Account {
        /// The directory.
        dir: Ino,
        /// The node.
        ino: Ino,
        /// 1 or −1.
        sign: i8,
    },
    /// The node, as found, joins (`+1`) or leaves (`−1`) the usage of a quota: its space, and one inode. A missing
    /// directory quota stays missing; a missing one of a user or group is made, without limits.
    Charge {
        /// `Key::DirQuota`, `Key::UserQuota` or `Key::GroupQuota`.
        quota: Key,
        /// The node.
        ino: Ino,
        /// 1 or −1.
        sign: i8,
    },
    /// As [`Write::Attr`], and the change of the node's space also moves the usage of these quotas, once for each
    /// time one is named.
    Resize {
        /// The node.
        ino: Ino,
        /// What changes.
        delta: AttrDelta,
        /// Quotas, as in [`Write::Charge`].
        quotas: Vec<Key>,
    },
    /// Adds to the usage of a quota what was counted before, when a whole tree moves. Missing ones as in
    /// [`Write::Charge`].
    AddQuota {
        /// As in [`Write::Charge`].
        quota: Key,
        /// Bytes.
        space: i64,
        /// Nodes.
        inodes: i64,
    },
    /// The node, as found, joins or leaves the volume's used space and number of inodes.
    Usage {
        /// The node.
        ino: Ino,
        /// 1 or −1.
        sign: i8,
    },
}

/// A decision, ready to be committed: all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// What must still hold.
    pub expect: Vec<Expect>,
    /// What to write, in order.
    pub write: Vec<Write>,
}

impl ChangeSet {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.write.is_empty()
    }
}
