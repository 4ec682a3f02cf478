//! What stands under a key, decoded.

use zest_types::{Attr, FileType, Ino, SliceId, SliceRecord};

/// Lock record of one owner: session and the kernel's owner number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner {
    /// Session of the client.
    pub session: u64,
    /// The kernel's number of the owner.
    pub owner: u64,
}

/// A whole-file lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlockEntry {
    /// Who.
    pub owner: LockOwner,
    /// `true` for a write lock.
    pub write: bool,
}

/// One locked range; `end` is inclusive. `kind` is Linux's: 0 read, 1 write, 2 unlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LockRange {
    pub kind: u32,
    pub pid: u32,
    pub start: u64,
    pub end: u64,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Record {
    Attr(Attr),
    Dentry {
        kind: FileType,
        ino: Ino,
    },
    /// A number changed by addition.
    Count(i64),
    /// A time in seconds.
    Stamp(i64),
    Slices(Vec<SliceRecord>),
    /// Settings, symlink target, attribute value, session JSON, rule.
    Bytes(Vec<u8>),
    Flocks(Vec<FlockEntry>),
    RangeLocks(Vec<(LockOwner, Vec<LockRange>)>),
    /// Slice ids with their sizes.
    SliceList(Vec<(SliceId, u32)>),
    /// Direct children only: bytes of files, space, number of entries.
    DirStat {
        length: i64,
        space: i64,
        inodes: i64,
    },
    /// −1 means no limit.
    Quota {
        max_space: i64,
        max_inodes: i64,
        used_space: i64,
        used_inodes: i64,
    },
    /// Nothing but being there.
    Mark,
}
