//! How each kind of answer is told to the kernel.

use super::convert::{self, Root};
use super::misfit;
use super::term::Term;
use fuser::{
    Errno, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use zest_codec::ioctl;
use zest_types::request::{Dirent, Statfs};
use zest_types::{Attr, Ino, Name, Response, Time, limits};

/// Inode numbers are never used twice, so one generation is enough.
const GENERATION: Generation = Generation(1);
/// Bytes of a block in statfs.
const STATFS_BLOCK: u64 = 4096;

/// A reply that can be an error.
pub(super) trait Refuse: Send + 'static {
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ident),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyIoctl,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

pub(super) fn done(what: &'static str) -> impl FnOnce(ReplyEmpty, Response) + Send {
    move |reply, response| match response {
        Response::Done => reply.ok(),
        other => reply.error(misfit(what, &other)),
    }
}

pub(super) fn entry(what: &'static str, term: Term) -> impl FnOnce(ReplyEntry, Response) + Send {
    move |reply, response| match response {
        Response::Entry { ino, attr } => {
            let (name, node) = term.valid(ino, &attr);
            reply.entry_with_ttls(&node, &name, &convert::attr(term.root.outward(ino), &attr), GENERATION);
        }
        other => reply.error(misfit(what, &other)),
    }
}

/// Nobody has this name, and the kernel may believe it for a while: node 0.
pub(super) fn nobody(reply: ReplyEntry, valid: Duration) {
    let none = Attr::new(zest_types::FileType::File, 0, 0, 0, Ino(0), Time::default());
    reply.entry_with_ttls(&Duration::ZERO, &valid, &convert::attr(INodeNo(0), &none), GENERATION);
}

pub(super) fn attr(what: &'static str, term: Term) -> impl FnOnce(ReplyAttr, Response) + Send {
    move |reply, response| match response {
        Response::Attr { ino, attr } => {
            let valid = term.valid(ino, &attr).1;
            reply.attr(&valid, &convert::attr(term.root.outward(ino), &attr));
        }
        other => reply.error(misfit(what, &other)),
    }
}

/// The lock that is in the way, or that none is.
pub(super) fn lock(what: &'static str) -> impl FnOnce(ReplyLock, Response) + Send {
    move |reply, response| match response {
        Response::Lock(Some(lock)) => {
            reply.locked(lock.start, lock.end, convert::lock_type(lock.kind), lock.pid)
        }
        Response::Lock(None) => reply.locked(0, 0, libc::F_UNLCK, 0),
        other => reply.error(misfit(what, &other)),
    }
}

/// With `locks` each close must be heard of.
pub(super) fn opened(what: &'static str, flags: u32, locks: bool) -> impl FnOnce(ReplyOpen, Response) + Send {
    move |reply, response| match response {
        Response::Opened { handle, keep_cache } => {
            reply.opened(FileHandle(handle.0), convert::reply_flags(flags, keep_cache, locks));
        }
        other => reply.error(misfit(what, &other)),
    }
}

/// With `keep` the kernel may list the directory by itself until it changes something in it.
pub(super) fn opened_dir(what: &'static str, keep: bool) -> impl FnOnce(ReplyOpen, Response) + Send {
    move |reply, response| match response {
        Response::Opened { handle, .. } => {
            let kept = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
            reply.opened(FileHandle(handle.0), if keep { kept } else { FopenFlags::empty() });
        }
        other => reply.error(misfit(what, &other)),
    }
}

pub(super) fn created(
    what: &'static str,
    term: Term,
    flags: u32,
    locks: bool,
) -> impl FnOnce(ReplyCreate, Response) + Send {
    move |reply, response| match response {
        Response::Created { ino, attr, handle } => {
            // One time for both, so the shorter one.
            let (name, node) = term.valid(ino, &attr);
            let valid = name.min(node);
            let flags = convert::reply_flags(flags, false, locks);
            let told = convert::attr(term.root.outward(ino), &attr);
            reply.created(&valid, &told, GENERATION, FileHandle(handle.0), flags);
        }
        other => reply.error(misfit(what, &other)),
    }
}

thread_local! {
    /// Where pieces of an answer are put together; kept, because fresh memory of this size costs page faults.
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn data(what: &'static str) -> impl FnOnce(ReplyData, Response) + Send {
    move |reply, response| match response {
        Response::Data(pieces) => match pieces.as_slice() {
            [] => reply.data(&[]),
            [one] => reply.data(one),
            // `fuser` takes one slice only.
            many => JOINED.with_borrow_mut(|joined| {
                joined.clear();
                many.iter().for_each(|piece| joined.extend_from_slice(piece));
                reply.data(joined);
                joined.shrink_to(limits::MAX_IO as usize);
            }),
        },
        Response::Target(target) => reply.data(&target),
        other => reply.error(misfit(what, &other)),
    }
}

pub(super) fn written(what: &'static str) -> impl FnOnce(ReplyWrite, Response) + Send {
    move |reply, response| match response {
        Response::Written(bytes) => reply.written(bytes),
        // The request was cut so that this fits.
        Response::Copied(bytes) => reply.written(u32::try_from(bytes).unwrap_or(u32::MAX)),
        other => reply.error(misfit(what, &other)),
    }
}

pub(super) fn offset(what: &'static str) -> impl FnOnce(ReplyLseek, Response) + Send {
    move |reply, response| match response {
        Response::Offset(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
        other => reply.error(misfit(what, &other)),
    }
}

fn os(name: &Name) -> &OsStr {
    OsStr::from_bytes(name.as_bytes())
}

pub(super) fn entries(what: &'static str, root: Root) -> impl FnOnce(ReplyDirectory, Response) + Send {
    move |mut reply, response| match response {
        Response::Dirents(entries) => {
            for entry in &entries {
                let (ino, kind) = (root.outward(entry.ino), convert::kind(entry.kind));
                let full = reply.add(ino, entry.cookie, kind, os(&entry.name));
                if full {
                    break;
                }
            }
            reply.ok();
        }
        other => reply.error(misfit(what, &other)),
    }
}

/// Attributes and how long they hold. `fuser` can't send an entry without any: what is not known is filled in, and
/// like what is only guessed holds for no time at all.
fn plus(entry: &Dirent, term: &Term, dir: Ino) -> (Attr, Duration) {
    match &entry.attr {
        Some(attr) if entry.holds => {
            let (name, node) = term.valid_as(Some((dir, &entry.name)), entry.ino, attr);
            (attr.clone(), name.min(node))
        }
        Some(attr) => (attr.clone(), Duration::ZERO),
        None => (Attr::new(entry.kind, 0, 0, 0, Ino(0), Time::default()), Duration::ZERO),
    }
}

pub(super) fn entries_plus(
    what: &'static str,
    term: Term,
    dir: Ino,
) -> impl FnOnce(ReplyDirectoryPlus, Response) + Send {
    move |mut reply, response| match response {
        Response::Dirents(entries) => {
            for entry in &entries {
                let (attr, valid) = plus(entry, &term, dir);
                let told = convert::attr(term.root.outward(entry.ino), &attr);
                if reply.add(told.ino, entry.cookie, os(&entry.name), &valid, &told, GENERATION) {
                    break;
                }
            }
            reply.ok();
        }
        other => reply.error(misfit(what, &other)),
    }
}

pub(super) fn flags(
    what: &'static str,
    wish: ioctl::Wish,
    size: u32,
) -> impl FnOnce(ReplyIoctl, Response) + Send {
    move |reply, response| match (wish, response) {
        (ioctl::Wish::Set(_), Response::Attr { .. }) => reply.ioctl(0, &[]),
        (_, Response::Attr { attr, .. }) => reply.ioctl(0, &ioctl::answer(wish, attr.flags, size)),
        (_, other) => reply.error(misfit(what, &other)),
    }
}

pub(super) fn statfs(what: &'static str) -> impl FnOnce(ReplyStatfs, Response) + Send {
    move |reply, response| match response {
        Response::Statfs(Statfs { total, available, inodes, inodes_available }) => {
            let (blocks, free) = ((total / STATFS_BLOCK).max(1), available / STATFS_BLOCK);
            let files = inodes.saturating_add(inodes_available);
            let block = STATFS_BLOCK as u32;
            reply.statfs(blocks, free, free, files, inodes_available, block, limits::NAME_MAX as u32, block);
        }
        other => reply.error(misfit(what, &other)),
    }
}

/// `size` 0 asks how long the value is.
fn value(reply: ReplyXattr, size: u32, value: &[u8]) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

pub(super) fn xattr(what: &'static str, size: u32) -> impl FnOnce(ReplyXattr, Response) + Send {
    move |reply, response| match response {
        Response::Xattr(bytes) => value(reply, size, &bytes),
        Response::XattrNames(names) => {
            let mut all = Vec::new();
            for name in &names {
                all.extend_from_slice(name.as_bytes());
                all.push(0);
            }
            value(reply, size, &all);
        }
        other => reply.error(misfit(what, &other)),
    }
}
