//! A directory of the local file system as a `Disk`. Names are flat; locks are flock(2), so a process that dies
//! gives them back.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zest_world::{Disk, DiskFile};

/// A directory.
pub struct LocalDisk {
    root: PathBuf,
}

impl LocalDisk {
    /// A directory that exists already.
    pub fn open(root: &Path) -> io::Result<LocalDisk> {
        if !std::fs::metadata(root)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(LocalDisk { root: root.to_path_buf() })
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
}

impl Disk for LocalDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path(name)?;
        let file = OpenOptions::new().read(true).write(true).create(create).mode(0o600).open(path)?;
        Ok(Arc::new(LocalFile { file }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.path(name)?.try_exists()
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }
}

struct LocalFile {
    file: File,
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
