//! Every request of the kernel, one handler each: its words are translated and passed on.

use super::{About, Door, answer, capabilities, convert, guard, kernel_errno, xattr_gate};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request as Asker, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;
use zest_codec::ioctl;
use zest_types::request::{Request, SetAttr};
use zest_types::{Errno, Handle};

/// Entries that are asked for at once: what fits into the 32 KiB a process usually asks the kernel for.
const DIRENTS: u32 = 1024;
/// The same, with attributes.
const DIRENTS_PLUS: u32 = 256;
/// Bytes copied at once by copy_file_range(2): a number of whole chunks whose count fits the answer.
const COPY_MAX: u64 = (1 << 32) - (64 << 20);

fn handle(fh: FileHandle) -> Handle {
    Handle(fh.0)
}

impl Door {
    fn xattr_gate(&self, name: &OsStr, change: bool) -> Result<(), Errno> {
        xattr_gate(&self.options, self.vfs.shared().acl, name.as_bytes(), change)
    }
}

impl Filesystem for Door {
    fn init(&mut self, _: &Asker, config: &mut KernelConfig) -> io::Result<()> {
        let options = &self.options;
        capabilities::negotiate(config, options.shared, self.vfs.shared().acl, options.posix_locks);
        Ok(())
    }

    fn lookup(&self, asker: &Asker, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        guard("lookup", move || {
            let name = match convert::name(name) {
                Ok(name) => name,
                Err(errno) => return reply.error(kernel_errno("lookup", errno)),
            };
            let parent = self.root.inward(parent);
            let term = self.term_of(parent, &name);
            let request = Request::Lookup { parent, name };
            self.vfs.serve(&self.caller(asker), request, move |result| match result {
                Ok(response) => answer::entry("lookup", term)(reply, response),
                Err(Errno::ENOENT) => match term.nobody() {
                    Some(valid) => answer::nobody(reply, valid),
                    None => reply.error(kernel_errno("lookup", Errno::ENOENT)),
                },
                Err(errno) => reply.error(kernel_errno("lookup", errno)),
            });
        });
    }

    fn getattr(&self, asker: &Asker, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let ino = self.root.inward(ino);
        let term = self.term_about(About::Node(ino));
        self.ask("getattr", asker, Ok(Request::GetAttr { ino }), reply, answer::attr("getattr", term));
    }

    fn setattr(
        &self,
        asker: &Asker,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let ino = self.root.inward(ino);
        let set = SetAttr {
            mode: mode.map(convert::permissions),
            uid,
            gid,
            size,
            atime: atime.map(convert::set_time),
            mtime: mtime.map(convert::set_time),
            flags: None,
        };
        // What is left of a request whose other wishes we do not know.
        let request = if set == SetAttr::default() {
            Request::GetAttr { ino }
        } else {
            Request::SetAttr { ino, set, handle: fh.map(handle) }
        };
        self.ask("setattr", asker, Ok(request), reply, answer::attr("setattr", self.term()));
    }

    fn readlink(&self, asker: &Asker, ino: INodeNo, reply: ReplyData) {
        let request = Ok(Request::Readlink { ino: self.root.inward(ino) });
        self.ask("readlink", asker, request, reply, answer::data("readlink"));
    }

    fn mknod(
        &self,
        asker: &Asker,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let request = convert::name(name).and_then(|name| {
            Ok(Request::Mknod {
                parent: self.root.inward(parent),
                name,
                kind: convert::mknod_kind(mode)?,
                mode: convert::permissions(mode),
                umask: convert::permissions(umask),
                rdev,
            })
        });
        let term = self.term_for(self.root.inward(parent), name);
        self.ask("mknod", asker, request, reply, answer::entry("mknod", term));
    }

    fn mkdir(&self, asker: &Asker, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let request = convert::name(name).map(|name| Request::Mkdir {
            parent: self.root.inward(parent),
            name,
            mode: convert::permissions(mode),
            umask: convert::permissions(umask),
        });
        let term = self.term_for(self.root.inward(parent), name);
        self.ask("mkdir", asker, request, reply, answer::entry("mkdir", term));
    }

    fn unlink(&self, asker: &Asker, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request =
            convert::name(name).map(|name| Request::Unlink { parent: self.root.inward(parent), name });
        self.ask("unlink", asker, request, reply, answer::done("unlink"));
    }

    fn rmdir(&self, asker: &Asker, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request =
            convert::name(name).map(|name| Request::Rmdir { parent: self.root.inward(parent), name });
        self.ask("rmdir", asker, request, reply, answer::done("rmdir"));
    }

    fn symlink(&self, asker: &Asker, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes().to_vec();
        let request = convert::name(name).map(|name| Request::Symlink {
            parent: self.root.inward(parent),
            name,
            target,
        });
        let term = self.term_for(self.root.inward(parent), name);
        self.ask("symlink", asker, request, reply, answer::entry("symlink", term));
    }

    fn rename(
        &self,
        asker: &Asker,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let request = convert::name(name).and_then(|name| {
            Ok(Request::Rename {
                parent: self.root.inward(parent),
                name,
                new_parent: self.root.inward(new_parent),
                new_name: convert::name(new_name)?,
                mode: convert::rename_mode(flags)?,
            })
        });
        self.ask("rename", asker, request, reply, answer::done("rename"));
    }

    fn link(&self, asker: &Asker, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (ino, parent) = (self.root.inward(ino), self.root.inward(parent));
        let term = self.term_for(parent, name);
        let request = convert::name(name).map(|name| Request::Link { ino, parent, name });
        self.ask("link", asker, request, reply, answer::entry("link", term));
    }

    fn open(&self, asker: &Asker, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = convert::open_flags(flags);
        let request = Ok(Request::Open { ino: self.root.inward(ino), flags });
        self.ask("open", asker, request, reply, answer::opened("open", flags, self.options.posix_locks));
    }

    fn create(
        &self,
        asker: &Asker,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = flags.cast_unsigned();
        let request = convert::name(name).map(|name| Request::Create {
            parent: self.root.inward(parent),
            name,
            mode: convert::permissions(mode),
            umask: convert::permissions(umask),
            flags,
        });
        let term = self.term_for(self.root.inward(parent), name);
        let answer = answer::created("create", term, flags, self.options.posix_locks);
        self.ask("create", asker, request, reply, answer);
    }

    fn read(
        &self,
        asker: &Asker,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let request = Ok(Request::Read { ino: self.root.inward(ino), handle: handle(fh), offset, size });
        self.ask("read", asker, request, reply, answer::data("read"));
    }

    fn write(
        &self,
        asker: &Asker,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let request = Ok(Request::Write { ino: self.root.inward(ino), handle: handle(fh), offset, data });
        self.ask("write", asker, request, reply, answer::written("write"));
    }

    fn flush(&self, asker: &Asker, ino: INodeNo, fh: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let request =
            Ok(Request::Flush { ino: self.root.inward(ino), handle: handle(fh), lock_owner: owner.0 });
        self.ask("flush", asker, request, reply, answer::done("flush"));
    }

    fn release(
        &self,
        asker: &Asker,
        ino: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let request = Ok(Request::Release { ino: self.root.inward(ino), handle: handle(fh) });
        self.ask("release", asker, request, reply, answer::done("release"));
    }

    fn fsync(&self, asker: &Asker, ino: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let request = Ok(Request::Fsync { ino: self.root.inward(ino), handle: handle(fh) });
        self.ask("fsync", asker, request, reply, answer::done("fsync"));
    }

    fn getlk(
        &self,
        asker: &Asker,
        ino: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let request = convert::lock(typ, start, end, pid).map(|lock| Request::GetLock {
            ino: self.root.inward(ino),
            owner: owner.0,
            lock,
        });
        self.ask("getlk", asker, request, reply, answer::lock("getlk"));
    }

    fn setlk(
        &self,
        asker: &Asker,
        ino: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let ino = self.root.inward(ino);
        let request = convert::lock(typ, start, end, pid).map(|lock| Request::SetLock {
            ino,
            owner: owner.0,
            lock,
            wait: sleep,
        });
        self.ask("setlk", asker, request, reply, answer::done("setlk"));
    }

    fn opendir(&self, asker: &Asker, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let ino = self.root.inward(ino);
        // The trash changes behind the kernel's back.
        let keep = self.options.dir_cache && !ino.is_trash();
        let request = Ok(Request::OpenDir { ino });
        self.ask("opendir", asker, request, reply, answer::opened_dir("opendir", keep));
    }

    fn readdir(&self, asker: &Asker, ino: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        let (ino, handle) = (self.root.inward(ino), handle(fh));
        let request = Ok(Request::ReadDir { ino, handle, offset, max_entries: DIRENTS, plus: false });
        self.ask("readdir", asker, request, reply, answer::entries("readdir", self.root));
    }

    fn readdirplus(
        &self,
        asker: &Asker,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let (ino, handle) = (self.root.inward(ino), handle(fh));
        let request = Ok(Request::ReadDir { ino, handle, offset, max_entries: DIRENTS_PLUS, plus: true });
        let answer = answer::entries_plus("readdirplus", self.term(), ino);
        self.ask("readdirplus", asker, request, reply, answer);
    }

    fn releasedir(&self, asker: &Asker, ino: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let request = Ok(Request::ReleaseDir { ino: self.root.inward(ino), handle: handle(fh) });
        self.ask("releasedir", asker, request, reply, answer::done("releasedir"));
    }

    fn fsyncdir(&self, asker: &Asker, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let request = Ok(Request::FsyncDir { ino: self.root.inward(ino) });
        self.ask("fsyncdir", asker, request, reply, answer::done("fsyncdir"));
    }

    fn statfs(&self, asker: &Asker, ino: INodeNo, reply: ReplyStatfs) {
        let request = Ok(Request::Statfs { ino: self.root.inward(ino) });
        self.ask("statfs", asker, request, reply, answer::statfs("statfs"));
    }

    fn setxattr(
        &self,
        asker: &Asker,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let request = self.xattr_gate(name, true).and_then(|()| {
            Ok(Request::SetXattr {
                ino: self.root.inward(ino),
                name: convert::attribute(name)?,
                value: value.to_vec(),
                mode: convert::xattr_mode(flags)?,
            })
        });
        self.ask("setxattr", asker, request, reply, answer::done("setxattr"));
    }

    fn getxattr(&self, asker: &Asker, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let request = self.xattr_gate(name, false).and_then(|()| {
            Ok(Request::GetXattr { ino: self.root.inward(ino), name: convert::attribute(name)? })
        });
        self.ask("getxattr", asker, request, reply, answer::xattr("getxattr", size));
    }

    fn listxattr(&self, asker: &Asker, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let request = self
            .xattr_gate(OsStr::new(""), false)
            .map(|()| Request::ListXattr { ino: self.root.inward(ino) });
        self.ask("listxattr", asker, request, reply, answer::xattr("listxattr", size));
    }

    fn removexattr(&self, asker: &Asker, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let request = self.xattr_gate(name, true).and_then(|()| {
            Ok(Request::RemoveXattr { ino: self.root.inward(ino), name: convert::attribute(name)? })
        });
        self.ask("removexattr", asker, request, reply, answer::done("removexattr"));
    }

    fn access(&self, asker: &Asker, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let request = Ok(Request::Access { ino: self.root.inward(ino), mask: convert::access_mask(mask) });
        self.ask("access", asker, request, reply, answer::done("access"));
    }

    fn ioctl(
        &self,
        asker: &Asker,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        size: u32,
        reply: ReplyIoctl,
    ) {
        let ino = self.root.inward(ino);
        let wish = match ioctl::wish(command, data) {
            Ok(wish) => wish,
            Err(errno) => return reply.error(kernel_errno("ioctl", errno)),
        };
        let request = match wish {
            ioctl::Wish::Set(flags) => {
                let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
                Request::SetAttr { ino, set, handle: None }
            }
            _ => Request::GetAttr { ino },
        };
        self.ask("ioctl", asker, Ok(request), reply, answer::flags("ioctl", wish, size));
    }

    fn fallocate(
        &self,
        asker: &Asker,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (ino, handle) = (self.root.inward(ino), handle(fh));
        let request =
            convert::fallocate_mode(mode).map(|mode| Request::Fallocate { ino, handle, offset, len, mode });
        self.ask("fallocate", asker, request, reply, answer::done("fallocate"));
    }

    fn lseek(
        &self,
        asker: &Asker,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let (ino, handle) = (self.root.inward(ino), handle(fh));
        let request =
            convert::seek(offset, whence).map(|(offset, what)| Request::Lseek { ino, handle, offset, what });
        self.ask("lseek", asker, request, reply, answer::offset("lseek"));
    }

    fn copy_file_range(
        &self,
        asker: &Asker,
        from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        len: u64,
        flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copy = Request::CopyRange {
            from: self.root.inward(from),
            from_handle: handle(from_handle),
            from_offset,
            to: self.root.inward(to),
            to_handle: handle(to_handle),
            to_offset,
            len: len.min(COPY_MAX),
        };
        let request = if flags.is_empty() { Ok(copy) } else { Err(Errno::EINVAL) };
        self.ask("copy_file_range", asker, request, reply, answer::written("copy_file_range"));
    }
}
