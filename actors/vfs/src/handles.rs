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
    shards: Vec<RwLock<BTreeMap<Handle, Opened>>>,
}

impl Default for Handles {
    fn default() -> Self {
        Handles { next: AtomicU64::new(1), shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }
}

impl Handles {
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
