//! A disk in memory for tests of cache files: it can be full, fail, lose or change what it holds, and be looked at.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use zest_world::{Disk, DiskFile, Space, Stamp};

#[derive(Default)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub changes: u64,
}

type Shared = Arc<Mutex<Content>>;

#[derive(Default)]
pub struct State {
    /// By path.
    pub files: BTreeMap<String, Shared>,
    /// Files whose lock is held.
    pub locked: Vec<String>,
    /// All writes find no room.
    pub full: bool,
    /// Everything fails.
    pub dead: bool,
    /// Bytes free, of a thousand million.
    pub free: Option<u64>,
    pub writes: u64,
}

/// A folder of it.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    pub state: Arc<Mutex<State>>,
    prefix: String,
}

impl MemoryDisk {
    pub fn file(&self, path: &str) -> Shared {
        self.state.lock().files[path].clone()
    }

    /// Paths of everything that is no index and no lock.
    pub fn data(&self) -> Vec<String> {
        let state = self.state.lock();
        state.files.keys().filter(|path| path.matches('/').count() > 1).cloned().collect()
    }

    fn at(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn well(&self) -> io::Result<()> {
        if self.state.lock().dead { Err(io::Error::other("the disk is dead")) } else { Ok(()) }
    }
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.well()?;
        let path = self.at(name);
        let mut state = self.state.lock();
        if !create && !state.files.contains_key(&path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let content = state.files.entry(path.clone()).or_default().clone();
        Ok(Arc::new(MemoryFile { disk: self.clone(), path, content, locked: Mutex::new(false) }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.state.lock().files.contains_key(&self.at(name)))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.well()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.well()?;
        let gone = self.state.lock().files.remove(&self.at(name));
        gone.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.well()?;
        let mut state = self.state.lock();
        let file = state.files.remove(&self.at(from)).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(self.at(to), file);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.well()?;
        let state = self.state.lock();
        let here = state.files.keys().filter_map(|path| path.strip_prefix(&self.prefix));
        Ok(here.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        self.well()?;
        Ok(Arc::new(MemoryDisk { state: self.state.clone(), prefix: format!("{}{name}/", self.prefix) }))
    }

    fn folders(&self) -> io::Result<Vec<String>> {
        self.well()?;
        let state = self.state.lock();
        let here = state.files.keys().filter_map(|path| path.strip_prefix(&self.prefix)?.split_once('/'));
        let mut names: Vec<String> = here.map(|(name, _)| name.to_owned()).collect();
        names.dedup();
        Ok(names)
    }

    fn space(&self) -> io::Result<Space> {
        self.well()?;
        let free = self.state.lock().free.unwrap_or(1_000_000_000);
        Ok(Space { total: 1_000_000_000, free, files_total: 0, files_free: 0 })
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    path: String,
    content: Shared,
    locked: Mutex<bool>,
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.well()?;
        let content = self.content.lock();
        let end = offset as usize + buffer.len();
        let found = content.bytes.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.well()?;
        let mut state = self.disk.state.lock();
        if state.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.writes += 1;
        let mut content = self.content.lock();
        let end = offset as usize + data.len();
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[offset as usize..end].copy_from_slice(data);
        content.changes += 1;
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.well()?;
        let mut content = self.content.lock();
        content.bytes.resize(len as usize, 0);
        content.changes += 1;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.well()
    }

    fn lock(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        if state.locked.contains(&self.path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked.push(self.path.clone());
        *self.locked.lock() = true;
        Ok(())
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.disk.well()?;
        let content = self.content.lock();
        Ok(Stamp { len: content.bytes.len() as u64, change: content.changes })
    }

    fn map(&self, range: Range<u64>) -> io::Result<Bytes> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes.into())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if *self.locked.lock() {
            self.disk.state.lock().locked.retain(|path| *path != self.path);
        }
    }
}
