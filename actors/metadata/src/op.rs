//! What the rules are asked, what they are told about this client, and what comes out besides the change set.

use zest_types::request::{Fallocate, LockKind, RangeLock, RenameMode, SetAttr, XattrMode};
use zest_types::{Attr, Caller, FileType, Ino, Name, SliceId, SliceRecord, Time};

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
    /// A slice whose blocks are durable becomes part of the file. `mtime` is the time of the last write in it.
    CommitSlice {
        ino: Ino,
        index: u32,
        record: SliceRecord,
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
}
