//! The kernel's words in ours, and ours in the kernel's. Source of the numbers reported: volume format, types and
//! modes. Other numbers are Linux's own, those of x86-64 and ARM64.

use crate::abi::{self, SetattrIn, fattr, fopen, lock_kind};
use zest_types::request::{
    Fallocate, LockKind, RangeLock, RenameMode, SeekWhat, SetAttr, SetTime, XattrMode,
};
use zest_types::{Attr, Errno, FileType, Ino, Time};

/// Preferred bytes of a request, as stat reports it.
const BLOCK: u32 = 65_536;

/// Permission bits of a mode.
#[must_use]
pub fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// The kind that mknod asks for.
pub fn mknod_kind(mode: u32) -> Result<FileType, Errno> {
    match FileType::from_mode(mode) {
        Some(FileType::Directory | FileType::Symlink) | None => Err(Errno::EINVAL),
        Some(kind) => Ok(kind),
    }
}

/// Flags of renameat2(2).
pub fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    match flags {
        0 => Ok(RenameMode::Replace),
        1 => Ok(RenameMode::NoReplace),
        2 => Ok(RenameMode::Exchange),
        _ => Err(Errno::EINVAL),
    }
}

/// Flags of fallocate(2).
pub fn fallocate_mode(mode: u32) -> Result<Fallocate, Errno> {
    const KEEP: u32 = 1;
    const PUNCH: u32 = 2;
    const ZERO: u32 = 16;
    const PUNCH_KEEP: u32 = PUNCH | KEEP;
    const ZERO_KEEP: u32 = ZERO | KEEP;
    match mode {
        0 => Ok(Fallocate::Allocate),
        KEEP => Ok(Fallocate::KeepSize),
        PUNCH_KEEP => Ok(Fallocate::PunchHole),
        ZERO => Ok(Fallocate::ZeroRange),
        ZERO_KEEP => Ok(Fallocate::ZeroRangeKeepSize),
        _ => Err(Errno::ENOTSUP),
    }
}

/// What lseek(2) looks for, and from where; other ways to seek are the kernel's own.
pub fn seek(offset: u64, whence: u32) -> Result<(u64, SeekWhat), Errno> {
    if i64::try_from(offset).is_err() {
        return Err(Errno::ENXIO);
    }
    match whence {
        3 => Ok((offset, SeekWhat::Data)),
        4 => Ok((offset, SeekWhat::Hole)),
        _ => Err(Errno::EINVAL),
    }
}

/// Flags of setxattr(2).
pub fn xattr_mode(flags: u32) -> Result<XattrMode, Errno> {
    match flags {
        0 => Ok(XattrMode::Any),
        1 => Ok(XattrMode::Create),
        2 => Ok(XattrMode::Replace),
        _ => Err(Errno::EINVAL),
    }
}

/// Bits of access(2).
#[must_use]
pub fn access_mask(mask: u32) -> u8 {
    (mask & 0o7) as u8
}

/// A time as the kernel has it; seconds may be negative.
#[must_use]
pub fn time(sec: u64, nsec: u32) -> Time {
    Time::new(sec.cast_signed(), nsec.min(999_999_999))
}

/// What setattr shall change. The change time is always the volume's own.
#[must_use]
pub fn set_attr(arg: &SetattrIn) -> SetAttr {
    let wants = |bit| arg.valid & bit != 0;
    let when = |bit, now, sec, nsec| match (wants(bit), wants(now)) {
        (false, _) => None,
        (true, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(time(sec, nsec))),
    };
    SetAttr {
        mode: wants(fattr::MODE).then(|| permissions(arg.mode)),
        uid: wants(fattr::UID).then_some(arg.uid),
        gid: wants(fattr::GID).then_some(arg.gid),
        size: wants(fattr::SIZE).then_some(arg.size),
        atime: when(fattr::ATIME, fattr::ATIME_NOW, arg.atime, arg.atimensec),
        mtime: when(fattr::MTIME, fattr::MTIME_NOW, arg.mtime, arg.mtimensec),
        ..SetAttr::default()
    }
}

/// The kind of a lock.
pub fn lock_kind(kind: u32) -> Result<LockKind, Errno> {
    match kind {
        lock_kind::READ => Ok(LockKind::Read),
        lock_kind::WRITE => Ok(LockKind::Write),
        lock_kind::UNLOCK => Ok(LockKind::Unlock),
        _ => Err(Errno::EINVAL),
    }
}

/// A lock on a range of bytes.
pub fn range_lock(lock: &abi::FileLock) -> Result<RangeLock, Errno> {
    let kind = lock_kind(lock.kind)?;
    if lock.end < lock.start {
        return Err(Errno::EINVAL);
    }
    let last = i64::MAX.unsigned_abs();
    Ok(RangeLock { kind, start: lock.start.min(last), end: lock.end.min(last), pid: lock.pid })
}

/// A lock, or that there is none, as the kernel wants to hear it.
#[must_use]
pub fn file_lock(lock: Option<&RangeLock>) -> abi::FileLock {
    match lock {
        None => abi::FileLock { kind: lock_kind::UNLOCK, ..abi::FileLock::default() },
        Some(lock) => {
            let kind = match lock.kind {
                LockKind::Read => lock_kind::READ,
                LockKind::Write => lock_kind::WRITE,
                LockKind::Unlock => lock_kind::UNLOCK,
            };
            abi::FileLock { start: lock.start, end: lock.end, kind, pid: lock.pid }
        }
    }
}

/// Type bits as directory entries have them.
#[must_use]
pub fn dirent_kind(kind: FileType) -> u32 {
    kind.mode_bits() >> 12
}

/// Attributes.
#[must_use]
pub fn attr(ino: Ino, attr: &Attr) -> abi::Attr {
    let size = match attr.kind {
        FileType::File | FileType::Directory | FileType::Symlink => attr.length,
        _ => 0,
    };
    let device = matches!(attr.kind, FileType::BlockDevice | FileType::CharDevice);
    abi::Attr {
        ino: ino.0,
        size,
        blocks: size.div_ceil(512),
        atime: attr.atime.sec.cast_unsigned(),
        mtime: attr.mtime.sec.cast_unsigned(),
        ctime: attr.ctime.sec.cast_unsigned(),
        atimensec: attr.atime.nsec,
        mtimensec: attr.mtime.nsec,
        ctimensec: attr.ctime.nsec,
        mode: attr.kind.mode_bits() | u32::from(attr.mode & 0o7777),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: if device { attr.rdev } else { 0 },
        blksize: BLOCK,
        flags: 0,
    }
}

const O_ACCMODE: u32 = 0o3;
#[cfg(not(target_arch = "aarch64"))]
const O_DIRECT: u32 = 0o40_000;
#[cfg(target_arch = "aarch64")]
const O_DIRECT: u32 = 0o200_000;

/// How the kernel shall treat a file that was opened like this. `O_DIRECT` goes past its page cache, also for writers
/// side by side; a file that can't be written has nothing to flush when it is closed, unless closing drops locks.
#[must_use]
pub fn open_reply(flags: u32, keep_cache: bool, close_drops_locks: bool) -> u32 {
    let mut reply = 0;
    if flags & O_DIRECT != 0 {
        reply |= fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES;
    } else if keep_cache {
        reply |= fopen::KEEP_CACHE;
    }
    if flags & O_ACCMODE == 0 && !close_drops_locks {
        reply |= fopen::NOFLUSH;
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_reported_by_kind() {
        let mut node = Attr::new(FileType::File, 0o644, 1, 2, Ino::ROOT, Time::new(-1, 2));
        node.length = 1025;
        node.rdev = 9;
        let told = attr(Ino(7), &node);
        assert_eq!((told.size, told.blocks, told.rdev, told.blksize), (1025, 3, 0, 65_536));
        assert_eq!((told.mode, told.mtime, told.mtimensec), (0o100_644, u64::MAX, 2));
        assert_eq!(time(told.mtime, told.mtimensec), node.mtime);
        node.kind = FileType::CharDevice;
        let told = attr(Ino(7), &node);
        assert_eq!((told.size, told.blocks, told.rdev), (0, 0, 9));
    }

    #[test]
    fn unknown_bits_are_refused() {
        assert_eq!(fallocate_mode(8), Err(Errno::ENOTSUP));
        assert_eq!(fallocate_mode(2), Err(Errno::ENOTSUP));
        assert_eq!(fallocate_mode(3), Ok(Fallocate::PunchHole));
        assert_eq!(rename_mode(4), Err(Errno::EINVAL));
        assert_eq!(seek(u64::MAX, 3), Err(Errno::ENXIO));
        assert_eq!(seek(0, 0), Err(Errno::EINVAL));
        assert_eq!(mknod_kind(0o040_000), Err(Errno::EINVAL));
        assert_eq!(mknod_kind(0o010_644), Ok(FileType::Fifo));
        assert_eq!(mknod_kind(0o644), Ok(FileType::File));
        assert_eq!(lock_kind(3), Err(Errno::EINVAL));
    }

    #[test]
    fn locks_come_back() {
        for kind in [LockKind::Read, LockKind::Write] {
            let lock = RangeLock { kind, start: 5, end: i64::MAX.unsigned_abs(), pid: 7 };
            assert_eq!(range_lock(&file_lock(Some(&lock))), Ok(lock));
        }
        assert_eq!(file_lock(None).kind, lock_kind::UNLOCK);
        assert_eq!(range_lock(&abi::FileLock { start: 5, end: 4, kind: 0, pid: 0 }), Err(Errno::EINVAL));
    }

    #[test]
    fn open_files_are_treated_by_their_flags() {
        assert_eq!(open_reply(0, true, false), fopen::KEEP_CACHE | fopen::NOFLUSH);
        assert_eq!(open_reply(0, true, true), fopen::KEEP_CACHE);
        assert_eq!(open_reply(2, false, false), 0);
        assert_eq!(open_reply(1 | O_DIRECT, true, false), fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES);
    }

    #[test]
    fn only_what_is_named_changes() {
        let arg = SetattrIn {
            valid: fattr::ATIME | fattr::ATIME_NOW | fattr::SIZE,
            size: 9,
            mode: 0o777,
            ..SetattrIn::default()
        };
        let set = set_attr(&arg);
        assert_eq!(set, SetAttr { size: Some(9), atime: Some(SetTime::Now), ..SetAttr::default() });
    }
}
