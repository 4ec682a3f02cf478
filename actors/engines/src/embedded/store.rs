//! The records in the file: one redb table of bytes. Opening finds the state of the last complete transaction,
//! whatever a crash left behind it; a batch is written as one transaction. Knows nothing of what is in memory.

use super::backend::{Backend, Faults};
use super::error::OpenError;
use super::label::Label;
use crate::kv::{Batch, KeyRange, Pair};
use redb::{Builder, Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase};
use redb::{StorageError, TableDefinition, TableError};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zest_metadata::EngineError;
use zest_types::limits;
use zest_world::{Disk, DiskFile};

/// Name of the file.
pub(super) const FILE: &str = "zest.redb";

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

fn failed(error: impl std::fmt::Display) -> EngineError {
    EngineError::Failed(error.to_string())
}

/// What the file holds after one transaction. Later transactions do not change it.
#[derive(Clone)]
pub(super) struct Base(Arc<ReadOnlyTable<&'static [u8], &'static [u8]>>);

impl Base {
    fn of(db: &Database) -> Result<Base, EngineError> {
        let table = db.begin_read().map_err(failed)?.open_table(RECORDS).map_err(failed)?;
        Ok(Base(Arc::new(table)))
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.0.get(key).map_err(failed)?.map(|value| value.value().to_vec()))
    }

    /// Keys and values of a range, in order, read as they are asked for.
    pub(super) fn range(
        &self,
        range: &KeyRange,
    ) -> Result<impl Iterator<Item = Result<Pair, EngineError>> + use<'_>, EngineError> {
        let found = self.0.range::<&[u8]>(range.start.as_slice()..range.end.as_slice()).map_err(failed)?;
        Ok(found.map(|entry| {
            let (key, value) = entry.map_err(failed)?;
            Ok((key.value().to_vec(), value.value().to_vec()))
        }))
    }
}

/// The file, open for writing. Its lock is held as long as this lives.
pub(super) struct Store {
    file: Arc<dyn DiskFile>,
    faults: Arc<Faults>,
    /// `None` after a failure from which opening again did not recover yet.
    db: Option<Database>,
    repaired: bool,
    /// From this length of the file on, see [`limits::META_CHECKED`].
    recorded_from: u64,
}

impl Store {
    /// Opens the file and takes its lock; begins an empty one where there is none, or where beginning one was
    /// interrupted.
    pub(super) fn open(disk: &dyn Disk, recorded_from: u64) -> Result<(Store, Base), OpenError> {
        let file = disk.open(FILE, true)?;
        file.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => OpenError::InUse,
            _ => OpenError::Disk(error),
        })?;
        let mut store = Store { file, faults: Arc::default(), db: None, repaired: false, recorded_from };
        let fresh = store.file.is_empty()?;
        let base = match store.open_db() {
            // The label is written after the first transaction: without it there was none.
            Err(Opening::NotADatabase) if Label::read(disk)?.is_none() => {
                store.file.set_len(0)?;
                store.open_db()
            }
            other => other,
        };
        let base = base.map_err(|error| match error {
            Opening::NotADatabase => OpenError::Unusable(format!("{FILE} is not a metadata file")),
            Opening::Failed(error) => OpenError::Unusable(error.to_string()),
        })?;
        if fresh {
            disk.sync_names()?;
        }
        Ok((store, base))
    }

    /// Whether the file had not been closed when it was opened.
    pub(super) fn was_repaired(&self) -> bool {
        self.repaired
    }

    /// Fails for ever once a sync failed.
    pub(super) fn faults(&self) -> Arc<Faults> {
        self.faults.clone()
    }

    fn open_db(&mut self) -> Result<Base, Opening> {
        let repaired = Arc::new(AtomicBool::new(false));
        let seen = repaired.clone();
        let backend = Backend { file: self.file.clone(), faults: self.faults.clone() };
        let db = Builder::new()
            .set_cache_size(limits::META_CACHE)
            .set_repair_callback(move |_| seen.store(true, Ordering::Relaxed))
            .create_with_backend(backend)
            .map_err(|error| self.opening(error))?;
        self.repaired |= repaired.load(Ordering::Relaxed);
        let base = match db.begin_read().map_err(failed)?.open_table(RECORDS) {
            Ok(table) => Base(Arc::new(table)),
            Err(TableError::TableDoesNotExist(_)) => {
                transaction(&db, &Batch::new(), false)?;
                Base::of(&db)?
            }
            Err(error) => return Err(Opening::Failed(failed(error))),
        };
        self.db = Some(db);
        Ok(base)
    }

    fn opening(&self, error: DatabaseError) -> Opening {
        match &error {
            DatabaseError::Storage(StorageError::Io(io)) if io.kind() == io::ErrorKind::InvalidData => {
                Opening::NotADatabase
            }
            _ => Opening::Failed(self.faults.take().unwrap_or_else(|| failed(error))),
        }
    }

    /// Makes a batch durable, all of it or nothing.
    pub(super) fn write(&mut self, batch: &Batch) -> Result<Base, EngineError> {
        if self.db.is_none() {
            self.reopen()?;
        }
        let db = self.db.as_ref().ok_or_else(|| failed("it is not open"))?;
        let _ = self.faults.take();
        let recorded = self.file.len().map_err(failed)? >= self.recorded_from;
        transaction(db, batch, recorded).map_err(|error| self.faults.take().unwrap_or(error))?;
        Base::of(db)
    }

    /// Opens the file anew: after a failed write redb refuses everything, reads too.
    pub(super) fn reopen(&mut self) -> Result<Base, EngineError> {
        drop(self.db.take());
        self.open_db().map_err(|error| match error {
            Opening::NotADatabase => failed("the metadata file lost its head"),
            Opening::Failed(error) => error,
        })
    }
}

enum Opening {
    NotADatabase,
    Failed(EngineError),
}

impl From<EngineError> for Opening {
    fn from(error: EngineError) -> Opening {
        Opening::Failed(error)
    }
}

/// Writes a batch with one sync of the disk: checksums tell after a crash whether all of it arrived. With `recorded`
/// it takes two, and the transaction also holds which pages are in use, so that no check is needed.
fn transaction(db: &Database, batch: &Batch, recorded: bool) -> Result<(), EngineError> {
    let mut transaction = db.begin_write().map_err(failed)?;
    transaction.set_quick_repair(recorded);
    transaction.set_durability(Durability::Immediate).map_err(failed)?;
    {
        let mut table = transaction.open_table(RECORDS).map_err(failed)?;
        for (key, value) in batch {
            match value {
                Some(value) => table.insert(key.as_slice(), value.as_slice()).map(drop),
                None => table.remove(key.as_slice()).map(drop),
            }
            .map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}
