//! Blocks that are durable on a local disk and on their way to the store: the write-back mode. A slice is committed
//! once its blocks are staged and synced; the staged copy goes when the store has the block. What waits is read from
//! here, survives this process and the power, and is finished by the next mount.
//!
//! [`Journal`] keeps bytes, [`order`] says who goes next, [`StagingActor`] does it, [`StagedObjects`] shows what waits
//! to everybody who asks for objects.

mod actor;
pub mod hours;
mod index;
pub mod journal;
mod objects;
pub mod order;
mod others;
mod record;
mod recovery;
mod segment;

pub use actor::StagingActor;
pub use hours::{Hours, Patience};
pub use index::Tally;
pub use journal::Journal;
pub use objects::StagedObjects;
pub use recovery::Recovered;

use actix::Addr;
use actor::{DrainStaged, Stage};
use bytes::Bytes;
use index::{Entry, Index, Spot};
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Notify, Semaphore, oneshot};
use zest_data::codec;
use zest_data::{BlockCodec, BlockId, BlockNames};
use zest_types::Ino;
use zest_types::limits::{STAGED_BLOCKS, STAGING_BYTES, STAGING_SEGMENT};
use zest_world::{Disk, Objects, World};

/// Why a staging directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// Another process has it.
    #[error("another process stages blocks there: name another directory with --cache-dir")]
    InUse,
    /// The disk failed.
    #[error("{what} can't be used: {error}")]
    Disk {
        /// Which file.
        what: String,
        /// The system's words.
        error: io::Error,
    },
}

impl StagingError {
    fn of(what: &str) -> impl FnOnce(io::Error) -> StagingError {
        let what = what.to_owned();
        move |error| StagingError::Disk { what, error }
    }
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the journal.
    pub bytes: u64,
    /// Thousandths of the disk that stay free.
    pub keep_free: u64,
    /// Bytes at which a file of it grows no more.
    pub segment: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { bytes: STAGING_BYTES, keep_free: 50, segment: STAGING_SEGMENT }
    }
}

/// What is staged, where, and until when.
pub struct StagingOptions {
    /// Directory of the journal.
    pub disk: Arc<dyn Disk>,
    /// What it is called in messages.
    pub place: String,
    /// The volume's UUID.
    pub uuid: String,
    /// How its blocks are called.
    pub names: BlockNames,
    /// Directories in which the volume format's first client left staged blocks.
    pub others: Vec<Arc<dyn Disk>>,
    /// Whether new blocks are staged; otherwise what is there is finished.
    pub stage: bool,
    /// Only blocks of fewer bytes are staged; 0: all.
    pub below: u32,
    /// What holds uploads back.
    pub patience: Patience,
    /// How much may wait.
    pub bounds: Bounds,
    /// Uploads under way at once.
    pub uploads: usize,
}

/// Counts of what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagingStats {
    /// What waits for its upload.
    pub waiting: Tally,
    /// What can't be uploaded because it is damaged, and is kept.
    pub damaged: Tally,
    /// Blocks that went to the store since the mount began.
    pub uploaded: u64,
    /// Blocks that went the direct way, since staging had no room or failed.
    pub direct: u64,
}

/// The staged blocks of a mount. Shared by all threads.
pub struct Staging {
    /// With the store itself, not with what waits.
    world: World,
    options: StagingOptions,
    journal: Arc<Journal>,
    index: Mutex<Index>,
    /// A block left the index.
    changed: Notify,
    /// Puts that go the direct way.
    direct: Semaphore,
    codec: OnceLock<Arc<BlockCodec>>,
    actor: OnceLock<Addr<StagingActor>>,
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging").field("place", &self.options.place).finish_non_exhaustive()
    }
}

impl Staging {
    /// Opens the directory, and finds what waits there. Blocks; troubles are told in words.
    pub fn open(world: World, options: StagingOptions) -> Result<Arc<Staging>, StagingError> {
        let chance = Arc::clone(&world.chance);
        let (journal, found) =
            Journal::open(Arc::clone(&options.disk), &options.uuid, chance, options.bounds)?;
        let mut index = Index::default();
        for (head, place) in found.blocks {
            index.add(head.block, head.ino, head.at, head.plain, Spot::Journal(place));
        }
        let mut troubles = found.troubles;
        for (folder, disk) in options.others.iter().enumerate() {
            for left in others::find(&**disk, &options.names, &mut troubles) {
                let at = world.clock.now().sec;
                let spot = Spot::Other { folder, path: left.path };
                index.add(left.name.block, Ino(0), at, left.name.len, spot);
            }
        }
        for trouble in troubles {
            world.trace.complain(&format!("staged blocks in {}: {trouble}", options.place));
        }
        let direct = Semaphore::new(options.uploads);
        Ok(Arc::new(Staging {
            world,
            options,
            journal: Arc::new(journal),
            index: Mutex::new(index),
            changed: Notify::new(),
            direct,
            codec: OnceLock::new(),
            actor: OnceLock::new(),
        }))
    }

    /// The actor that stages and uploads. What it needs to read blocks of others is `codec`.
    #[must_use]
    pub fn actor(self: &Arc<Staging>, codec: Arc<BlockCodec>) -> StagingActor {
        let _ = self.codec.set(codec);
        StagingActor::new(Arc::clone(self))
    }

    /// The actor runs.
    pub fn runs(&self, actor: Addr<StagingActor>) {
        let _ = self.actor.set(actor);
    }

    /// The store with what waits in front of it.
    #[must_use]
    pub fn objects(self: &Arc<Staging>) -> Arc<dyn Objects> {
        Arc::new(StagedObjects::new(Arc::clone(self)))
    }

    /// Where it is, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.options.place
    }

    /// Whether a block of so many bytes is staged.
    #[must_use]
    pub fn takes(&self, len: usize) -> bool {
        self.options.stage && (self.options.below == 0 || len < self.options.below as usize)
    }

    /// Whether blocks are staged at all.
    #[must_use]
    pub fn stages(&self) -> bool {
        self.options.stage
    }

    /// Stages a block. When this says yes, it survives a crash; otherwise it has to go to the store.
    pub async fn stage(&self, ino: Ino, block: BlockId, plain: u32, data: Bytes) -> bool {
        let Some(actor) = self.actor.get() else { return false };
        let (done, wait) = oneshot::channel();
        actor.do_send(Stage { ino, block, plain, data, done });
        wait.await.unwrap_or(false)
    }

    /// A place for a put that goes the direct way, next to uploads of what is staged.
    pub async fn direct_place(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.index.lock().direct += 1;
        self.direct.acquire().await.ok()
    }

    /// Everything that waits now is in the store when this is ready; delay and hours do not count for it. Of one file
    /// where one is named. Damaged blocks are not waited for.
    pub async fn drain(&self, ino: Option<Ino>) {
        let Some(actor) = self.actor.get() else { return };
        let (done, wait) = oneshot::channel();
        actor.do_send(DrainStaged { ino, done });
        let _ended = wait.await; // an actor that ends leaves what waits to the next mount
    }

    /// Nothing is staged any more: files that are not needed go.
    pub fn finish(&self) {
        self.journal.finish();
    }

    /// What waits.
    #[must_use]
    pub fn stats(&self) -> StagingStats {
        self.index.lock().stats()
    }

    /// What waits of one file.
    #[must_use]
    pub fn of_file(&self, ino: Ino) -> Tally {
        self.index.lock().of_file(ino)
    }

    fn is_full(&self) -> bool {
        self.index.lock().stats().waiting.blocks >= STAGED_BLOCKS
    }

    /// The object of a block that waits; `None` when it does not, or can't be read.
    async fn object(self: Arc<Staging>, block: BlockId) -> Option<Result<Bytes, String>> {
        let entry = self.index.lock().get(&block)?;
        Some(self.load(&entry).await.map_err(|error| error.to_string()))
    }

    /// The object's bytes of a staged block.
    async fn load(&self, entry: &Entry) -> Result<Bytes, LoadError> {
        let slot = Arc::new(Mutex::new(None));
        let filled = Arc::clone(&slot);
        match &entry.spot {
            Spot::Journal(place) => {
                let (journal, place) = (Arc::clone(&self.journal), *place);
                let job = move || *filled.lock() = Some(journal.read(&place).map_err(LoadError::Journal));
                self.world.offload.run("read a staged block", Box::new(job)).await;
            }
            Spot::Other { folder, path } => {
                let disk = self.options.others.get(*folder).cloned().ok_or(LoadError::Lost)?;
                let (path, len) = (path.clone(), entry.plain);
                let job = move || *filled.lock() = Some(others::read(&*disk, &path, len));
                self.world.offload.run("read a staged block", Box::new(job)).await;
            }
        }
        let read = slot.lock().take().unwrap_or(Err(LoadError::Lost))?;
        match (&entry.spot, self.codec.get()) {
            (Spot::Journal(_), _) => Ok(read),
            (Spot::Other { .. }, Some(codec)) => {
                codec::encode(&self.world, codec, read).await.map_err(|_| LoadError::Lost)
            }
            (Spot::Other { .. }, None) => Err(LoadError::Lost),
        }
    }
}

/// Why the bytes of a staged block are not to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The journal says why.
    #[error(transparent)]
    Journal(journal::ReadError),
    /// A file of another client is not what it should be.
    #[error("{0}")]
    Other(String),
    /// The disk failed with a file of another client.
    #[error("the disk can't read it: {0}")]
    Disk(io::Error),
    /// The work broke off.
    #[error("the work on it broke off")]
    Lost,
}
