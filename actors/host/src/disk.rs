//! A directory of the local file system as a `Disk`. Names are flat; locks are flock(2), so a process that dies
//! gives them back.

use bytes::Bytes;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zest_world::{Disk, DiskFile, Space, Stamp};

/// A file that stays open, and so keeps its lock, for longer than one process has it: the next one takes it from here
/// in place of opening it.
#[derive(Clone, Default)]
pub struct KeptFile(Arc<Mutex<Option<File>>>);

impl KeptFile {
    /// One that an earlier process had open; empty until something is opened, where there was none.
    #[must_use]
    pub fn of(file: Option<File>) -> KeptFile {
        KeptFile(Arc::new(Mutex::new(file)))
    }

    /// The file, for another process.
    #[must_use]
    pub fn file(&self) -> Option<File> {
        self.0.lock().as_ref().and_then(|file| file.try_clone().ok())
    }
}

/// A directory.
pub struct LocalDisk {
    root: PathBuf,
    kept: Option<(&'static str, KeptFile)>,
}

impl LocalDisk {
    /// A directory that exists already.
    pub fn open(root: &Path) -> io::Result<LocalDisk> {
        if !std::fs::metadata(root)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(LocalDisk { root: root.to_path_buf(), kept: None })
    }

    /// The same, where the file of this name is `kept`.
    #[must_use]
    pub fn keeping(self, name: &'static str, kept: KeptFile) -> LocalDisk {
        LocalDisk { kept: Some((name, kept)), ..self }
    }

    /// The file that is kept under this name, or, where there is none yet, the one that is opened.
    fn kept(&self, name: &str, open: impl FnOnce() -> io::Result<File>) -> io::Result<File> {
        let Some((_, kept)) = self.kept.as_ref().filter(|(kept, _)| *kept == name) else { return open() };
        let mut kept = kept.0.lock();
        match &*kept {
            Some(file) => file.try_clone(),
            None => open().and_then(|file| kept.insert(file).try_clone()),
        }
    }

    /// Makes the directory where it is missing, for its owner only, and its name durable.
    pub fn create(root: &Path) -> io::Result<LocalDisk> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        if let Some(parent) = root.parent() {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            File::open(parent)?.sync_all()?;
        }
        LocalDisk::open(root)
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name:?} is no flat file name"),
            ));
        }
        Ok(self.root.join(name))
    }

    /// The sorted names of the entries that `wanted` takes.
    fn names(&self, wanted: impl Fn(std::fs::FileType) -> bool) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            if let (true, Ok(name)) = (wanted(entry.file_type()?), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

impl Disk for LocalDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name)?;
        let open = || OpenOptions::new().read(true).write(true).create(create).mode(0o600).open(path);
        Ok(Arc::new(LocalFile { file: self.kept(name, open)? }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.path(name)?.try_exists()
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from)?, self.path(to)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.names(|kind| kind.is_file())
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        let path = self.path(name)?;
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Arc::new(LocalDisk::open(&path)?))
    }

    fn folders(&self) -> io::Result<Vec<String>> {
        self.names(|kind| kind.is_dir())
    }

    fn space(&self) -> io::Result<Space> {
        let found = rustix::fs::statvfs(&self.root)?;
        Ok(Space {
            total: found.f_blocks.saturating_mul(found.f_frsize),
            free: found.f_bavail.saturating_mul(found.f_frsize),
            files_total: found.f_files,
            files_free: found.f_favail,
        })
    }
}

struct LocalFile {
    file: File,
}

/// A file that is open already.
#[must_use]
pub fn opened(file: File) -> Arc<dyn DiskFile> {
    Arc::new(LocalFile { file })
}

impl DiskFile for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // Writes the length too when it changed, which is all that reading the bytes back needs.
        self.file.sync_data()
    }

    fn lock(&self) -> io::Result<()> {
        rustix::fs::flock(&self.file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(())
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let found = rustix::fs::fstat(&self.file)?;
        // The time of the last change, which nobody can set.
        let nanos =
            (found.st_ctime as u64).wrapping_mul(1_000_000_000).wrapping_add(found.st_ctime_nsec as u64);
        Ok(Stamp { len: u64::try_from(found.st_size).unwrap_or(0), change: nanos })
    }

    fn settle(&self, mapped: &Bytes) -> io::Result<()> {
        settle(mapped)
    }

    fn map(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.end > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        if len == 0 {
            return Ok(Bytes::new());
        }
        // SAFETY: the mapping is only read. That others write to the file or cut it is what `DiskFile::map` tells
        // its callers to keep it from.
        let map = unsafe { memmap2::MmapOptions::new().offset(range.start).len(len).map(&self.file) }?;
        Ok(Bytes::from_owner(map))
    }
}

/// Asks the kernel to bring mapped bytes in. It answers an error where looking at them would raise SIGBUS.
fn settle(mapped: &[u8]) -> io::Result<()> {
    let page = rustix::param::page_size();
    let address = mapped.as_ptr() as usize;
    let begin = address - address % page;
    let len = address + mapped.len() - begin;
    if mapped.is_empty() {
        return Ok(());
    }
    let advice = rustix::mm::Advice::LinuxPopulateRead;
    // SAFETY: the pages are those of a slice that is borrowed; bringing them in changes nothing.
    match unsafe { rustix::mm::madvise(begin as *mut std::ffi::c_void, len, advice) } {
        Err(rustix::io::Errno::FAULT) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(rustix::io::Errno::INVAL) => Err(io::ErrorKind::Unsupported.into()),
        outcome => Ok(outcome?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_names_stay_flat() {
        let temp = tempfile::tempdir().unwrap();
        let disk = LocalDisk::create(&temp.path().join("a/b")).unwrap();
        assert_eq!(disk.open("x", false).err().unwrap().kind(), io::ErrorKind::NotFound);
        let file = disk.open("x", true).unwrap();
        file.write_at(3, b"abc").unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        assert_eq!(file.len().unwrap(), 6);
        let mut buffer = [9; 6];
        file.read_at(0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"\0\0\0abc");
        assert_eq!(file.read_at(1, &mut buffer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        file.set_len(2).unwrap();
        assert_eq!(file.len().unwrap(), 2);
        assert!(disk.exists("x").unwrap() && !disk.exists("y").unwrap());
        for bad in ["", "a/b", ".."] {
            assert_eq!(disk.open(bad, true).err().unwrap().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn files_are_listed_renamed_and_removed_in_their_own_folder() {
        let temp = tempfile::tempdir().unwrap();
        let disk = LocalDisk::create(temp.path()).unwrap();
        let folder = disk.folder("f").unwrap();
        assert!(disk.folder("f").unwrap().list().unwrap().is_empty());
        let mode = std::fs::metadata(temp.path().join("f")).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
        disk.open("b", true).unwrap().write_at(0, b"b").unwrap();
        disk.open("a", true).unwrap().write_at(0, b"aa").unwrap();
        folder.open("c", true).unwrap();
        std::os::unix::fs::symlink("a", temp.path().join("link")).unwrap();
        assert_eq!(disk.list().unwrap(), ["a", "b"]);
        assert_eq!(disk.folders().unwrap(), ["f"]);
        let kept = disk.open("b", false).unwrap();
        disk.rename("a", "b").unwrap();
        assert_eq!(
            (disk.list().unwrap(), disk.open("b", false).unwrap().len().unwrap()),
            (vec!["b".into()], 2)
        );
        disk.remove("b").unwrap();
        assert_eq!(kept.len().unwrap(), 1);
        assert_eq!(disk.remove("b").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.rename("b", "d").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(disk.list().unwrap().is_empty());
        for bad in ["", "..", "a/b"] {
            assert!(disk.remove(bad).is_err() && disk.rename("c", bad).is_err() && disk.folder(bad).is_err());
        }
        let space = disk.space().unwrap();
        assert!(space.total >= space.free && space.total > 0);
    }

    #[test]
    fn a_map_shows_its_range_and_outlives_file_and_name() {
        let temp = tempfile::tempdir().unwrap();
        let disk = LocalDisk::create(temp.path()).unwrap();
        let file = disk.open("m", true).unwrap();
        file.write_at(5000, b"abcdef").unwrap();
        let map = file.map(5001..5004).unwrap();
        assert_eq!(file.map(5000..5007).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(file.map(9..9).unwrap().is_empty());
        disk.remove("m").unwrap();
        drop(file);
        assert_eq!(&map[..], b"bcd");
    }

    #[test]
    fn bytes_that_were_cut_off_are_an_error_and_no_signal() {
        let temp = tempfile::tempdir().unwrap();
        let disk = LocalDisk::create(temp.path()).unwrap();
        let file = disk.open("m", true).unwrap();
        file.write_at(0, &[7; 100_000]).unwrap();
        let (map, before) = (file.map(0..100_000).unwrap(), file.stamp().unwrap());
        file.settle(&map).unwrap();
        file.settle(&map.slice(5000..5001)).unwrap();
        assert_eq!(file.stamp().unwrap(), before);
        disk.open("m", false).unwrap().set_len(8192).unwrap();
        for cut in [map.clone(), map.slice(50_000..50_001)] {
            assert_eq!(file.settle(&cut).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        file.settle(&map.slice(0..8192)).unwrap();
        assert_ne!(file.stamp().unwrap(), before);
        assert_eq!(file.stamp().unwrap().len, 8192);
    }

    #[test]
    fn a_second_open_file_does_not_get_the_lock() {
        let temp = tempfile::tempdir().unwrap();
        let disk = LocalDisk::create(temp.path()).unwrap();
        let (first, second) = (disk.open("l", true).unwrap(), disk.open("l", true).unwrap());
        first.lock().unwrap();
        assert_eq!(second.lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        second.lock().unwrap();
    }
}
