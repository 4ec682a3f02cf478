//! A directory of local files, for engines that keep their own, for the local cache and for staged writes. Calls
//! block; whoever makes many of them does so inside `Offload`.

use bytes::Bytes;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What the file system of a directory has, in bytes and in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes it can hold.
    pub total: u64,
    /// Bytes that this process may still write.
    pub free: u64,
    /// Files it can hold; 0 where it has no such limit.
    pub files_total: u64,
    /// Files that may still be made.
    pub files_free: u64,
}

/// One state of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes of the file.
    pub len: u64,
    /// Another one after each change.
    pub change: u64,
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("this disk can not {what}"))
}

/// A directory of files with flat names.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing; makes it where `create` says so. `NotFound` otherwise.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>>;
    /// Whether a file of this name exists.
    fn exists(&self, name: &str) -> io::Result<bool>;
    /// Makes names that were created, renamed or removed survive a crash.
    fn sync_names(&self) -> io::Result<()>;
    /// Removes a file; those who have it open keep its bytes. `NotFound` where there is none.
    fn remove(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(missing("remove files"))
    }
    /// Gives a file another name, in one step; a file that had this name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let _ = (from, to);
        Err(missing("rename files"))
    }
    /// The names of the files here, sorted; without folders, links and what has no name in UTF-8.
    fn list(&self) -> io::Result<Vec<String>> {
        Err(missing("list files"))
    }
    /// The folder of this name here; made where it is missing, for its owner only.
    fn folder(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        let _ = name;
        Err(missing("make folders"))
    }
    /// The names of the folders here, sorted.
    fn folders(&self) -> io::Result<Vec<String>> {
        Err(missing("list folders"))
    }
    /// What the file system around this directory has left.
    fn space(&self) -> io::Result<Space> {
        Err(missing("tell its space"))
    }
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
    /// Tells one state of the file from another: changes when anybody writes to it or cuts it.
    fn stamp(&self) -> io::Result<Stamp> {
        Err(missing("tell when a file changed"))
    }
    /// Brings bytes that were mapped from this file into memory. What fails here would have ended the process when it
    /// looked at them: `UnexpectedEof` for bytes that were cut off meanwhile, or that the disk does not give;
    /// `Unsupported` where the machine can't tell.
    fn settle(&self, mapped: &Bytes) -> io::Result<()> {
        let _ = mapped;
        Ok(())
    }
    /// The bytes of this range, mapped rather than read where the machine can do that; they live as long as the
    /// result. A file that is shorter is `UnexpectedEof`. What is written to the file afterwards may show, and
    /// bytes that are cut off afterwards are gone: whoever maps keeps the file from both.
    fn map(&self, range: Range<u64>) -> io::Result<Bytes> {
        let _ = range;
        Err(missing("map files"))
    }
}
