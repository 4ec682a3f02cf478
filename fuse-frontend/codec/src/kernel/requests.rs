//! Requests as the kernel writes them.

use crate::abi::{BatchForgetIn, InHeader, InitIn, InitInOld, RenameIn, SetxattrIn, SyncfsIn};
use crate::decode::Dialect;
use crate::operation::Operation;
use zerocopy::IntoBytes;

/// Who asks, about what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Origin {
    pub unique: u64,
    pub nodeid: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

/// A request as bytes.
#[must_use]
pub fn request(origin: &Origin, operation: &Operation<'_>, dialect: Dialect) -> Vec<u8> {
    let mut out = vec![0; size_of::<InHeader>()];
    body(&mut out, operation, dialect);
    let header = InHeader {
        len: u32::try_from(out.len()).unwrap_or(u32::MAX),
        opcode: operation.opcode().number(),
        unique: origin.unique,
        nodeid: origin.nodeid,
        uid: origin.uid,
        gid: origin.gid,
        pid: origin.pid,
        ..InHeader::default()
    };
    out.splice(..size_of::<InHeader>(), header.as_bytes().iter().copied());
    out
}

fn name(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(name);
    out.push(0);
}

fn body(out: &mut Vec<u8>, operation: &Operation<'_>, dialect: Dialect) {
    match operation {
        Operation::Readlink | Operation::Statfs | Operation::Destroy => {}
        Operation::SyncFs => out.extend_from_slice(SyncfsIn::default().as_bytes()),
        Operation::Lookup { name: it }
        | Operation::Unlink { name: it }
        | Operation::Rmdir { name: it }
        | Operation::RemoveXattr { name: it } => name(out, it),
        Operation::Symlink { name: it, target } => {
            name(out, it);
            name(out, target);
        }
        Operation::Mknod { arg, name: it } => with_name(out, arg.as_bytes(), it),
        Operation::Mkdir { arg, name: it } => with_name(out, arg.as_bytes(), it),
        Operation::Link { arg, name: it } => with_name(out, arg.as_bytes(), it),
        Operation::Create { arg, name: it } | Operation::TmpFile { arg, name: it } => {
            with_name(out, arg.as_bytes(), it);
        }
        Operation::GetXattr { arg, name: it } => with_name(out, arg.as_bytes(), it),
        Operation::Rename { arg, name: it, new_name, with_flags } => {
            let short = RenameIn { newdir: arg.newdir };
            with_name(out, if *with_flags { arg.as_bytes() } else { short.as_bytes() }, it);
            name(out, new_name);
        }
        Operation::SetXattr { arg, name: it, value } => {
            let short = SetxattrIn { size: arg.size, flags: arg.flags };
            with_name(out, if dialect.setxattr_ext { arg.as_bytes() } else { short.as_bytes() }, it);
            out.extend_from_slice(value);
        }
        Operation::Write { arg, data } => with_data(out, arg.as_bytes(), data),
        Operation::Ioctl { arg, data } => with_data(out, arg.as_bytes(), data),
        Operation::NotifyReply { arg, data } => with_data(out, arg.as_bytes(), data),
        Operation::RemoveMapping { arg, ranges } => with_data(out, arg.as_bytes(), ranges),
        Operation::BatchForget(all) => {
            let count = u32::try_from(all.count()).unwrap_or(u32::MAX);
            with_data(out, BatchForgetIn { count, dummy: 0 }.as_bytes(), all.0);
        }
        Operation::Init(arg) => out.extend_from_slice(&init(arg)),
        other => out.extend_from_slice(fixed(other)),
    }
}

fn with_name(out: &mut Vec<u8>, arg: &[u8], it: &[u8]) {
    out.extend_from_slice(arg);
    name(out, it);
}

fn with_data(out: &mut Vec<u8>, arg: &[u8], data: &[u8]) {
    out.extend_from_slice(arg);
    out.extend_from_slice(data);
}

/// Kernels before 7.36 send the shorter struct.
fn init(arg: &InitIn) -> Vec<u8> {
    let InitIn { major, minor, max_readahead, flags, .. } = *arg;
    match minor {
        ..36 => InitInOld { major, minor, max_readahead, flags }.as_bytes().to_vec(),
        _ => arg.as_bytes().to_vec(),
    }
}

/// Requests that are one struct.
fn fixed<'a>(operation: &'a Operation<'_>) -> &'a [u8] {
    match operation {
        Operation::Forget(arg) => arg.as_bytes(),
        Operation::GetAttr(arg) => arg.as_bytes(),
        Operation::SetAttr(arg) => arg.as_bytes(),
        Operation::Open(arg) | Operation::OpenDir(arg) => arg.as_bytes(),
        Operation::Read(arg) | Operation::ReadDir(arg) | Operation::ReadDirPlus(arg) => arg.as_bytes(),
        Operation::Release(arg) | Operation::ReleaseDir(arg) => arg.as_bytes(),
        Operation::Fsync(arg) | Operation::FsyncDir(arg) => arg.as_bytes(),
        Operation::ListXattr(arg) => arg.as_bytes(),
        Operation::Flush(arg) => arg.as_bytes(),
        Operation::GetLk(arg) | Operation::SetLk(arg) | Operation::SetLkW(arg) => arg.as_bytes(),
        Operation::Access(arg) => arg.as_bytes(),
        Operation::Interrupt(arg) => arg.as_bytes(),
        Operation::Bmap(arg) => arg.as_bytes(),
        Operation::Poll(arg) => arg.as_bytes(),
        Operation::Fallocate(arg) => arg.as_bytes(),
        Operation::Lseek(arg) => arg.as_bytes(),
        Operation::CopyFileRange(arg) | Operation::CopyFileRange64(arg) => arg.as_bytes(),
        Operation::SetupMapping(arg) => arg.as_bytes(),
        Operation::Statx(arg) => arg.as_bytes(),
        _ => &[],
    }
}
