//! Any request out of loose parts, always well-formed: what generators of tests and fuzzers start from.

use crate::abi::{ForgetOne, InitIn, RemovemappingOne, Rename2In, SetxattrExtIn};
use crate::decode::Dialect;
use crate::opcode::Opcode;
use crate::operation::{Forgets, Operation};
use zerocopy::{FromBytes, IntoBytes};

/// A struct out of what there is, filled up with zeros.
fn part<T: FromBytes + IntoBytes>(bytes: &[u8]) -> T {
    let mut value = T::new_zeroed();
    let place = value.as_mut_bytes();
    let len = place.len().min(bytes.len());
    if let (Some(place), Some(bytes)) = (place.get_mut(..len), bytes.get(..len)) {
        place.copy_from_slice(bytes);
    }
    value
}

fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn len(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// As much of the bytes as whole structs of this size need.
fn whole(bytes: &[u8], size: usize) -> &[u8] {
    bytes.get(..bytes.len() / size * size).unwrap_or_default()
}

/// A request with this fixed part; `first` and `second` are names or payload where it has such. What says how long
/// they are is made to fit.
#[must_use]
pub fn sample<'a>(
    opcode: Opcode,
    fixed: &[u8],
    first: &'a [u8],
    second: &'a [u8],
    dialect: Dialect,
) -> Operation<'a> {
    match opcode {
        Opcode::Lookup => Operation::Lookup { name: name(first) },
        Opcode::Unlink => Operation::Unlink { name: name(first) },
        Opcode::Rmdir => Operation::Rmdir { name: name(first) },
        Opcode::RemoveXattr => Operation::RemoveXattr { name: name(first) },
        Opcode::Symlink => Operation::Symlink { name: name(first), target: name(second) },
        Opcode::Mknod => Operation::Mknod { arg: part(fixed), name: name(first) },
        Opcode::Mkdir => Operation::Mkdir { arg: part(fixed), name: name(first) },
        Opcode::Link => Operation::Link { arg: part(fixed), name: name(first) },
        Opcode::Create => Operation::Create { arg: part(fixed), name: name(first) },
        Opcode::TmpFile => Operation::TmpFile { arg: part(fixed), name: name(first) },
        Opcode::GetXattr => Operation::GetXattr { arg: part(fixed), name: name(first) },
        Opcode::Rename => {
            let Rename2In { newdir, .. } = part(fixed);
            let arg = Rename2In { newdir, ..Rename2In::default() };
            Operation::Rename { arg, name: name(first), new_name: name(second), with_flags: false }
        }
        Opcode::Rename2 => Operation::Rename {
            arg: part(fixed),
            name: name(first),
            new_name: name(second),
            with_flags: true,
        },
        Opcode::SetXattr => {
            let mut arg = SetxattrExtIn { size: len(second), ..part(fixed) };
            if !dialect.setxattr_ext {
                (arg.setxattr_flags, arg.padding) = (0, 0);
            }
            Operation::SetXattr { arg, name: name(first), value: second }
        }
        Opcode::Write => {
            let mut arg: crate::abi::WriteIn = part(fixed);
            arg.size = len(first);
            Operation::Write { arg, data: first }
        }
        Opcode::Ioctl => {
            let mut arg: crate::abi::IoctlIn = part(fixed);
            arg.in_size = len(first);
            Operation::Ioctl { arg, data: first }
        }
        Opcode::NotifyReply => {
            let mut arg: crate::abi::RetrieveIn = part(fixed);
            arg.size = len(first);
            Operation::NotifyReply { arg, data: first }
        }
        Opcode::RemoveMapping => {
            let ranges = whole(first, size_of::<RemovemappingOne>());
            let mut arg: crate::abi::RemovemappingIn = part(fixed);
            arg.count = len(ranges) / size_of::<RemovemappingOne>() as u32;
            Operation::RemoveMapping { arg, ranges }
        }
        Opcode::BatchForget => Operation::BatchForget(Forgets(whole(first, size_of::<ForgetOne>()))),
        Opcode::Init => Operation::Init(init(fixed)),
        other => one_struct(other, fixed),
    }
}

/// What a kernel before 7.36 can't say is not said.
fn init(fixed: &[u8]) -> InitIn {
    let arg: InitIn = part(fixed);
    if arg.minor >= 36 {
        return arg;
    }
    let InitIn { major, minor, max_readahead, flags, .. } = arg;
    InitIn { major, minor, max_readahead, flags, ..InitIn::default() }
}

fn one_struct(opcode: Opcode, fixed: &[u8]) -> Operation<'static> {
    match opcode {
        Opcode::Forget => Operation::Forget(part(fixed)),
        Opcode::GetAttr => Operation::GetAttr(part(fixed)),
        Opcode::SetAttr => Operation::SetAttr(part(fixed)),
        Opcode::Readlink => Operation::Readlink,
        Opcode::Open => Operation::Open(part(fixed)),
        Opcode::Read => Operation::Read(part(fixed)),
        Opcode::Statfs => Operation::Statfs,
        Opcode::Release => Operation::Release(part(fixed)),
        Opcode::Fsync => Operation::Fsync(part(fixed)),
        Opcode::ListXattr => Operation::ListXattr(part(fixed)),
        Opcode::Flush => Operation::Flush(part(fixed)),
        Opcode::OpenDir => Operation::OpenDir(part(fixed)),
        Opcode::ReadDir => Operation::ReadDir(part(fixed)),
        Opcode::ReleaseDir => Operation::ReleaseDir(part(fixed)),
        Opcode::FsyncDir => Operation::FsyncDir(part(fixed)),
        Opcode::GetLk => Operation::GetLk(part(fixed)),
        Opcode::SetLk => Operation::SetLk(part(fixed)),
        Opcode::SetLkW => Operation::SetLkW(part(fixed)),
        Opcode::Access => Operation::Access(part(fixed)),
        Opcode::Interrupt => Operation::Interrupt(part(fixed)),
        Opcode::Bmap => Operation::Bmap(part(fixed)),
        Opcode::Poll => Operation::Poll(part(fixed)),
        Opcode::Fallocate => Operation::Fallocate(part(fixed)),
        Opcode::ReadDirPlus => Operation::ReadDirPlus(part(fixed)),
        Opcode::Lseek => Operation::Lseek(part(fixed)),
        Opcode::CopyFileRange => Operation::CopyFileRange(part(fixed)),
        Opcode::CopyFileRange64 => Operation::CopyFileRange64(part(fixed)),
        Opcode::SetupMapping => Operation::SetupMapping(part(fixed)),
        Opcode::SyncFs => Operation::SyncFs,
        Opcode::Statx => Operation::Statx(part(fixed)),
        _ => Operation::Destroy,
    }
}
