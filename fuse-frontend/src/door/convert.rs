//! The kernel's words in ours, and ours in the kernel's. Source of the numbers reported: volume format, types and
//! modes.

use fuser::{AccessFlags, FileAttr, FopenFlags, INodeNo, OpenFlags, RenameFlags, TimeOrNow};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};
use zest_types::request::{Fallocate, LockKind, RangeLock, RenameMode, SeekWhat, SetTime, XattrMode};
use zest_types::{Attr, Errno, FileType, Ino, Name, Time};

/// Preferred bytes of a request, as stat reports it.
const BLOCK: u32 = 65_536;

pub(super) fn name(name: &OsStr) -> Result<Name, Errno> {
    Name::new(name.as_bytes())
}

/// The name of an extended attribute.
pub(super) fn attribute(name: &OsStr) -> Result<Name, Errno> {
    Name::attribute(name.as_bytes())
}

/// The directory the kernel knows as node 1. What lies above it is out of its sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root(pub(crate) Ino);

impl Root {
    pub(crate) fn inward(self, ino: INodeNo) -> Ino {
        if ino == INodeNo::ROOT { self.0 } else { Ino(ino.0) }
    }

    pub(crate) fn outward(self, ino: Ino) -> INodeNo {
        if ino == self.0 { INodeNo::ROOT } else { INodeNo(ino.0) }
    }
}

pub(super) fn kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::File => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::CharDevice => fuser::FileType::CharDevice,
        FileType::Socket => fuser::FileType::Socket,
    }
}

/// A time that can't be told to the kernel becomes the nearest that can.
pub(super) fn system_time(time: Time) -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    let nanos = Duration::from_nanos(u64::from(time.nsec));
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let whole = if time.sec < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
    whole.and_then(|t| t.checked_add(nanos)).unwrap_or(epoch)
}

/// `fuser` 0.18 builds a time before 1970 as the epoch minus seconds *minus* nanoseconds, where the kernel means
/// *plus*; taking the distance apart again gives both numbers as the kernel sent them.
pub(super) fn time(time: SystemTime) -> Time {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Time::new(i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            Time::new(0i64.saturating_sub_unsigned(before.as_secs()), before.subsec_nanos())
        }
    }
}

pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(at) => SetTime::At(self::time(at)),
    }
}

pub(super) fn attr(ino: INodeNo, attr: &Attr) -> FileAttr {
    let size = match attr.kind {
        FileType::File | FileType::Directory | FileType::Symlink => attr.length,
        _ => 0,
    };
    let device = matches!(attr.kind, FileType::BlockDevice | FileType::CharDevice);
    FileAttr {
        ino,
        size,
        blocks: size.div_ceil(512),
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(attr.kind),
        perm: attr.mode & 0o7777,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: if device { attr.rdev } else { 0 },
        blksize: BLOCK,
        flags: 0,
    }
}

/// Permission bits of a mode.
pub(super) fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// The kind that mknod asks for.
pub(super) fn mknod_kind(mode: u32) -> Result<FileType, Errno> {
    match FileType::from_mode(mode) {
        Some(FileType::Directory | FileType::Symlink) | None => Err(Errno::EINVAL),
        Some(kind) => Ok(kind),
    }
}

pub(super) fn rename_mode(flags: RenameFlags) -> Result<RenameMode, Errno> {
    match flags.bits() {
        0 => Ok(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn fallocate_mode(mode: i32) -> Result<Fallocate, Errno> {
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    const ZERO_KEEP: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    match mode {
        0 => Ok(Fallocate::Allocate),
        libc::FALLOC_FL_KEEP_SIZE => Ok(Fallocate::KeepSize),
        PUNCH => Ok(Fallocate::PunchHole),
        libc::FALLOC_FL_ZERO_RANGE => Ok(Fallocate::ZeroRange),
        ZERO_KEEP => Ok(Fallocate::ZeroRangeKeepSize),
        _ => Err(Errno::ENOTSUP),
    }
}

/// What lseek(2) looks for, and from where; other ways to seek are the kernel's own.
pub(super) fn seek(offset: i64, whence: i32) -> Result<(u64, SeekWhat), Errno> {
    let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    match whence {
        libc::SEEK_DATA => Ok((offset, SeekWhat::Data)),
        libc::SEEK_HOLE => Ok((offset, SeekWhat::Hole)),
        _ => Err(Errno::EINVAL),
    }
}

/// A lock on a range as the kernel asks for it; `end` is inclusive.
pub(super) fn lock(typ: i32, start: u64, end: u64, pid: u32) -> Result<RangeLock, Errno> {
    let kind = match typ {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Errno::EINVAL),
    };
    Ok(RangeLock { kind, start, end, pid })
}

pub(super) fn lock_type(kind: LockKind) -> i32 {
    match kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    }
}

pub(super) fn xattr_mode(flags: i32) -> Result<XattrMode, Errno> {
    match flags {
        0 => Ok(XattrMode::Any),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn access_mask(mask: AccessFlags) -> u8 {
    (mask.bits() & 0o7) as u8
}

/// Linux open flags, bit for bit.
pub(super) fn open_flags(flags: OpenFlags) -> u32 {
    flags.0.cast_unsigned()
}

/// How the kernel shall treat a file that was opened like this. `O_DIRECT` goes past its page cache, also for
/// writers side by side; a file that can't be written has nothing to flush when it is closed, unless closing gives
/// locks back.
pub(super) fn reply_flags(flags: u32, keep_cache: bool, locks: bool) -> FopenFlags {
    let flags = flags.cast_signed();
    let mut reply = FopenFlags::empty();
    if flags & libc::O_DIRECT != 0 {
        reply |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
    } else if keep_cache {
        reply |= FopenFlags::FOPEN_KEEP_CACHE;
    }
    if flags & libc::O_ACCMODE == libc::O_RDONLY && !locks {
        reply |= FopenFlags::FOPEN_NOFLUSH;
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_on_both_sides_of_1970_come_back() {
        for (sec, nsec) in [(0, 0), (1, 5), (-1, 0), (-2, 800_000_000), (i64::MAX, 999_999_999), (-5_000, 1)]
        {
            let told = system_time(Time::new(sec, nsec));
            let distance = SystemTime::UNIX_EPOCH.duration_since(told);
            match distance {
                // What fuser makes of a kernel time before 1970.
                Ok(before) if sec < 0 => {
                    assert_eq!(
                        before,
                        Duration::from_secs(sec.unsigned_abs()) - Duration::from_nanos(nsec.into())
                    );
                    let as_fuser = SystemTime::UNIX_EPOCH - Duration::new(sec.unsigned_abs(), nsec);
                    assert_eq!(time(as_fuser), Time::new(sec, nsec));
                }
                _ => assert_eq!(time(told), Time::new(sec, nsec)),
            }
        }
    }

    #[test]
    fn a_folder_is_the_root_of_a_mount() {
        let root = Root(Ino(7));
        assert_eq!((root.inward(INodeNo::ROOT), root.outward(Ino(7))), (Ino(7), INodeNo::ROOT));
        assert_eq!((root.inward(INodeNo(8)), root.outward(Ino(8))), (Ino(8), INodeNo(8)));
        assert_eq!(Root(Ino::ROOT).outward(Ino::ROOT), INodeNo::ROOT);
    }

    #[test]
    fn kinds_of_locks_come_back() {
        for typ in [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK] {
            assert_eq!(lock_type(lock(typ, 1, 2, 3).unwrap().kind), typ);
        }
        assert_eq!(lock(7, 0, 1, 0), Err(Errno::EINVAL));
    }

    #[test]
    fn sizes_are_reported_by_kind() {
        let mut node = Attr::new(FileType::File, 0o644, 1, 2, Ino::ROOT, Time::new(1, 2));
        node.length = 1025;
        node.rdev = 9;
        let told = attr(INodeNo(7), &node);
        assert_eq!((told.size, told.blocks, told.rdev, told.blksize), (1025, 3, 0, 65_536));
        node.kind = FileType::CharDevice;
        let told = attr(INodeNo(7), &node);
        assert_eq!((told.size, told.blocks, told.rdev), (0, 0, 9));
    }

    #[test]
    fn unknown_bits_are_refused() {
        assert_eq!(fallocate_mode(libc::FALLOC_FL_COLLAPSE_RANGE), Err(Errno::ENOTSUP));
        assert_eq!(fallocate_mode(libc::FALLOC_FL_PUNCH_HOLE), Err(Errno::ENOTSUP));
        assert_eq!(fallocate_mode(3), Ok(Fallocate::PunchHole));
        assert_eq!(rename_mode(RenameFlags::RENAME_WHITEOUT), Err(Errno::EINVAL));
        assert_eq!(seek(-1, libc::SEEK_DATA), Err(Errno::ENXIO));
        assert_eq!(seek(0, libc::SEEK_SET), Err(Errno::EINVAL));
        assert_eq!(mknod_kind(libc::S_IFDIR), Err(Errno::EINVAL));
        assert_eq!(mknod_kind(libc::S_IFIFO | 0o644), Ok(FileType::Fifo));
        assert_eq!(mknod_kind(0o644), Ok(FileType::File));
    }

    #[test]
    fn open_files_are_treated_by_their_flags() {
        let flags = |flags: i32, keep| reply_flags(flags.cast_unsigned(), keep, false);
        assert_eq!(reply_flags(0, true, true), FopenFlags::FOPEN_KEEP_CACHE, "a close gives locks back");
        assert_eq!(flags(libc::O_RDONLY, true), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
        assert_eq!(flags(libc::O_RDWR, false), FopenFlags::empty());
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        assert_eq!(flags(libc::O_WRONLY | libc::O_DIRECT, true), direct);
    }
}
