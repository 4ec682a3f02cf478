//! What the rules are asked, what they are told about this client, and what comes out besides the change set.

use crate::key::{Counter, Key};
use std::collections::BTreeSet;
use zest_types::request::{Fallocate, LockKind, RangeLock, RenameMode, SetAttr, XattrMode};
use zest_types::{Attr, Caller, FileType, Ino, Name, Placed, SliceId, SliceRecord, Time};

/// How a node is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneMode {
    /// Owner, mode and times are kept.
    pub keep: bool,
    /// Bits the mode loses where it is not kept.
    pub umask: u16,
    /// The directory is a copy in the making, of which nothing is asked.
    pub inside: bool,
}

/// A change someone wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    /// Any kind of node. `existing_ok`: a regular file of this name is an answer, not `EEXIST`.
    Make {
        parent: Ino,
        name: Name,
        kind: FileType,
        mode: u16,
        umask: u16,
        rdev: u32,
        target: Vec<u8>,
        existing_ok: bool,
    },
    /// A copy that shares its content, whole in one step. A directory's copy is empty; outside of a copy it is
    /// `EISDIR`, as `EFBIG` is for what one step can't hold: see [`Op::CloneDetached`].
    Clone {
        from: Ino,
        parent: Ino,
        name: Name,
        mode: CloneMode,
    },
    /// A copy without content, on its way to a name that [`Op::Attach`] gives it.
    CloneDetached {
        from: Ino,
        parent: Ino,
        name: Name,
        mode: CloneMode,
    },
    /// A detached copy is whole and gets its name.
    Attach {
        ino: Ino,
        parent: Ino,
        name: Name,
    },
    /// A detached copy is given up; it must be empty.
    Discard {
        ino: Ino,
    },
    /// An entry of an hour directory goes to a free name elsewhere, be it in a directory that lies in the trash.
    Restore {
        hour: Ino,
        name: Name,
        parent: Ino,
        new_name: Name,
    },
    Unlink {
        parent: Ino,
        name: Name,
    },
    Rmdir {
        parent: Ino,
        name: Name,
    },
    Rename {
        parent: Ino,
        name: Name,
        new_parent: Ino,
        new_name: Name,
        mode: RenameMode,
    },
    Link {
        ino: Ino,
        parent: Ino,
        name: Name,
    },
    /// Without `size`, which is [`Op::Truncate`].
    SetAttr {
        ino: Ino,
        set: SetAttr,
    },
    /// `through_handle`: the right to write was checked when the handle was opened.
    Truncate {
        ino: Ino,
        length: u64,
        through_handle: bool,
    },
    Fallocate {
        ino: Ino,
        offset: u64,
        len: u64,
        mode: Fallocate,
    },
    /// Slices whose blocks are durable become part of the file, in this order: all records that name them, side by
    /// side for each. `mtime` is the time of the last write in them.
    CommitSlices {
        ino: Ino,
        parts: Vec<Placed>,
        mtime: Time,
    },
    CopyRange {
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    },
    SetXattr {
        ino: Ino,
        name: Name,
        value: Vec<u8>,
        mode: XattrMode,
    },
    RemoveXattr {
        ino: Ino,
        name: Name,
    },
    SetLock {
        ino: Ino,
        owner: u64,
        lock: RangeLock,
    },
    Flock {
        ino: Ino,
        owner: u64,
        kind: LockKind,
    },
    /// All locks of a session on one node go.
    DropLocks {
        session: u64,
        ino: Ino,
    },
    /// Whether this client does a job of all clients now: once in so many seconds one of them does.
    /// `Outcome::Blocked`: not now.
    Gate {
        job: Counter,
        interval: i64,
    },
    /// The last handle of a file that was deleted while open is gone (`session` may be a dead one).
    DropSustained {
        session: u64,
        ino: Ino,
    },
    /// One chunk list of a deleted file goes, and a reference of each slice in it. `index` is the chunk.
    DropChunk {
        ino: Ino,
        index: u32,
    },
    /// A new slice, whose blocks are durable, takes the place of the first records of a chunk list but the `skipped`
    /// ones; `seen` is how these records were when it was written. `delayed`: the replaced ones keep their objects
    /// for as long as the trash keeps things.
    Compact {
        ino: Ino,
        index: u32,
        seen: Vec<SliceRecord>,
        skipped: usize,
        record: SliceRecord,
        delayed: bool,
    },
    /// Slices that compaction replaced were kept long enough.
    DropDelayed {
        stamp: i64,
        id: SliceId,
    },
    /// All chunks of a deleted file are gone.
    DropDeleted {
        ino: Ino,
        length: u64,
    },
    /// The objects of an unreferenced slice are gone.
    DropSliceRef {
        id: SliceId,
        size: u32,
    },
    /// Limits of a quota: −1 for none, `None` for what is to stay. `usage` is what was counted: bytes and nodes.
    SetQuota {
        quota: Key,
        max_space: Option<i64>,
        max_inodes: Option<i64>,
        usage: Option<(i64, i64)>,
    },
    DropQuota {
        quota: Key,
    },
    /// The statistics of a directory that has none are counted from its entries.
    RecountDirStat {
        dir: Ino,
    },
    /// The directory of this hour in the trash; `EEXIST` never, an existing one is the answer.
    MakeTrashHour {
        name: Name,
    },
}

/// What a rule is told about this client and this moment.
pub struct Env<'a> {
    /// Who asks.
    pub caller: Caller,
    /// Wall-clock time.
    pub now: Time,
    /// An inode number nobody used, for [`Op::Make`].
    pub new_ino: Ino,
    /// This client's session.
    pub session: u64,
    /// Whether this client has a file open.
    pub is_open: &'a dyn Fn(Ino) -> bool,
    /// This hour's directory in the trash, when removal goes there.
    pub trash: Option<Ino>,
    /// Limits of the volume: bytes and inodes, 0 for none.
    pub capacity: (u64, u64),
    /// Whether the volume has access control lists.
    pub acl: bool,
    /// Whether usage of users and groups is kept.
    pub user_quotas: bool,
    /// Directories with a quota; a volume without any pays nothing.
    pub quota_dirs: &'a BTreeSet<Ino>,
}

/// What came out of a decision, besides the records written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Outcome {
    Done,
    /// A node was made, found, linked or changed; attributes as the rule expects them (the applied records
    /// have the last word).
    Node {
        ino: Ino,
        attr: Attr,
        created: bool,
    },
    /// A name is gone. `deleted`: the node went with it, its data wait for removal when `Some(length)`.
    Removed {
        ino: Ino,
        deleted: Option<u64>,
    },
    /// Bytes copied; for a fallocate that goes in steps, bytes from its offset on that are done (see `rules::rest`).
    Copied(u64),
    /// Slices that lost their last reference: their objects may go.
    Unreferenced(Vec<(SliceId, u32)>),
    /// A lock stands in the way.
    Blocked,
    /// Whoever wants this lock has it already.
    Held,
}
