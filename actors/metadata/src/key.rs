//! Logical names of records. How a key becomes bytes or a Redis command is a codec's business. Source: volume
//! format, keys of the key-value layout; each variant names what stands there.

use zest_types::{Ino, Name, SliceId};

/// Volume-wide numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Counter {
    NextInode,
    NextSlice,
    NextSession,
    NextTrash,
    UsedSpace,
    TotalInodes,
    /// The highest id of an access rule.
    AclMaxId,
    LastCleanupSessions,
    LastCleanupFiles,
    LastCleanupTrash,
    NextCleanupSlices,
}

/// The name of one record. The order of variants is the order in which change sets are applied and read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Key {
    /// `Record::Bytes`, the settings JSON.
    Setting,
    /// `Record::Count`; the cleanup times are `Record::Stamp`.
    Counter(Counter),
    /// `Record::Attr`.
    Attr(Ino),
    /// Directory and name: `Record::Dentry`.
    Dentry(Ino, Name),
    /// How many names an inode has in a directory, once it was hard linked: `Record::Count`.
    Parent { ino: Ino, parent: Ino },
    /// `Record::Slices`, in write order.
    Chunk(Ino, u32),
    /// `Record::Bytes`.
    Symlink(Ino),
    /// `Record::Bytes`.
    Xattr(Ino, Name),
    /// `Record::Flocks`.
    Flocks(Ino),
    /// `Record::RangeLocks`.
    RangeLocks(Ino),
    /// A file whose data wait for removal: `Record::Stamp`, when it was deleted.
    Deleted { ino: Ino, length: u64 },
    /// References to a slice, minus one; absent means one reference: `Record::Count`.
    SliceRef { id: SliceId, size: u32 },
    /// Slices that compaction replaced: `Record::SliceList`.
    DelayedSlices { stamp: i64, id: SliceId },
    /// `Record::Stamp`, seconds.
    SessionExpiry(u64),
    /// `Record::Bytes`, JSON.
    SessionInfo(u64),
    /// A file that was deleted while this session had it open: `Record::Mark`.
    Sustained { session: u64, ino: Ino },
    /// `Record::DirStat`; absent means that nobody has counted, not that there is nothing.
    DirStat(Ino),
    /// `Record::Stamp`.
    Detached(Ino),
    /// `Record::Quota`.
    DirQuota(Ino),
    /// `Record::Quota`.
    UserQuota(u32),
    /// `Record::Quota`.
    GroupQuota(u32),
    /// `Record::Bytes`.
    AclRule(u32),
}

/// A question whose answer is a list of records, in the order of their keys (names in byte order).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Scan {
    /// Entries of a directory behind `after`, at most `limit`.
    Dentries { dir: Ino, after: Option<Name>, limit: usize },
    /// All parent counts of an inode.
    Parents(Ino),
    /// All extended attributes of an inode.
    Xattrs(Ino),
    /// All chunk lists of an inode, at most `limit`, from `from` on.
    Chunks { ino: Ino, from: u32, limit: usize },
    /// Files whose data wait for removal.
    Deleted { limit: usize },
    /// What sessions hold that was deleted while open.
    Sustained { limit: usize },
    /// Session expiry records.
    Sessions { limit: usize },
    /// Slice counters.
    SliceRefs { limit: usize },
    /// Directory quotas.
    DirQuotas { limit: usize },
    /// What users use, and what they may.
    UserQuotas { limit: usize },
    /// What groups use, and what they may.
    GroupQuotas { limit: usize },
    /// Slices that compaction replaced.
    Delayed { limit: usize },
    /// Nodes that are being made outside of the tree.
    Detached { limit: usize },
    /// Whole-file locks: at least the records in which this session has one.
    Flocks { session: u64 },
    /// Locks on ranges: at least the records in which this session has one.
    RangeLocks { session: u64 },
}
