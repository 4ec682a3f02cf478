//! A FUSE server that does nothing: one file of 1 GiB in its memory, read in the thread that took the request,
//! with the threads and the agreements of our own door. What the kernel and `fuser` cost, and so the yardstick
//! for cached reads. `nothing MOUNTPOINT` serves `MOUNTPOINT/data` until it is unmounted.
// A yardstick is outside of everything that decides.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request, SessionACL,
};
use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use zest_fuse::door::capabilities;

/// Bytes of the file.
const SIZE: usize = 1 << 30;
/// The file.
const FILE: INodeNo = INodeNo(2);
/// How long the kernel may believe everything.
const TTL: Duration = Duration::from_secs(3600);

struct Nothing {
    data: Vec<u8>,
}

fn attr(ino: INodeNo) -> FileAttr {
    let file = ino == FILE;
    let size = if file { SIZE as u64 } else { 4096 };
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino,
        size,
        blocks: size / 512,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: if file { FileType::RegularFile } else { FileType::Directory },
        perm: if file { 0o644 } else { 0o755 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 65_536,
        flags: 0,
    }
}

impl Filesystem for Nothing {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        capabilities::negotiate(config, false, false, false);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("data") => reply.entry(&TTL, &attr(FILE), Generation(1)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attr(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let direct = flags.0 & libc::O_DIRECT != 0;
        let flags = if direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        reply.opened(FileHandle(1), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let from = usize::try_from(offset).unwrap_or(SIZE).min(SIZE);
        let to = from.saturating_add(size as usize).min(SIZE);
        reply.data(self.data.get(from..to).unwrap_or_default());
    }
}

fn main() -> ExitCode {
    let Some(point) = std::env::args_os().nth(1) else {
        eprintln!("usage: nothing MOUNTPOINT");
        return ExitCode::FAILURE;
    };
    let mut config = Config::default();
    capabilities::threads(&mut config);
    config.acl = SessionACL::All;
    config.mount_options = vec![MountOption::FSName("nothing".into()), MountOption::DefaultPermissions];
    // Written, so that the pages are there.
    let data = vec![0x5a; SIZE];
    match fuser::mount(Nothing { data }, &point, &config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nothing: {}: {error}", point.display());
            ExitCode::FAILURE
        }
    }
}
