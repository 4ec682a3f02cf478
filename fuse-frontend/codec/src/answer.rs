//! Answers as bytes: a head with the fixed part, and what follows it, which is sent from where it lies.

use crate::abi::{
    self, AttrOut, CopyFileRangeOut, EntryOut, GetxattrOut, IoctlOut, LkOut, LseekOut, OpenOut, OutHeader,
    STATX_BASIC_STATS, StatfsOut, Statx, StatxOut, SxTime, WriteOut, fopen,
};
use crate::ask::Shape;
use crate::{convert, dirents, ioctl};
use bytes::Bytes;
use std::time::Duration;
use zerocopy::{Immutable, IntoBytes};
use zest_types::request::Statfs;
use zest_types::{Attr, Errno, Handle, Ino, Name, Response, ServeResult, limits};

/// Inode numbers are never used twice, so one generation is enough.
pub(crate) const GENERATION: u64 = 1;
/// Bytes of a block in statfs.
const STATFS_BLOCK: u64 = 4096;
/// Bytes of the largest fixed part, with the header.
const HEAD: usize = size_of::<OutHeader>() + size_of::<StatxOut>();

/// What a mount lets the kernel believe.
pub trait Terms {
    /// How long a name and attributes of a node hold.
    fn valid(&self, ino: Ino, attr: &Attr) -> (Duration, Duration);
    /// The same for an entry of a listing.
    fn valid_in(&self, _dir: Ino, _name: &Name, ino: Ino, attr: &Attr) -> (Duration, Duration) {
        self.valid(ino, attr)
    }
    /// The number the kernel knows a node by.
    fn node(&self, ino: Ino) -> Ino {
        ino
    }
    /// How long it holds that a directory has no such name; zero: not at all.
    fn negative(&self, parent: Ino) -> Duration;
    /// Whether the kernel may list this directory by itself until it changes something in it.
    fn keep_dir(&self, ino: Ino) -> bool;
    /// Whether closing a file has to be told even if nothing was written.
    fn close_drops_locks(&self) -> bool;
}

/// What follows a head.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Body {
    None,
    Pieces(Vec<Bytes>),
    Bytes(Vec<u8>),
}

/// An answer, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    head: [u8; HEAD],
    used: usize,
    /// Sent behind the head.
    pub body: Body,
}

/// A response that is no answer to the request: a mistake in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit;

impl Answer {
    /// An answer with these fixed parts; `error` 0 is success.
    fn new(unique: u64, error: i32, parts: &[&[u8]], body: Body) -> Answer {
        let mut answer = Answer { head: [0; HEAD], used: size_of::<OutHeader>(), body };
        for part in parts {
            let end = answer.used.saturating_add(part.len());
            if let Some(place) = answer.head.get_mut(answer.used..end) {
                place.copy_from_slice(part);
                answer.used = end;
            }
        }
        let len = u32::try_from(answer.len()).unwrap_or(u32::MAX);
        let header = OutHeader { len, error, unique };
        if let Some(place) = answer.head.get_mut(..size_of::<OutHeader>()) {
            place.copy_from_slice(header.as_bytes());
        }
        answer
    }

    /// A success with one struct.
    #[must_use]
    pub fn with<T: IntoBytes + Immutable>(unique: u64, part: &T) -> Answer {
        Answer::new(unique, 0, &[part.as_bytes()], Body::None)
    }

    fn body(unique: u64, body: Body) -> Answer {
        Answer::new(unique, 0, &[], body)
    }

    /// Header and fixed part.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        self.head.get(..self.used).unwrap_or_default()
    }

    /// All bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
            + match &self.body {
                Body::None => 0,
                Body::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
                Body::Bytes(bytes) => bytes.len(),
            }
    }

    /// Never: there is always a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// All bytes, one after the other.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = self.head().to_vec();
        match &self.body {
            Body::None => {}
            Body::Pieces(pieces) => pieces.iter().for_each(|piece| all.extend_from_slice(piece)),
            Body::Bytes(bytes) => all.extend_from_slice(bytes),
        }
        all
    }
}

/// An error. `number` is Linux's, and positive.
#[must_use]
pub fn refuse(unique: u64, number: i32) -> Answer {
    Answer::new(unique, 0i32.saturating_sub(number), &[], Body::None)
}

/// The answer to a request of this shape.
pub fn answer(unique: u64, shape: Shape, result: ServeResult, terms: &impl Terms) -> Result<Answer, Misfit> {
    match result {
        Ok(response) => success(unique, shape, response, terms),
        Err(Errno::ENOENT) => Ok(match shape {
            Shape::Lookup { parent } if !terms.negative(parent).is_zero() => {
                let hold = terms.negative(parent);
                let (entry_valid, entry_valid_nsec) = (hold.as_secs(), hold.subsec_nanos());
                Answer::with(unique, &EntryOut { entry_valid, entry_valid_nsec, ..EntryOut::default() })
            }
            _ => refuse(unique, Errno::ENOENT.number()),
        }),
        Err(errno) => Ok(refuse(unique, errno.number())),
    }
}

fn success(unique: u64, shape: Shape, response: Response, terms: &impl Terms) -> Result<Answer, Misfit> {
    Ok(match (shape, response) {
        (Shape::Data, Response::Data(pieces)) => Answer::body(unique, Body::Pieces(pieces)),
        (Shape::Data, Response::Target(target)) => Answer::body(unique, Body::Bytes(target)),
        (Shape::Written, Response::Written(size)) => Answer::with(unique, &WriteOut { size, padding: 0 }),
        // The request was cut so that this fits.
        (Shape::Written, Response::Copied(bytes)) => {
            let size = u32::try_from(bytes).unwrap_or(u32::MAX);
            Answer::with(unique, &WriteOut { size, padding: 0 })
        }
        (Shape::Copied64, Response::Copied(bytes_copied)) => {
            Answer::with(unique, &CopyFileRangeOut { bytes_copied })
        }
        (Shape::Done, Response::Done) => Answer::body(unique, Body::None),
        (Shape::Lookup { .. } | Shape::Entry, Response::Entry { ino, attr }) => {
            Answer::with(unique, &entry(terms.node(ino), &attr, terms.valid(ino, &attr)))
        }
        (Shape::Attr, Response::Attr { ino, attr }) => {
            let hold = terms.valid(ino, &attr).1;
            let attr = convert::attr(terms.node(ino), &attr);
            let (attr_valid, attr_valid_nsec) = (hold.as_secs(), hold.subsec_nanos());
            Answer::with(unique, &AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr })
        }
        (Shape::Opened { flags }, Response::Opened { handle, keep_cache }) => {
            let open_flags = convert::open_reply(flags, keep_cache, terms.close_drops_locks());
            Answer::with(unique, &opened(handle, open_flags))
        }
        (Shape::OpenedDir { ino }, Response::Opened { handle, .. }) => {
            let kept = fopen::CACHE_DIR | fopen::KEEP_CACHE;
            Answer::with(unique, &opened(handle, if terms.keep_dir(ino) { kept } else { 0 }))
        }
        (Shape::Created { flags }, Response::Created { ino, attr, handle }) => {
            let entry = entry(terms.node(ino), &attr, terms.valid(ino, &attr));
            let open = opened(handle, convert::open_reply(flags, false, terms.close_drops_locks()));
            Answer::new(unique, 0, &[entry.as_bytes(), open.as_bytes()], Body::None)
        }
        (Shape::Dirents { size }, Response::Dirents(entries)) => {
            Answer::body(unique, Body::Bytes(dirents::plain(&entries, size, terms)))
        }
        (Shape::DirentsPlus { dir, size }, Response::Dirents(entries)) => {
            Answer::body(unique, Body::Bytes(dirents::plus(&entries, dir, size, terms)))
        }
        (shape, response) => return rare(unique, shape, response, terms),
    })
}

fn rare(unique: u64, shape: Shape, response: Response, terms: &impl Terms) -> Result<Answer, Misfit> {
    Ok(match (shape, response) {
        (Shape::Offset, Response::Offset(at)) => {
            Answer::with(unique, &LseekOut { offset: at.min(i64::MAX.unsigned_abs()) })
        }
        (Shape::Ioctl { wish: ioctl::Wish::Set(_), .. }, Response::Attr { .. }) => {
            Answer::with(unique, &IoctlOut::default())
        }
        (Shape::Ioctl { wish, size }, Response::Attr { attr, .. }) => {
            let out = IoctlOut::default();
            let body = Body::Bytes(ioctl::answer(wish, attr.flags, size));
            Answer::new(unique, 0, &[out.as_bytes()], body)
        }
        (Shape::Statfs, Response::Statfs(numbers)) => Answer::with(unique, &statfs(&numbers)),
        (Shape::Xattr { size }, Response::Xattr(value)) => xattr(unique, size, value),
        (Shape::Xattr { size }, Response::XattrNames(names)) => {
            let mut all = Vec::new();
            for name in &names {
                all.extend_from_slice(name.as_bytes());
                all.push(0);
            }
            xattr(unique, size, all)
        }
        (Shape::Lock, Response::Lock(lock)) => {
            Answer::with(unique, &LkOut { lk: convert::file_lock(lock.as_ref()) })
        }
        (Shape::Statx, Response::Attr { ino, attr }) => {
            Answer::with(unique, &statx(terms.node(ino), &attr, terms.valid(ino, &attr).1))
        }
        _ => return Err(Misfit),
    })
}

/// A node under a name, with how long both hold.
pub(crate) fn entry(ino: Ino, attr: &Attr, (name, node): (Duration, Duration)) -> EntryOut {
    EntryOut {
        nodeid: ino.0,
        generation: GENERATION,
        entry_valid: name.as_secs(),
        attr_valid: node.as_secs(),
        entry_valid_nsec: name.subsec_nanos(),
        attr_valid_nsec: node.subsec_nanos(),
        attr: convert::attr(ino, attr),
    }
}

fn opened(handle: Handle, open_flags: u32) -> OpenOut {
    OpenOut { fh: handle.0, open_flags, backing_id: 0 }
}

fn statfs(numbers: &Statfs) -> StatfsOut {
    let (blocks, free) = ((numbers.total / STATFS_BLOCK).max(1), numbers.available / STATFS_BLOCK);
    StatfsOut {
        blocks,
        bfree: free,
        bavail: free,
        files: numbers.inodes.saturating_add(numbers.inodes_available),
        ffree: numbers.inodes_available,
        bsize: STATFS_BLOCK as u32,
        namelen: limits::NAME_MAX as u32,
        frsize: STATFS_BLOCK as u32,
        ..StatfsOut::default()
    }
}

/// `size` 0 asks how long the value is.
fn xattr(unique: u64, size: u32, value: Vec<u8>) -> Answer {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => Answer::with(unique, &GetxattrOut { size: len, padding: 0 }),
        Ok(len) if len <= size => Answer::body(unique, Body::Bytes(value)),
        _ => refuse(unique, Errno::ERANGE.number()),
    }
}

/// Everything stat(2) shows; a time of birth is in no record of the volume format.
fn statx(ino: Ino, attr: &Attr, hold: Duration) -> StatxOut {
    let shown: abi::Attr = convert::attr(ino, attr);
    let time = |sec: u64, nsec| SxTime { sec: sec.cast_signed(), nsec, reserved: 0 };
    let stat = Statx {
        mask: STATX_BASIC_STATS,
        blksize: shown.blksize,
        nlink: shown.nlink,
        uid: shown.uid,
        gid: shown.gid,
        mode: shown.mode as u16,
        ino: shown.ino,
        size: shown.size,
        blocks: shown.blocks,
        atime: time(shown.atime, shown.atimensec),
        ctime: time(shown.ctime, shown.ctimensec),
        mtime: time(shown.mtime, shown.mtimensec),
        // As the kernel packs device numbers elsewhere.
        rdev_major: (shown.rdev >> 8) & 0xfff,
        rdev_minor: (shown.rdev & 0xff) | ((shown.rdev >> 12) & 0xfff00),
        ..Statx::default()
    };
    StatxOut { attr_valid: hold.as_secs(), attr_valid_nsec: hold.subsec_nanos(), stat, ..StatxOut::default() }
}
