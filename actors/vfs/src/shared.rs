//! What all threads of a mount share: views, cache, open files, handles, and the addresses of the actors. Answers
//! small questions about files by putting together what is committed and what is not yet.

use crate::actor::VfsActor;
use crate::chunk_views::ChunkViews;
use crate::ears::Ears;
use crate::files::Files;
use crate::handles::{FileHandle, Handles};
use crate::ids::SlicePool;
use crate::inherited::Inheritance;
use crate::live::Live;
use crate::reserve::Reserve;
use crate::stream::Streams;
use crate::waiters::Waiters;
use actix::Addr;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use zest_cache::{CacheActor, DiskTier, MemoryTier, Meter};
use zest_data::{BlockNames, Budget, Handover, Shares};
use zest_metadata::{Change, MetadataActor, Op, Views, compaction};
use zest_types::{Attr, Caller, Errno, Handle, Ino, Placed, SliceId, Time, limits};
use zest_uploader::{Commits, HandOver, Outcomes, Staging, UploaderActor};
use zest_world::planted::{self, Bug};
use zest_world::{BoxFuture, World};

/// Actors of a mount.
pub struct Links {
    /// Slow requests.
    pub vfs: Addr<VfsActor>,
    /// Records.
    pub metadata: Addr<MetadataActor>,
    /// Blocks down.
    pub cache: Addr<CacheActor>,
    /// Blocks up.
    pub uploader: Addr<UploaderActor>,
}

/// Hears that a file was removed and its data (its length is given) may go.
pub type OnDeleted = Box<dyn Fn(Ino, u64) + Send + Sync>;

/// Hears that a write left a long chunk list. What it gives is ready when the list was shortened, or would not be.
pub type OnCrowded = Box<dyn Fn(Ino, u32) -> BoxFuture<'static, ()> + Send + Sync>;

/// Ends work that goes on behind the mount; what it gives is ready when nothing is half done any more.
pub type OnClosing = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// State of a mount.
pub struct Shared {
    /// The outside.
    pub world: World,
    /// What may be believed without asking.
    pub views: Arc<Views>,
    /// Blocks in memory.
    pub tier: Arc<MemoryTier>,
    /// Blocks in cache files.
    pub disk: Option<Arc<DiskTier>>,
    /// Open files.
    pub files: Arc<Files>,
    /// Handles.
    pub handles: Handles,
    /// Flattened chunk lists.
    pub chunk_views: ChunkViews,
    /// Slice numbers.
    pub slice_ids: SlicePool,
    /// Memory for unflushed writes.
    pub budget: Budget,
    /// Memory for writes that wait for memory.
    pub reserve: Reserve,
    /// Names of blocks.
    pub names: BlockNames,
    /// Nobody else can change the volume.
    pub exclusive: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// What may change while the mount serves.
    pub live: Live,
    /// An open may believe what was learned for as long as it holds; elsewhere it asks.
    pub open_cache: bool,
    /// How often the session says that it lives.
    pub heartbeat: Duration,
    /// This mount cleans up after others.
    pub background_jobs: bool,
    /// How often such jobs are done, by whichever client.
    pub jobs_every: Duration,
    /// Session of the mount.
    pub session: u64,
    /// The volume has access control lists.
    pub acl: bool,
    /// Blocks that wait on a local disk.
    pub staging: Option<Arc<Staging>>,
    /// What streams of reads share.
    pub streams: Streams,
    /// What each part of the mount may take of memory.
    pub shares: Shares,
    /// What reading costs.
    pub meter: Arc<Meter>,
    /// Set once all actors run.
    pub links: OnceLock<Links>,
    /// Set by whoever removes the data of deleted files.
    pub on_deleted: OnceLock<OnDeleted>,
    /// Set by whoever shortens chunk lists.
    pub on_crowded: Arc<OnceLock<OnCrowded>>,
    /// Set by whoever works behind the mount.
    pub on_closing: OnceLock<OnClosing>,
    /// A slice was committed or failed: waiting writers may try again.
    pub space: tokio::sync::Notify,
    /// Hears what others change, and wakes those who wait for locks.
    pub ears: Arc<Ears>,
    /// Time and length of files at their last open, of which the kernel may still have pages; only where others
    /// change the volume.
    pub seen: Mutex<BTreeMap<Ino, (Time, u64)>>,
    /// Who waits for locks, and what this mount has locked.
    pub waiters: Waiters,
    /// What an earlier process of this mount left.
    pub inherited: Option<Inheritance>,
    waiting: AtomicUsize,
}

/// What a mount is made of besides actors.
pub struct Parts {
    /// The outside.
    pub world: World,
    /// Views.
    pub views: Arc<Views>,
    /// See [`Shared::ears`].
    pub ears: Arc<Ears>,
    /// Blocks in memory.
    pub tier: Arc<MemoryTier>,
    /// Blocks in cache files.
    pub disk: Option<Arc<DiskTier>>,
    /// Open files.
    pub files: Arc<Files>,
    /// Memory for unflushed writes.
    pub budget: Budget,
    /// Names of blocks.
    pub names: BlockNames,
    /// See [`Shared::exclusive`].
    pub exclusive: bool,
    /// See [`Shared::read_only`].
    pub read_only: bool,
    /// See [`Shared::live`].
    pub live: Live,
    /// See [`Shared::open_cache`].
    pub open_cache: bool,
    /// See [`Shared::heartbeat`].
    pub heartbeat: Duration,
    /// See [`Shared::background_jobs`].
    pub background_jobs: bool,
    /// See [`Shared::jobs_every`].
    pub jobs_every: Duration,
    /// See [`Shared::session`].
    pub session: u64,
    /// See [`Shared::acl`].
    pub acl: bool,
    /// See [`Shared::staging`].
    pub staging: Option<Arc<Staging>>,
    /// See [`Shared::streams`].
    pub streams: Streams,
    /// See [`Shared::shares`].
    pub shares: Shares,
    /// See [`Shared::inherited`].
    pub inherited: Option<Inheritance>,
}

impl Shared {
    /// State without actors yet.
    #[must_use]
    pub fn new(parts: Parts) -> Shared {
        Shared {
            world: parts.world,
            views: parts.views,
            tier: parts.tier,
            disk: parts.disk,
            files: parts.files,
            handles: Handles::of(parts.inherited.as_ref().map_or(0, |before| before.generation)),
            chunk_views: ChunkViews::default(),
            slice_ids: SlicePool::default(),
            budget: parts.budget,
            reserve: Reserve::new(parts.shares.waiting),
            names: parts.names,
            exclusive: parts.exclusive,
            read_only: parts.read_only,
            live: parts.live,
            open_cache: parts.open_cache,
            heartbeat: parts.heartbeat,
            background_jobs: parts.background_jobs,
            jobs_every: parts.jobs_every,
            session: parts.session,
            acl: parts.acl,
            staging: parts.staging,
            streams: parts.streams,
            shares: parts.shares,
            meter: Arc::default(),
            links: OnceLock::new(),
            on_deleted: OnceLock::new(),
            on_crowded: Arc::default(),
            on_closing: OnceLock::new(),
            space: tokio::sync::Notify::new(),
            ears: parts.ears,
            seen: Mutex::default(),
            waiters: Waiters::default(),
            inherited: parts.inherited,
            waiting: AtomicUsize::new(0),
        }
    }

    /// The actors; `EIO` before they run.
    pub fn links(&self) -> Result<&Links, Errno> {
        self.links.get().ok_or(Errno::EIO)
    }

    /// Whether changes are refused, for now or for as long as the mount lives.
    #[must_use]
    pub fn refuses_changes(&self) -> bool {
        self.read_only || self.live.is_frozen()
    }

    /// Whether names and attributes are answered from views. Where others change the volume and nobody tells us of
    /// it, the kernel holds them for as long as the user allows, and asking again must mean asking.
    #[must_use]
    pub fn answers_from_views(&self) -> bool {
        self.exclusive || self.views.hears()
    }

    /// Monotonic time.
    pub fn mono(&self) -> Duration {
        self.world.clock.mono()
    }

    /// The file behind a handle.
    pub fn file(&self, handle: Handle) -> Result<Arc<FileHandle>, Errno> {
        self.handles.file(handle).ok_or(Errno::EBADF)
    }

    /// Attributes as a caller shall see them, if a view has them.
    #[must_use]
    pub fn attr(&self, ino: Ino) -> Option<Attr> {
        // Unflushed first: a slice that is committed in between is then seen twice, never not at all.
        let pending = self.pending(ino);
        self.views.attr(ino, self.mono()).map(|attr| on_top(attr, pending))
    }

    /// Length and time of what is unflushed of a file.
    #[must_use]
    pub fn pending(&self, ino: Ino) -> Option<(u64, Time)> {
        let file = self.files.get(ino)?;
        let writer = file.dirty_writer()?;
        Some((writer.length()?, writer.mtime()?))
    }

    /// A committed record's attributes with what was unflushed on top; `pending` from before the record was asked
    /// for, so that a slice that was committed since is not missed.
    #[must_use]
    pub fn with_pending(&self, ino: Ino, attr: Attr, pending: Option<(u64, Time)>) -> Attr {
        self.attr(ino).unwrap_or_else(|| on_top(on_top(attr, pending), self.pending(ino)))
    }

    /// Hands sealed blocks and slices of a file to the uploader; to be called with its writer locked, so that
    /// they arrive in order.
    pub fn hand_over(&self, ino: Ino, handover: Vec<Handover>) {
        if handover.is_empty() {
            return;
        }
        if let Some(links) = self.links.get() {
            links.uploader.do_send(HandOver { ino, handed: handover });
        }
    }

    /// Counts a request that waits for an actor; `false` when there are too many.
    pub fn begin_waiting(&self) -> bool {
        let fits = |n: usize| (n < limits::WAITING_REQUESTS).then_some(n + 1);
        self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    /// How many there are.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// The opposite of [`Shared::begin_waiting`].
    pub fn end_waiting(&self) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

fn on_top(mut attr: Attr, pending: Option<(u64, Time)>) -> Attr {
    if let Some((length, mtime)) = pending {
        attr.length = attr.length.max(length);
        attr.mtime = attr.mtime.max(mtime);
        attr.ctime = attr.ctime.max(mtime);
    }
    attr
}

impl Commits for Shared {
    fn commit(&self, ino: Ino, parts: Vec<Placed>, mtime: Time) -> BoxFuture<'static, Result<(), Errno>> {
        let metadata = self.links().map(|links| links.metadata.clone());
        let (views, clock) = (Arc::clone(&self.views), Arc::clone(&self.world.clock));
        let on_crowded = Arc::clone(&self.on_crowded);
        Box::pin(async move {
            let mut added: BTreeMap<u32, usize> = BTreeMap::new();
            for part in &parts {
                *added.entry(part.index).or_default() += 1;
            }
            let op = Op::CommitSlices { ino, parts, mtime };
            let change = Change { caller: Caller::SYSTEM, op };
            metadata?.send(change).await.map_err(|_| Errno::EIO)??;
            for (index, added) in added {
                let Some(list) = views.chunk(ino, index, clock.mono()) else { continue };
                if let Some(hears) = on_crowded.get().filter(|_| compaction::after_write(&list, added)) {
                    let shortened = hears(ino, index);
                    if compaction::before_going_on(list.len()) {
                        shortened.await;
                    }
                }
            }
            Ok(())
        })
    }
}

impl Outcomes for Shared {
    fn committed(&self, ino: Ino, slice: SliceId) {
        self.settle(ino, |writer| writer.committed(slice));
    }

    fn failed(&self, ino: Ino, slice: SliceId, errno: Errno) {
        self.world.tell("vfs", "write failed", ino.0, u64::from(errno.number().unsigned_abs()));
        if errno == Errno::ENOENT || planted::active(Bug::LostWriteUntold) {
            // The file was removed meanwhile: nobody is left who could miss the write.
            return self.settle(ino, |writer| writer.committed(slice));
        }
        self.settle(ino, |writer| writer.failed(slice, errno));
    }
}

impl Shared {
    fn settle(&self, ino: Ino, with: impl FnOnce(&mut zest_data::FileWriter)) {
        if let Some(file) = self.files.get(ino) {
            let mut writer = file.writer();
            with(&mut writer);
            file.note_dirty(&writer);
            drop(writer);
            self.files.tidy(ino);
        }
        self.space.notify_waiters();
    }
}
