//! What the kernel sends.

use super::wire;

wire! {
    /// Opens every request.
    InHeader { len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16 }
    ForgetIn { nlookup: u64 }
    ForgetOne { nodeid: u64, nlookup: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 }
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { newdir: u64 }
    Rename2In { newdir: u64, flags: u32, padding: u32 }
    LinkIn { oldnodeid: u64 }
    OpenIn { flags: u32, open_flags: u32 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    SetxattrIn { size: u32, flags: u32 }
    /// With `SETXATTR_EXT`.
    SetxattrExtIn { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
    GetxattrIn { size: u32, padding: u32 }
    FileLock { start: u64, end: u64, kind: u32, pid: u32 }
    LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32 }
    AccessIn { mask: u32, padding: u32 }
    /// Before 7.36.
    InitInOld { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11] }
    InterruptIn { unique: u64 }
    BmapIn { block: u64, blocksize: u32, padding: u32 }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    PollIn { fh: u64, kh: u64, flags: u32, events: u32 }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    CopyFileRangeIn { fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64 }
    SetupmappingIn { fh: u64, foffset: u64, len: u64, flags: u64, moffset: u64 }
    RemovemappingIn { count: u32, padding: u32 }
    RemovemappingOne { moffset: u64, len: u64 }
    SyncfsIn { padding: u64 }
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
    /// The kernel's pages that were asked for with a retrieve notification.
    RetrieveIn { dummy1: u64, offset: u64, size: u32, dummy2: u32, dummy3: u64, dummy4: u64 }
    /// Opens an extension at the end of a request.
    ExtHeader { size: u32, kind: u32 }
}

/// Bits of [`SetattrIn::valid`].
pub mod fattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const LOCKOWNER: u32 = 1 << 9;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// [`GetattrIn::getattr_flags`]: the handle counts.
pub const GETATTR_FH: u32 = 1 << 0;
/// [`OpenIn::open_flags`]: set-user and set-group bits go.
pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
/// [`ReleaseIn::release_flags`]: as with a flush.
pub const RELEASE_FLUSH: u32 = 1 << 0;
/// [`ReleaseIn::release_flags`]: the owner's whole-file lock goes.
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// [`LkIn::lk_flags`]: a whole-file lock.
pub const LK_FLOCK: u32 = 1 << 0;
/// [`WriteIn::write_flags`]: pages of the kernel's cache, written later; the handle is a guess.
pub const WRITE_CACHE: u32 = 1 << 0;
/// [`WriteIn::write_flags`]: the lock owner counts.
pub const WRITE_LOCKOWNER: u32 = 1 << 1;
/// [`WriteIn::write_flags`]: set-user and set-group bits go.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// [`FsyncIn::fsync_flags`]: content only.
pub const FSYNC_FDATASYNC: u32 = 1 << 0;

/// Kinds of locks, as fcntl(2) numbers them.
pub mod lock_kind {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const UNLOCK: u32 = 2;
}
