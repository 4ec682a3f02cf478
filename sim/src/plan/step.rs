//! One thing a user does. Files are named by paths and by slots of open handles, never by what a run happened to
//! answer, so that a plan stays meaningful when parts of it are left out.

use serde::{Deserialize, Serialize};
use std::fmt;
use zest_types::Name;

/// A path from the root; each part is one of a few names. Empty is the root itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Path(pub String);

impl Path {
    /// A path from text like `a/b`.
    #[must_use]
    pub fn new(text: &str) -> Path {
        Path(text.trim_matches('/').into())
    }

    /// Its parts. Parts that can't be names are left out.
    #[must_use]
    pub fn parts(&self) -> Vec<Name> {
        self.0.split('/').filter_map(|part| Name::new(part.as_bytes()).ok()).collect()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

/// A step. `slot` is one of a user's own places for open handles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Step {
    Create {
        path: Path,
        slot: u8,
        excl: bool,
    },
    Mkdir {
        path: Path,
        mode: u16,
    },
    Mkfifo {
        path: Path,
    },
    Symlink {
        path: Path,
        len: u16,
    },
    Unlink {
        path: Path,
    },
    Rmdir {
        path: Path,
    },
    /// 0 replaces, 1 does not, 2 exchanges.
    Rename {
        from: Path,
        to: Path,
        how: u8,
    },
    Link {
        from: Path,
        to: Path,
    },
    Readlink {
        path: Path,
    },
    Stat {
        path: Path,
    },
    Chmod {
        path: Path,
        mode: u16,
    },
    Chown {
        path: Path,
        uid: u32,
        gid: u32,
    },
    Utimes {
        path: Path,
        sec: i64,
    },
    Truncate {
        path: Path,
        size: u64,
    },
    Resize {
        slot: u8,
        size: u64,
    },
    Open {
        path: Path,
        slot: u8,
        trunc: bool,
    },
    Write {
        slot: u8,
        at: u64,
        len: u32,
    },
    Read {
        slot: u8,
        at: u64,
        len: u32,
    },
    Fsync {
        slot: u8,
    },
    Flush {
        slot: u8,
    },
    Close {
        slot: u8,
    },
    Fstat {
        slot: u8,
    },
    /// 0 allocate, 1 keep size, 2 punch, 3 zero, 4 zero and keep size.
    Fallocate {
        slot: u8,
        at: u64,
        len: u64,
        how: u8,
    },
    Copy {
        slot: u8,
        at: u64,
        to: u8,
        to_at: u64,
        len: u64,
    },
    Seek {
        slot: u8,
        at: u64,
        hole: bool,
    },
    /// 0 any, 1 must not exist, 2 must exist.
    SetXattr {
        path: Path,
        name: u8,
        len: u16,
        how: u8,
    },
    GetXattr {
        path: Path,
        name: u8,
    },
    ListXattr {
        path: Path,
    },
    RemoveXattr {
        path: Path,
        name: u8,
    },
    List {
        path: Path,
    },
    FsyncDir {
        path: Path,
    },
    /// A copy that shares its content, to a place of its own.
    Clone {
        path: Path,
        slot: u8,
    },
    /// For so long the mount takes no changes, as when its metadata server has thrown keys away.
    Fence {
        ms: u64,
    },
    SyncAll,
    Statfs,
    Pause {
        ms: u64,
    },
}
