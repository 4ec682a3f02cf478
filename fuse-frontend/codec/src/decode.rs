//! Bytes of the kernel to a request. Exact: too short is refused, and so is too long, since both sides agreed on a
//! version and so on every length.

use crate::abi::{
    BatchForgetIn, ExtHeader, ForgetOne, InHeader, InitIn, InitInOld, IoctlIn, RemovemappingIn,
    RemovemappingOne, Rename2In, RenameIn, RetrieveIn, SetxattrExtIn, SetxattrIn, SyncfsIn, WriteIn,
};
use crate::opcode::Opcode;
use crate::operation::{Forgets, Operation};
use crate::read::Rest;
use zest_types::Errno;

/// What was agreed on at INIT and changes how bytes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// The longer struct of setxattr.
    pub setxattr_ext: bool,
}

/// A request that was taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<'a> {
    /// What every request has.
    pub header: InHeader,
    /// What it asks for.
    pub operation: Operation<'a>,
    /// Extensions behind it, unread: none of them is agreed on.
    pub extensions: &'a [u8],
}

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is not even a header, so nobody can be answered.
    NoHeader,
    /// Refuse it with this error.
    Refused {
        /// The number to answer to.
        unique: u64,
        /// The number of the request.
        opcode: u32,
        /// `ENOSYS` for what nobody here knows, `EINVAL` for lengths that can't be.
        errno: Errno,
    },
}

/// Takes a request apart.
pub fn decode(bytes: &[u8], dialect: Dialect) -> Result<Incoming<'_>, Fault> {
    let mut rest = Rest(bytes);
    let header: InHeader = rest.take().ok_or(Fault::NoHeader)?;
    let fault = |errno| Fault::Refused { unique: header.unique, opcode: header.opcode, errno };
    let opcode = Opcode::of(header.opcode).ok_or(fault(Errno::ENOSYS))?;
    if usize::try_from(header.len) != Ok(bytes.len()) {
        return Err(fault(Errno::EINVAL));
    }
    let behind = usize::from(header.total_extlen) * 8;
    let body = rest.0.len().checked_sub(behind).ok_or(fault(Errno::EINVAL))?;
    let (body, extensions) = rest.0.split_at_checked(body).ok_or(fault(Errno::EINVAL))?;
    let operation = operation(opcode, Rest(body), dialect).ok_or(fault(Errno::EINVAL))?;
    check_extensions(extensions).ok_or(fault(Errno::EINVAL))?;
    Ok(Incoming { header, operation, extensions })
}

/// Each extension says how long it is; together they are all there is.
fn check_extensions(bytes: &[u8]) -> Option<()> {
    let mut rest = Rest(bytes);
    while !rest.0.is_empty() {
        let header: ExtHeader = rest.take()?;
        let body = header.size.checked_sub(u32::try_from(size_of::<ExtHeader>()).ok()?)?;
        rest.bytes(body)?;
    }
    Some(())
}

fn operation<'a>(opcode: Opcode, mut rest: Rest<'a>, dialect: Dialect) -> Option<Operation<'a>> {
    let operation = match opcode {
        Opcode::Lookup => Operation::Lookup { name: rest.name()? },
        Opcode::Forget => Operation::Forget(rest.take()?),
        Opcode::BatchForget => return batch_forget(rest),
        Opcode::GetAttr => Operation::GetAttr(rest.take()?),
        Opcode::SetAttr => Operation::SetAttr(rest.take()?),
        Opcode::Readlink => Operation::Readlink,
        Opcode::Symlink => Operation::Symlink { name: rest.name()?, target: rest.name()? },
        Opcode::Mknod => Operation::Mknod { arg: rest.take()?, name: rest.name()? },
        Opcode::Mkdir => Operation::Mkdir { arg: rest.take()?, name: rest.name()? },
        Opcode::Unlink => Operation::Unlink { name: rest.name()? },
        Opcode::Rmdir => Operation::Rmdir { name: rest.name()? },
        Opcode::Rename => {
            let RenameIn { newdir } = rest.take()?;
            let arg = Rename2In { newdir, ..Rename2In::default() };
            Operation::Rename { arg, name: rest.name()?, new_name: rest.name()?, with_flags: false }
        }
        Opcode::Rename2 => {
            let arg = rest.take()?;
            Operation::Rename { arg, name: rest.name()?, new_name: rest.name()?, with_flags: true }
        }
        Opcode::Link => Operation::Link { arg: rest.take()?, name: rest.name()? },
        Opcode::Create => Operation::Create { arg: rest.take()?, name: rest.name()? },
        Opcode::TmpFile => Operation::TmpFile { arg: rest.take()?, name: rest.name()? },
        Opcode::Init => return init(rest),
        Opcode::SetXattr => return setxattr(rest, dialect),
        Opcode::GetXattr => Operation::GetXattr { arg: rest.take()?, name: rest.name()? },
        Opcode::ListXattr => Operation::ListXattr(rest.take()?),
        Opcode::RemoveXattr => Operation::RemoveXattr { name: rest.name()? },
        Opcode::Interrupt => Operation::Interrupt(rest.take()?),
        Opcode::Destroy => Operation::Destroy,
        Opcode::Statfs => Operation::Statfs,
        Opcode::SyncFs => {
            let _: SyncfsIn = rest.take()?;
            Operation::SyncFs
        }
        Opcode::Access => Operation::Access(rest.take()?),
        Opcode::Statx => Operation::Statx(rest.take()?),
        other => open_file(other, &mut rest)?,
    };
    rest.end(operation)
}

/// Requests about something that is open.
fn open_file<'a>(opcode: Opcode, rest: &mut Rest<'a>) -> Option<Operation<'a>> {
    Some(match opcode {
        Opcode::Open => Operation::Open(rest.take()?),
        Opcode::Read => Operation::Read(rest.take()?),
        Opcode::Write => {
            let arg: WriteIn = rest.take()?;
            Operation::Write { arg, data: rest.bytes(arg.size)? }
        }
        Opcode::Release => Operation::Release(rest.take()?),
        Opcode::Fsync => Operation::Fsync(rest.take()?),
        Opcode::Flush => Operation::Flush(rest.take()?),
        Opcode::OpenDir => Operation::OpenDir(rest.take()?),
        Opcode::ReadDir => Operation::ReadDir(rest.take()?),
        Opcode::ReadDirPlus => Operation::ReadDirPlus(rest.take()?),
        Opcode::ReleaseDir => Operation::ReleaseDir(rest.take()?),
        Opcode::FsyncDir => Operation::FsyncDir(rest.take()?),
        Opcode::GetLk => Operation::GetLk(rest.take()?),
        Opcode::SetLk => Operation::SetLk(rest.take()?),
        Opcode::SetLkW => Operation::SetLkW(rest.take()?),
        Opcode::Bmap => Operation::Bmap(rest.take()?),
        Opcode::Ioctl => {
            let arg: IoctlIn = rest.take()?;
            Operation::Ioctl { arg, data: rest.bytes(arg.in_size)? }
        }
        Opcode::Poll => Operation::Poll(rest.take()?),
        Opcode::NotifyReply => {
            let arg: RetrieveIn = rest.take()?;
            Operation::NotifyReply { arg, data: rest.bytes(arg.size)? }
        }
        Opcode::Fallocate => Operation::Fallocate(rest.take()?),
        Opcode::Lseek => Operation::Lseek(rest.take()?),
        Opcode::CopyFileRange => Operation::CopyFileRange(rest.take()?),
        Opcode::CopyFileRange64 => Operation::CopyFileRange64(rest.take()?),
        Opcode::SetupMapping => Operation::SetupMapping(rest.take()?),
        Opcode::RemoveMapping => {
            let arg: RemovemappingIn = rest.take()?;
            let len = arg.count.checked_mul(u32::try_from(size_of::<RemovemappingOne>()).ok()?)?;
            Operation::RemoveMapping { arg, ranges: rest.bytes(len)? }
        }
        _ => return None,
    })
}

fn batch_forget(mut rest: Rest<'_>) -> Option<Operation<'_>> {
    let arg: BatchForgetIn = rest.take()?;
    let len = arg.count.checked_mul(u32::try_from(size_of::<ForgetOne>()).ok()?)?;
    let all = rest.bytes(len)?;
    rest.end(Operation::BatchForget(Forgets(all)))
}

/// The struct grew in 7.36, and may grow again: before both sides agree on a version, the front of it counts.
fn init(mut rest: Rest<'_>) -> Option<Operation<'_>> {
    if rest.0.len() >= size_of::<InitIn>() {
        return Some(Operation::Init(rest.take()?));
    }
    let InitInOld { major, minor, max_readahead, flags } = rest.take()?;
    Some(Operation::Init(InitIn { major, minor, max_readahead, flags, ..InitIn::default() }))
}

fn setxattr(mut rest: Rest<'_>, dialect: Dialect) -> Option<Operation<'_>> {
    let arg: SetxattrExtIn = if dialect.setxattr_ext {
        rest.take()?
    } else {
        let SetxattrIn { size, flags } = rest.take()?;
        SetxattrExtIn { size, flags, ..SetxattrExtIn::default() }
    };
    let (name, value) = (rest.name()?, rest.bytes(arg.size)?);
    rest.end(Operation::SetXattr { arg, name, value })
}
