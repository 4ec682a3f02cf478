//! A file of a `Disk` as the storage of redb. Passes every call on and remembers what failed: redb answers only
//! "failed before" afterwards, and whether a sync failed decides whether going on is allowed.

use parking_lot::Mutex;
use redb::StorageBackend;
use std::fmt;
use std::io;
use std::sync::Arc;
use zest_metadata::EngineError;
use zest_world::DiskFile;
use zest_world::planted::{Bug, active};

/// What the disk said that was no success.
#[derive(Default)]
pub(super) struct Faults {
    last: Mutex<Option<EngineError>>,
    sync: Mutex<Option<EngineError>>,
}

impl Faults {
    fn note(&self, what: &str, error: &io::Error) {
        let text = format!("{what}: {error}");
        *self.last.lock() = Some(match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                EngineError::Full(text)
            }
            _ => EngineError::Failed(text),
        });
    }

    /// The last failure, once.
    pub(super) fn take(&self) -> Option<EngineError> {
        self.last.lock().take()
    }

    /// Fails for ever once a sync failed: the kernel may have dropped what it could not write, so a later sync
    /// that succeeds would prove nothing.
    pub(super) fn check_sync(&self) -> Result<(), EngineError> {
        self.sync.lock().clone().map_or(Ok(()), Err)
    }
}

/// The storage.
pub(super) struct Backend {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) faults: Arc<Faults>,
}

impl Backend {
    fn noted<T>(&self, what: &str, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.faults.note(what, error))
    }

    /// After a failed sync nothing reaches the file any more. The pages that were lost may be those that a header
    /// names which redb still writes when it gives up or closes; synced, it would make the file unreadable.
    fn frozen(&self) -> io::Result<()> {
        self.faults.check_sync().map_err(io::Error::other)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.noted("asking for the length", self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.noted("reading", self.file.read_at(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.frozen()?;
        self.noted("changing the length", self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        if active(Bug::FsyncDoesNothing) {
            return Ok(());
        }
        self.frozen()?;
        self.noted("syncing", self.file.sync()).inspect_err(|error| {
            let text = format!(
                "a sync failed ({error}), and what the disk has now is unknown: unmount, check the disk, mount again"
            );
            self.faults.sync.lock().get_or_insert(EngineError::Failed(text));
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.frozen()?;
        self.noted("writing", self.file.write_at(offset, data))
    }
}
