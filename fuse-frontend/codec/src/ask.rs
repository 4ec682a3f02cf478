//! A request of the kernel in the language all doors speak, and how its answer has to look.

use crate::abi::{LK_FLOCK, LkIn, RELEASE_FLOCK_UNLOCK, ReadIn};
use crate::convert;
use crate::decode::Incoming;
use crate::ioctl;
use crate::operation::Operation;
use zest_types::request::{LockKind, Request, SetAttr};
use zest_types::{Errno, Handle, Ino, Name};

/// Bytes copied at once by copy_file_range(2): a number of whole chunks whose count fits the shorter answer.
const COPY_MAX: u64 = (1 << 32) - (64 << 20);
/// Entries that are asked for at once, at most.
const DIRENTS: u32 = 1024;
/// The same, with attributes.
const DIRENTS_PLUS: u32 = 256;
/// Bytes of the smallest entry of a listing, and with attributes.
const DIRENT_MIN: (u32, u32) = (32, 160);

/// How an answer has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Shape {
    /// Nothing but that it was done.
    Done,
    /// A node under a name; that there is none may be remembered, too.
    Lookup {
        parent: Ino,
    },
    Entry,
    Attr,
    Opened {
        flags: u32,
    },
    OpenedDir {
        ino: Ino,
    },
    Created {
        flags: u32,
    },
    Data,
    Written,
    /// A number of bytes, in the longer struct.
    Copied64,
    Offset,
    Dirents {
        size: u32,
    },
    DirentsPlus {
        dir: Ino,
        size: u32,
    },
    Ioctl {
        wish: ioctl::Wish,
        size: u32,
    },
    Statfs,
    Xattr {
        size: u32,
    },
    Lock,
    Statx,
}

/// A request that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    /// To be done first, whatever comes of it.
    pub before: Option<Request<'static>>,
    /// The request.
    pub request: Request<'a>,
    /// Its answer.
    pub shape: Shape,
}

/// Translates a request about files. `ENOSYS` for those of the session itself and those nobody here knows.
pub fn translate<'a>(incoming: &Incoming<'a>) -> Result<Ask<'a>, Errno> {
    let ino = Ino(incoming.header.nodeid);
    let (request, shape) = match incoming.operation {
        Operation::Lookup { name } => {
            (Request::Lookup { parent: ino, name: Name::new(name)? }, Shape::Lookup { parent: ino })
        }
        Operation::GetAttr(_) => (Request::GetAttr { ino }, Shape::Attr),
        Operation::SetAttr(arg) => {
            let set = convert::set_attr(&arg);
            let handle = (arg.valid & crate::abi::fattr::FH != 0).then_some(Handle(arg.fh));
            // What is left of a request whose other wishes we do not know.
            let nothing = set == SetAttr::default();
            let request =
                if nothing { Request::GetAttr { ino } } else { Request::SetAttr { ino, set, handle } };
            (request, Shape::Attr)
        }
        Operation::Readlink => (Request::Readlink { ino }, Shape::Data),
        Operation::Statfs => (Request::Statfs { ino }, Shape::Statfs),
        Operation::Access(arg) => {
            (Request::Access { ino, mask: convert::access_mask(arg.mask) }, Shape::Done)
        }
        Operation::Statx(_) => (Request::GetAttr { ino }, Shape::Statx),
        Operation::SyncFs => (Request::SyncAll, Shape::Done),
        Operation::SetXattr { .. } | Operation::GetXattr { .. } | Operation::ListXattr(_) => {
            xattr(ino, &incoming.operation)?
        }
        Operation::RemoveXattr { name } => {
            (Request::RemoveXattr { ino, name: Name::attribute(name)? }, Shape::Done)
        }
        Operation::Release(arg) => {
            let request = Request::Release { ino, handle: Handle(arg.fh) };
            let flock = arg.release_flags & RELEASE_FLOCK_UNLOCK != 0;
            let (owner, kind) = (arg.lock_owner, LockKind::Unlock);
            let before = flock.then_some(Request::Flock { ino, owner, kind, wait: false });
            return Ok(Ask { before, request, shape: Shape::Done });
        }
        ref tree @ (Operation::Symlink { .. }
        | Operation::Mknod { .. }
        | Operation::Mkdir { .. }
        | Operation::Unlink { .. }
        | Operation::Rmdir { .. }
        | Operation::Rename { .. }
        | Operation::Link { .. }
        | Operation::Create { .. }) => names(ino, tree)?,
        ref other => open_file(ino, other)?,
    };
    Ok(Ask { before: None, request, shape })
}

/// Requests that change names.
fn names(parent: Ino, operation: &Operation<'_>) -> Result<(Request<'static>, Shape), Errno> {
    Ok(match *operation {
        Operation::Symlink { name, target } => {
            (Request::Symlink { parent, name: Name::new(name)?, target: target.to_vec() }, Shape::Entry)
        }
        Operation::Mknod { arg, name } => {
            let name = Name::new(name)?;
            let (kind, mode) = (convert::mknod_kind(arg.mode)?, convert::permissions(arg.mode));
            let umask = convert::permissions(arg.umask);
            (Request::Mknod { parent, name, kind, mode, umask, rdev: arg.rdev }, Shape::Entry)
        }
        Operation::Mkdir { arg, name } => {
            let (mode, umask) = (convert::permissions(arg.mode), convert::permissions(arg.umask));
            (Request::Mkdir { parent, name: Name::new(name)?, mode, umask }, Shape::Entry)
        }
        Operation::Unlink { name } => (Request::Unlink { parent, name: Name::new(name)? }, Shape::Done),
        Operation::Rmdir { name } => (Request::Rmdir { parent, name: Name::new(name)? }, Shape::Done),
        Operation::Rename { arg, name, new_name, .. } => {
            let (name, new_name) = (Name::new(name)?, Name::new(new_name)?);
            let (new_parent, mode) = (Ino(arg.newdir), convert::rename_mode(arg.flags)?);
            (Request::Rename { parent, name, new_parent, new_name, mode }, Shape::Done)
        }
        Operation::Link { arg, name } => {
            (Request::Link { ino: Ino(arg.oldnodeid), parent, name: Name::new(name)? }, Shape::Entry)
        }
        Operation::Create { arg, name } => {
            let (mode, umask) = (convert::permissions(arg.mode), convert::permissions(arg.umask));
            let request = Request::Create { parent, name: Name::new(name)?, mode, umask, flags: arg.flags };
            (request, Shape::Created { flags: arg.flags })
        }
        _ => return Err(Errno::ENOSYS),
    })
}

fn xattr<'a>(ino: Ino, operation: &Operation<'a>) -> Result<(Request<'a>, Shape), Errno> {
    Ok(match *operation {
        Operation::SetXattr { arg, name, value } => {
            let name = Name::attribute(name)?;
            let mode = convert::xattr_mode(arg.flags)?;
            (Request::SetXattr { ino, name, value: value.to_vec(), mode }, Shape::Done)
        }
        Operation::GetXattr { arg, name } => {
            (Request::GetXattr { ino, name: Name::attribute(name)? }, Shape::Xattr { size: arg.size })
        }
        Operation::ListXattr(arg) => (Request::ListXattr { ino }, Shape::Xattr { size: arg.size }),
        _ => return Err(Errno::ENOSYS),
    })
}

fn read_dir(ino: Ino, arg: &ReadIn, plus: bool) -> (Request<'static>, Shape) {
    let (most, smallest) = if plus { (DIRENTS_PLUS, DIRENT_MIN.1) } else { (DIRENTS, DIRENT_MIN.0) };
    let max_entries = (arg.size / smallest).clamp(1, most);
    let request = Request::ReadDir { ino, handle: Handle(arg.fh), offset: arg.offset, max_entries, plus };
    (
        request,
        if plus {
            Shape::DirentsPlus { dir: ino, size: arg.size }
        } else {
            Shape::Dirents { size: arg.size }
        },
    )
}

fn lock(ino: Ino, arg: &LkIn, wait: bool) -> Result<Request<'static>, Errno> {
    let owner = arg.owner;
    if arg.lk_flags & LK_FLOCK != 0 {
        return Ok(Request::Flock { ino, owner, kind: convert::lock_kind(arg.lk.kind)?, wait });
    }
    Ok(Request::SetLock { ino, owner, lock: convert::range_lock(&arg.lk)?, wait })
}

/// Requests about something that is open.
fn open_file<'a>(ino: Ino, operation: &Operation<'a>) -> Result<(Request<'a>, Shape), Errno> {
    Ok(match *operation {
        Operation::Open(arg) => (Request::Open { ino, flags: arg.flags }, Shape::Opened { flags: arg.flags }),
        Operation::Read(arg) => {
            let request = Request::Read { ino, handle: Handle(arg.fh), offset: arg.offset, size: arg.size };
            (request, Shape::Data)
        }
        Operation::Write { arg, data } => {
            (Request::Write { ino, handle: Handle(arg.fh), offset: arg.offset, data }, Shape::Written)
        }
        Operation::Flush(arg) => {
            (Request::Flush { ino, handle: Handle(arg.fh), lock_owner: arg.lock_owner }, Shape::Done)
        }
        Operation::Fsync(arg) => (Request::Fsync { ino, handle: Handle(arg.fh) }, Shape::Done),
        Operation::OpenDir(_) => (Request::OpenDir { ino }, Shape::OpenedDir { ino }),
        Operation::ReadDir(arg) => read_dir(ino, &arg, false),
        Operation::ReadDirPlus(arg) => read_dir(ino, &arg, true),
        Operation::ReleaseDir(arg) => (Request::ReleaseDir { ino, handle: Handle(arg.fh) }, Shape::Done),
        Operation::FsyncDir(_) => (Request::FsyncDir { ino }, Shape::Done),
        Operation::GetLk(arg) => {
            let (owner, lock) = (arg.owner, convert::range_lock(&arg.lk)?);
            (Request::GetLock { ino, owner, lock }, Shape::Lock)
        }
        Operation::SetLk(arg) => (lock(ino, &arg, false)?, Shape::Done),
        Operation::SetLkW(arg) => (lock(ino, &arg, true)?, Shape::Done),
        Operation::Ioctl { arg, data } => {
            let wish = ioctl::wish(arg.cmd, data)?;
            let request = match wish {
                ioctl::Wish::Set(flags) => {
                    let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
                    Request::SetAttr { ino, set, handle: None }
                }
                _ => Request::GetAttr { ino },
            };
            (request, Shape::Ioctl { wish, size: arg.out_size })
        }
        Operation::Fallocate(arg) => {
            let mode = convert::fallocate_mode(arg.mode)?;
            let (handle, offset, len) = (Handle(arg.fh), arg.offset, arg.length);
            (Request::Fallocate { ino, handle, offset, len, mode }, Shape::Done)
        }
        Operation::Lseek(arg) => {
            let (offset, what) = convert::seek(arg.offset, arg.whence)?;
            (Request::Lseek { ino, handle: Handle(arg.fh), offset, what }, Shape::Offset)
        }
        Operation::CopyFileRange(arg) => (copy(ino, &arg)?, Shape::Written),
        Operation::CopyFileRange64(arg) => (copy(ino, &arg)?, Shape::Copied64),
        _ => return Err(Errno::ENOSYS),
    })
}

fn copy(from: Ino, arg: &crate::abi::CopyFileRangeIn) -> Result<Request<'static>, Errno> {
    if arg.flags != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Request::CopyRange {
        from,
        from_handle: Handle(arg.fh_in),
        from_offset: arg.off_in,
        to: Ino(arg.nodeid_out),
        to_handle: Handle(arg.fh_out),
        to_offset: arg.off_out,
        len: arg.len.min(COPY_MAX),
    })
}
