//! The one language that every door speaks: requests in, responses or an errno out. A door only translates;
//! what a request means is decided by `vfs` and the rules of `metadata`.

use crate::attr::{Attr, FileType};
use crate::errno::Errno;
use crate::ids::{Handle, Ino};
use crate::name::Name;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Process.
    pub pid: u32,
    /// Whether mode bits are checked here; off where the kernel has checked them already.
    pub check: bool,
}

impl Caller {
    /// The system itself: user 0, nothing checked.
    pub const SYSTEM: Caller = Caller { uid: 0, gid: 0, pid: 0, check: false };
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    /// The time of the change.
    Now,
    /// This time.
    At(Time),
}

/// What `setattr` shall change; `None` leaves a field alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SetAttr {
    pub mode: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    /// Flag byte, see [`crate::attr::flags`].
    pub flags: Option<u8>,
}

/// How `rename` treats the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameMode {
    /// An existing target is replaced.
    Replace,
    /// An existing target is `EEXIST`.
    NoReplace,
    /// Both entries change places.
    Exchange,
}

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// Whether or not it exists.
    Any,
    /// It must not exist: `EEXIST`.
    Create,
    /// It must exist: `ENODATA`.
    Replace,
}

/// What `fallocate` does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fallocate {
    /// The file is at least as long as the range's end afterwards.
    Allocate,
    /// Nothing visible happens but new times.
    KeepSize,
    /// The range reads as zeros, the length stays.
    PunchHole,
    /// The range reads as zeros, the file is at least as long as its end.
    ZeroRange,
    /// The range reads as zeros, the length stays.
    ZeroRangeKeepSize,
}

/// What `lseek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeekWhat {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not stored; the end of the file counts.
    Hole,
}

/// Kind of a file lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum LockKind {
    Read,
    Write,
    Unlock,
}

/// A lock on a range of bytes; `end` is inclusive, `i64::MAX` means to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RangeLock {
    pub kind: LockKind,
    pub start: u64,
    pub end: u64,
    pub pid: u32,
}

/// A file request. Names are legal by type; everything else is checked where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Request<'a> {
    Lookup {
        parent: Ino,
        name: Name,
    },
    GetAttr {
        ino: Ino,
    },
    SetAttr {
        ino: Ino,
        set: SetAttr,
        handle: Option<Handle>,
    },
    Readlink {
        ino: Ino,
    },
    /// Any kind but directory and symlink. `mode` has permission bits only.
    Mknod {
        parent: Ino,
        name: Name,
        kind: FileType,
        mode: u16,
        umask: u16,
        rdev: u32,
    },
    Mkdir {
        parent: Ino,
        name: Name,
        mode: u16,
        umask: u16,
    },
    Symlink {
        parent: Ino,
        name: Name,
        target: Vec<u8>,
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
    /// `flags` are Linux open flags.
    Open {
        ino: Ino,
        flags: u32,
    },
    /// Opens the file, making it if it is missing; with `O_EXCL` in `flags` it must be missing.
    Create {
        parent: Ino,
        name: Name,
        mode: u16,
        umask: u16,
        flags: u32,
    },
    Read {
        ino: Ino,
        handle: Handle,
        offset: u64,
        size: u32,
    },
    Write {
        ino: Ino,
        handle: Handle,
        offset: u64,
        data: &'a [u8],
    },
    /// A descriptor was closed; carries the error of an upload that failed.
    Flush {
        ino: Ino,
        handle: Handle,
        lock_owner: u64,
    },
    Release {
        ino: Ino,
        handle: Handle,
    },
    /// Content and attributes survive a crash afterwards.
    Fsync {
        ino: Ino,
        handle: Handle,
    },
    OpenDir {
        ino: Ino,
    },
    /// `offset` 0 starts; otherwise the cookie of the last entry seen. `plus` asks for attributes.
    ReadDir {
        ino: Ino,
        handle: Handle,
        offset: u64,
        max_entries: u32,
        plus: bool,
    },
    ReleaseDir {
        ino: Ino,
        handle: Handle,
    },
    FsyncDir {
        ino: Ino,
    },
    Statfs {
        ino: Ino,
    },
    SetXattr {
        ino: Ino,
        name: Name,
        value: Vec<u8>,
        mode: XattrMode,
    },
    GetXattr {
        ino: Ino,
        name: Name,
    },
    ListXattr {
        ino: Ino,
    },
    RemoveXattr {
        ino: Ino,
        name: Name,
    },
    /// `mask` has the bits of access(2): 4 read, 2 write, 1 execute.
    Access {
        ino: Ino,
        mask: u8,
    },
    Fallocate {
        ino: Ino,
        handle: Handle,
        offset: u64,
        len: u64,
        mode: Fallocate,
    },
    Lseek {
        ino: Ino,
        handle: Handle,
        offset: u64,
        what: SeekWhat,
    },
    CopyRange {
        from: Ino,
        from_handle: Handle,
        from_offset: u64,
        to: Ino,
        to_handle: Handle,
        to_offset: u64,
        len: u64,
    },
    /// Which lock would stop this one?
    GetLock {
        ino: Ino,
        owner: u64,
        lock: RangeLock,
    },
    /// POSIX record lock; with `wait` the answer comes when the lock was got.
    SetLock {
        ino: Ino,
        owner: u64,
        lock: RangeLock,
        wait: bool,
    },
    /// Whole-file lock.
    Flock {
        ino: Ino,
        owner: u64,
        kind: LockKind,
        wait: bool,
    },
    /// Everything acknowledged so far survives a crash afterwards.
    SyncAll,
}

macro_rules! keep {
    ($request:expr, $($variant:ident { $($field:ident),* })*) => {
        match $request {
            Request::Write { ino, handle, offset, data } => Err(BorrowedWrite { ino, handle, offset, data }),
            Request::SyncAll => Ok(Request::SyncAll),
            $(Request::$variant { $($field),* } => Ok(Request::$variant { $($field),* }),)*
        }
    };
}

/// A write whose payload lies in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BorrowedWrite<'a> {
    pub ino: Ino,
    pub handle: Handle,
    pub offset: u64,
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// The request as one that can be kept; a write can't, since its payload is borrowed.
    pub fn keep(self) -> Result<Request<'static>, BorrowedWrite<'a>> {
        keep! { self,
            Lookup { parent, name }
            GetAttr { ino }
            SetAttr { ino, set, handle }
            Readlink { ino }
            Mknod { parent, name, kind, mode, umask, rdev }
            Mkdir { parent, name, mode, umask }
            Symlink { parent, name, target }
            Unlink { parent, name }
            Rmdir { parent, name }
            Rename { parent, name, new_parent, new_name, mode }
            Link { ino, parent, name }
            Open { ino, flags }
            Create { parent, name, mode, umask, flags }
            Read { ino, handle, offset, size }
            Flush { ino, handle, lock_owner }
            Release { ino, handle }
            Fsync { ino, handle }
            OpenDir { ino }
            ReadDir { ino, handle, offset, max_entries, plus }
            ReleaseDir { ino, handle }
            FsyncDir { ino }
            Statfs { ino }
            SetXattr { ino, name, value, mode }
            GetXattr { ino, name }
            ListXattr { ino }
            RemoveXattr { ino, name }
            Access { ino, mask }
            Fallocate { ino, handle, offset, len, mode }
            Lseek { ino, handle, offset, what }
            CopyRange { from, from_handle, from_offset, to, to_handle, to_offset, len }
            GetLock { ino, owner, lock }
            SetLock { ino, owner, lock, wait }
            Flock { ino, owner, kind, wait }
        }
    }
}

/// One directory entry of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirent {
    /// The name.
    pub name: Name,
    /// The node.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileType,
    /// Cookie to go on behind this entry.
    pub cookie: u64,
    /// Attributes, where they were asked for and are known.
    pub attr: Option<Attr>,
    /// Whether the attributes may be believed for a while; otherwise they were right some time ago.
    pub holds: bool,
}

/// Numbers for statfs(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statfs {
    /// Bytes in all.
    pub total: u64,
    /// Bytes free.
    pub available: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Inodes free.
    pub inodes_available: u64,
}

/// What a request is answered with when it succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Response {
    Done,
    /// A name was found or made.
    Entry {
        ino: Ino,
        attr: Attr,
    },
    Attr {
        ino: Ino,
        attr: Attr,
    },
    /// `keep_cache`: the kernel's pages of this file are still right.
    Opened {
        handle: Handle,
        keep_cache: bool,
    },
    Created {
        ino: Ino,
        attr: Attr,
        handle: Handle,
    },
    /// Pieces to be sent one after the other.
    Data(Vec<Bytes>),
    Written(u32),
    Target(Vec<u8>),
    /// An empty list is the end of the directory.
    Dirents(Vec<Dirent>),
    Statfs(Statfs),
    Xattr(Vec<u8>),
    XattrNames(Vec<Name>),
    Offset(u64),
    Copied(u64),
    /// The first lock in the way, if any.
    Lock(Option<RangeLock>),
}

/// A response or the error.
pub type ServeResult = Result<Response, Errno>;
