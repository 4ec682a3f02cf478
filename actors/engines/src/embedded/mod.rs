//! The embedded engine: the records of a volume in one file of a `Disk`, for one process, without a server and
//! without threads of its own. Commits are applied in memory, in one order; `sync` writes what was committed in
//! one transaction of the file, so what survives a crash is always the state after some commit, and never
//! older than the last `sync` that was acknowledged. Knows no rule, no path, no thread: flushes run in `Offload`.

mod backend;
mod error;
mod flush;
mod label;
mod recent;
mod store;
mod tables;

pub use error::OpenError;

use crate::kv::{Batch, Bytes, KeyRange, Pair, View, decode_record, encode_key};
use async_trait::async_trait;
use flush::Flusher;
use label::Label;
use parking_lot::Mutex;
use recent::Recent;
use std::sync::Arc;
use store::Store;
use tables::Shared;
use zest_metadata::apply::Records;
use zest_metadata::{Applied, ChangeSet, CommitError, Engine, EngineError, Key, Record, Scan, SlicePage};
use zest_types::limits;
use zest_types::volume::Settings;
use zest_world::{Disk, DiskFile, World};

/// The engine. It holds the lock of the volume until it is dropped. Call [`Engine::sync`] before that: what
/// was committed after the last one is lost.
pub struct EmbeddedEngine {
    shared: Arc<Shared>,
    /// Held by a commit from its first read to its last write: commits have one order.
    deciding: Mutex<Option<Recent>>,
    flusher: Flusher,
    repaired: bool,
    world: World,
}

impl EmbeddedEngine {
    /// Name of the file with the records, whose lock says who has the volume.
    pub const FILE: &'static str = store::FILE;

    /// Opens the records in this directory and takes the lock; begins an empty volume where there is none. After
    /// a crash the file is checked first, which reads all of it, at about 130 MB a second; larger files (see
    /// [`limits::META_CHECKED`]) need no check.
    pub fn open(disk: Arc<dyn Disk>, world: &World) -> Result<EmbeddedEngine, OpenError> {
        EmbeddedEngine::open_recorded_from(disk, world, limits::META_CHECKED)
    }

    /// [`EmbeddedEngine::open`] with another length in place of [`limits::META_CHECKED`], so that both ways of
    /// writing are met in small worlds.
    pub fn open_recorded_from(
        disk: Arc<dyn Disk>,
        world: &World,
        length: u64,
    ) -> Result<EmbeddedEngine, OpenError> {
        EmbeddedEngine::begin(disk, world, length, None)
    }

    /// [`EmbeddedEngine::open`], with two files in which commits are written down that the file on the disk does not
    /// have yet: what an earlier process left in them comes first. They are worth something only as long as nobody
    /// else had the volume since.
    pub fn open_after(
        disk: Arc<dyn Disk>,
        world: &World,
        commits: [Arc<dyn DiskFile>; 2],
    ) -> Result<EmbeddedEngine, OpenError> {
        EmbeddedEngine::begin(disk, world, limits::META_CHECKED, Some(commits))
    }

    fn begin(
        disk: Arc<dyn Disk>,
        world: &World,
        length: u64,
        commits: Option<[Arc<dyn DiskFile>; 2]>,
    ) -> Result<EmbeddedEngine, OpenError> {
        let (mut store, mut base) = Store::open(&*disk, length)?;
        let recent = match commits {
            Some(files) => {
                let durable = |batch: &Batch| store.write(batch).map(|written| base = written);
                let begun = Recent::begin(files, durable)?;
                Some(begun.map_err(|error| OpenError::Unusable(error.to_string()))?)
            }
            None => None,
        };
        let repaired = store.was_repaired();
        if repaired {
            world.tell("engine", "repaired", 0, 0);
        }
        let settings =
            base.get(&encode_key(&Key::Setting)).map_err(|e| OpenError::Unusable(e.to_string()))?;
        let label = Label::settle(&*disk, settings.unwrap_or_default())?;
        let shared = Arc::new(Shared::new(base));
        let flusher = Flusher::new(shared.clone(), store, label, world);
        Ok(EmbeddedEngine { shared, deciding: Mutex::new(recent), flusher, repaired, world: world.clone() })
    }

    /// Whether the last process that had the volume did not close it, so that its file was checked at open.
    #[must_use]
    pub fn was_repaired(&self) -> bool {
        self.repaired
    }

    /// The settings record of the volume in this directory, `None` where no volume was formatted. Answers while
    /// another process has the volume, from a copy beside the records.
    pub fn settings(disk: &dyn Disk) -> Result<Option<Vec<u8>>, OpenError> {
        // A crash at the wrong moment leaves an old or torn copy; then the records are asked.
        if let Some(settings) = Label::read(disk)?.filter(|copy| Settings::from_json(copy).is_ok()) {
            return Ok(Some(settings));
        }
        if !disk.exists(store::FILE)? {
            return Ok(None);
        }
        let (_store, base) = Store::open(disk, limits::META_CHECKED)?;
        base.get(&encode_key(&Key::Setting)).map_err(|e| OpenError::Unusable(e.to_string()))
    }

    /// Whether a volume was formatted in this directory.
    pub fn is_formatted(disk: &dyn Disk) -> Result<bool, OpenError> {
        EmbeddedEngine::settings(disk).map(|settings| settings.is_some())
    }

    /// [`Engine::read`] for threads that do not wait: at worst it reads some pages of the file.
    pub fn read_now(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        let names: Vec<Vec<u8>> = keys.iter().map(encode_key).collect();
        let values = self.flusher.settled_read(|| self.shared.get_all(&names))?;
        let decode = |(key, value): (&Key, Option<Vec<u8>>)| {
            value.map(|bytes| decode_record(key, &bytes)).transpose().map_err(EngineError::from)
        };
        keys.iter().zip(values).map(decode).collect()
    }

    /// [`Engine::scan`] for threads that do not wait.
    pub fn scan_now(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        View(&Raw(self)).scan(scan)
    }

    /// [`Engine::commit`] for threads that do not wait; does not look whether memory is left for it.
    pub fn commit_now(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        let mut turn = self.deciding.lock();
        self.flusher.check()?;
        let (applied, batch) = View(&Raw(self)).decide(changes)?;
        if let Some(recent) = &mut *turn
            && recent.add(self.shared.committed() + 1, &batch, self.shared.durable())
        {
            self.world
                .trace
                .complain("commits can't be written down for a next process: a crash may lose the last");
        }
        self.shared.add(batch);
        Ok(applied)
    }
}

/// The bytes of all records. Each call sees one moment; during a commit all calls see the same.
struct Raw<'a>(&'a EmbeddedEngine);

impl Bytes for Raw<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.0.flusher.settled_read(|| self.0.shared.get(key))
    }

    fn range(&self, range: &KeyRange, limit: usize) -> Result<Vec<Pair>, EngineError> {
        self.0.flusher.settled_read(|| self.0.shared.range(range, limit))
    }
}

#[async_trait]
impl Engine for EmbeddedEngine {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.read_now(keys)
    }

    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.scan_now(scan)
    }

    async fn slices(&self, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
        View(&Raw(self)).slices(from)
    }

    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        if self.shared.is_full() {
            self.flusher.flush().await?;
        }
        self.commit_now(changes)
    }

    async fn sync(&self) -> Result<(), EngineError> {
        self.flusher.flush().await
    }

    fn exclusive(&self) -> bool {
        true
    }
}
