//! A request of the kernel, taken apart: the struct it begins with, names and payload still in the bytes they came in.

use crate::abi::{
    AccessIn, BmapIn, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetIn, ForgetOne, FsyncIn,
    GetattrIn, GetxattrIn, InitIn, InterruptIn, IoctlIn, LinkIn, LkIn, LseekIn, MkdirIn, MknodIn, OpenIn,
    PollIn, ReadIn, ReleaseIn, RemovemappingIn, Rename2In, RetrieveIn, SetattrIn, SetupmappingIn,
    SetxattrExtIn, StatxIn, WriteIn,
};
use crate::opcode::Opcode;
use zerocopy::FromBytes;

/// Nodes the kernel lets go of; the length was checked when they were decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(pub(crate) &'a [u8]);

impl<'a> Forgets<'a> {
    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = ForgetOne> + 'a {
        self.0.chunks_exact(size_of::<ForgetOne>()).filter_map(|bytes| ForgetOne::read_from_bytes(bytes).ok())
    }

    /// How many.
    #[must_use]
    pub fn count(self) -> usize {
        self.0.len() / size_of::<ForgetOne>()
    }
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget(ForgetIn),
    GetAttr(GetattrIn),
    SetAttr(SetattrIn),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        arg: MknodIn,
        name: &'a [u8],
    },
    Mkdir {
        arg: MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    /// Without flags: `Rename`, else `Rename2`.
    Rename {
        arg: Rename2In,
        name: &'a [u8],
        new_name: &'a [u8],
        with_flags: bool,
    },
    Link {
        arg: LinkIn,
        name: &'a [u8],
    },
    Open(OpenIn),
    Read(ReadIn),
    Write {
        arg: WriteIn,
        data: &'a [u8],
    },
    Statfs,
    Release(ReleaseIn),
    Fsync(FsyncIn),
    /// The longer struct; its further fields are 0 where the shorter one was agreed on.
    SetXattr {
        arg: SetxattrExtIn,
        name: &'a [u8],
        value: &'a [u8],
    },
    GetXattr {
        arg: GetxattrIn,
        name: &'a [u8],
    },
    ListXattr(GetxattrIn),
    RemoveXattr {
        name: &'a [u8],
    },
    Flush(FlushIn),
    Init(InitIn),
    OpenDir(OpenIn),
    ReadDir(ReadIn),
    ReleaseDir(ReleaseIn),
    FsyncDir(FsyncIn),
    GetLk(LkIn),
    SetLk(LkIn),
    SetLkW(LkIn),
    Access(AccessIn),
    Create {
        arg: CreateIn,
        name: &'a [u8],
    },
    Interrupt(InterruptIn),
    Bmap(BmapIn),
    Destroy,
    Ioctl {
        arg: IoctlIn,
        data: &'a [u8],
    },
    Poll(PollIn),
    NotifyReply {
        arg: RetrieveIn,
        data: &'a [u8],
    },
    BatchForget(Forgets<'a>),
    Fallocate(FallocateIn),
    ReadDirPlus(ReadIn),
    Lseek(LseekIn),
    CopyFileRange(CopyFileRangeIn),
    SetupMapping(SetupmappingIn),
    RemoveMapping {
        arg: RemovemappingIn,
        ranges: &'a [u8],
    },
    SyncFs,
    TmpFile {
        arg: CreateIn,
        name: &'a [u8],
    },
    Statx(StatxIn),
    CopyFileRange64(CopyFileRangeIn),
}

impl Operation<'_> {
    /// Which request it is.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        match self {
            Operation::Lookup { .. } => Opcode::Lookup,
            Operation::Forget(_) => Opcode::Forget,
            Operation::GetAttr(_) => Opcode::GetAttr,
            Operation::SetAttr(_) => Opcode::SetAttr,
            Operation::Readlink => Opcode::Readlink,
            Operation::Symlink { .. } => Opcode::Symlink,
            Operation::Mknod { .. } => Opcode::Mknod,
            Operation::Mkdir { .. } => Opcode::Mkdir,
            Operation::Unlink { .. } => Opcode::Unlink,
            Operation::Rmdir { .. } => Opcode::Rmdir,
            Operation::Rename { with_flags: false, .. } => Opcode::Rename,
            Operation::Rename { .. } => Opcode::Rename2,
            Operation::Link { .. } => Opcode::Link,
            Operation::Open(_) => Opcode::Open,
            Operation::Read(_) => Opcode::Read,
            Operation::Write { .. } => Opcode::Write,
            Operation::Statfs => Opcode::Statfs,
            Operation::Release(_) => Opcode::Release,
            Operation::Fsync(_) => Opcode::Fsync,
            Operation::SetXattr { .. } => Opcode::SetXattr,
            Operation::GetXattr { .. } => Opcode::GetXattr,
            Operation::ListXattr(_) => Opcode::ListXattr,
            Operation::RemoveXattr { .. } => Opcode::RemoveXattr,
            Operation::Flush(_) => Opcode::Flush,
            Operation::Init(_) => Opcode::Init,
            other => other.later_opcode(),
        }
    }

    fn later_opcode(&self) -> Opcode {
        match self {
            Operation::OpenDir(_) => Opcode::OpenDir,
            Operation::ReadDir(_) => Opcode::ReadDir,
            Operation::ReleaseDir(_) => Opcode::ReleaseDir,
            Operation::FsyncDir(_) => Opcode::FsyncDir,
            Operation::GetLk(_) => Opcode::GetLk,
            Operation::SetLk(_) => Opcode::SetLk,
            Operation::SetLkW(_) => Opcode::SetLkW,
            Operation::Access(_) => Opcode::Access,
            Operation::Create { .. } => Opcode::Create,
            Operation::Interrupt(_) => Opcode::Interrupt,
            Operation::Bmap(_) => Opcode::Bmap,
            Operation::Ioctl { .. } => Opcode::Ioctl,
            Operation::Poll(_) => Opcode::Poll,
            Operation::NotifyReply { .. } => Opcode::NotifyReply,
            Operation::BatchForget(_) => Opcode::BatchForget,
            Operation::Fallocate(_) => Opcode::Fallocate,
            Operation::ReadDirPlus(_) => Opcode::ReadDirPlus,
            Operation::Lseek(_) => Opcode::Lseek,
            Operation::CopyFileRange(_) => Opcode::CopyFileRange,
            Operation::SetupMapping(_) => Opcode::SetupMapping,
            Operation::RemoveMapping { .. } => Opcode::RemoveMapping,
            Operation::SyncFs => Opcode::SyncFs,
            Operation::TmpFile { .. } => Opcode::TmpFile,
            Operation::Statx(_) => Opcode::Statx,
            Operation::CopyFileRange64(_) => Opcode::CopyFileRange64,
            _ => Opcode::Destroy,
        }
    }
}
