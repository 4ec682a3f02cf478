//! Handles: the numbers a door holds for open files and directories. Files opened for reading only and
//! directories have odd numbers, files opened for writing even ones, as in other clients of the format.

use crate::dirs::DirStream;
use crate::files::OpenFile;
use crate::stream::Stream;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zest_types::Handle;

const SHARDS: u64 = 64;
/// Numbers of one process of a mount; those of the next one come behind them, so that each can tell its own.
const OF_ONE: u32 = 40;

/// An open file as one opener sees it.
pub struct FileHandle {
    /// The file.
    pub file: Arc<OpenFile>,
    /// Opened for reading.
    pub readable: bool,
    /// Opened for writing.
    pub writable: bool,
    /// How it was read so far.
    pub stream: Mutex<Stream>,
}

/// What a handle stands for.
#[derive(Clone)]
pub enum Opened {
    /// A file.
    File(Arc<FileHandle>),
    /// A directory.
    Dir(Arc<Mutex<DirStream>>),
}

/// All handles of a mount.
pub struct Handles {
    next: AtomicU64,
    /// Numbers below were given by earlier processes.
    first: u64,
    shards: Vec<RwLock<BTreeMap<Handle, Opened>>>,
}

impl Default for Handles {
    fn default() -> Self {
        Handles::of(0)
    }
}

impl Handles {
    /// None yet, of a mount that so many other processes served before.
    #[must_use]
    pub fn of(generation: u32) -> Handles {
        let first = u64::from(generation) << OF_ONE;
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Handles { next: AtomicU64::new(first + 1), first, shards }
    }

    /// Whether this number was given by an earlier process, and nobody here knows it yet.
    #[must_use]
    pub fn is_inherited(&self, handle: Handle) -> bool {
        handle.0 / 2 < self.first && !self.shard(handle).read().contains_key(&handle)
    }

    /// Makes a number of an earlier process known, once.
    pub fn revive(&self, handle: Handle, make: impl FnOnce() -> Opened) {
        self.shard(handle).write().entry(handle).or_insert_with(make);
    }

    /// A number for something opened.
    pub fn add(&self, opened: Opened) -> Handle {
        let writable = matches!(&opened, Opened::File(file) if file.writable);
        let handle = Handle(self.next.fetch_add(1, Ordering::Relaxed) * 2 + u64::from(!writable));
        self.shard(handle).write().insert(handle, opened);
        handle
    }

    /// The file behind a handle.
    pub fn file(&self, handle: Handle) -> Option<Arc<FileHandle>> {
        match self.shard(handle).read().get(&handle)? {
            Opened::File(file) => Some(Arc::clone(file)),
            Opened::Dir(_) => None,
        }
    }

    /// The directory behind a handle.
    pub fn dir(&self, handle: Handle) -> Option<Arc<Mutex<DirStream>>> {
        match self.shard(handle).read().get(&handle)? {
            Opened::Dir(dir) => Some(Arc::clone(dir)),
            Opened::File(_) => None,
        }
    }

    /// Gives a number back.
    pub fn remove(&self, handle: Handle) -> Option<Opened> {
        self.shard(handle).write().remove(&handle)
    }

    fn shard(&self, handle: Handle) -> &RwLock<BTreeMap<Handle, Opened>> {
        &self.shards[((handle.0 / 2) % SHARDS) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::Ino;

    #[test]
    fn numbers_of_an_earlier_process_are_told_from_own_ones() {
        let dir = || Opened::Dir(Arc::new(Mutex::new(DirStream::new(Ino(1)))));
        let (before, now) = (Handles::default(), Handles::of(1));
        let (old, own) = (before.add(dir()), now.add(dir()));
        assert!(old != own && now.is_inherited(old) && !now.is_inherited(own) && !before.is_inherited(own));
        now.remove(own);
        assert!(!now.is_inherited(own), "it was closed, and is nobody's");
        now.revive(old, dir);
        assert!(!now.is_inherited(old) && now.dir(old).is_some());
        now.remove(old);
        assert!(now.is_inherited(old));
    }
}
