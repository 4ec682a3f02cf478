//! A directory of local files, for engines that keep their own. Calls block; whoever makes many of them does so
//! inside `Offload`.

use std::io;
use std::sync::Arc;

/// A directory of files with flat names.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing; makes it where `create` says so. `NotFound` otherwise.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;
    /// Whether a file of this name exists.
    fn exists(&self, name: &str) -> io::Result<bool>;
    /// Makes names that were created, renamed or removed survive a crash.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Bytes of the file.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills the buffer from `offset`; a shorter file is `UnexpectedEof`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all bytes at `offset`. They survive a crash only after [`DiskFile::sync`].
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Cuts or extends with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Everything written before this call survives a crash once it returns `Ok`.
    fn sync(&self) -> io::Result<()>;
    /// Takes the exclusive lock of the file for as long as it is open; `WouldBlock` when another process has it.
    fn lock(&self) -> io::Result<()>;
}
