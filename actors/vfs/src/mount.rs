//! Putting a mount together: session, state and actors, each actor on the stage its role is played on. The same
//! for production, where a stage is an arbiter's thread, and for the simulator, where all share one.

use crate::Vfs;
use crate::actor::VfsActor;
use crate::disks::{self, CacheDisks};
use crate::ears::Ears;
use crate::files::Files;
use crate::inherited::Inheritance;
use crate::live::Live;
use crate::shared::{Links, Parts, Shared};
use crate::slow::Task;
use crate::stream::Streams;
use actix::{Actor, Addr};
use std::sync::Arc;
use std::time::Duration;
use zest_cache::flights::Bounds;
use zest_cache::{CacheActor, MemoryTier};
use zest_data::pool::BlockPool;
use zest_data::{BlockCodec, BlockNames, Budget, Shares};
use zest_metadata::{Engine, MetaCore, MetadataActor, OpenFiles, Views, VolumeRules, session};
use zest_types::volume::Settings;
use zest_types::{Caller, Errno, limits};
use zest_uploader::{Commits, Outcomes, Staging, UploaderActor};
use zest_world::{Unflushed, World};

/// What an actor does, and so where it should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Records and slow requests.
    Metadata,
    /// Blocks, up and down.
    Data,
}

/// Runs the beginnings of actors where they belong.
pub trait Stage {
    /// Runs `begin` on the thread for this role, inside its runtime, soon.
    fn start(&self, role: Role, begin: Box<dyn FnOnce() + Send>);
}

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nothing may be changed; no session is made.
    pub read_only: bool,
    /// How long records are believed where others may change them.
    pub lease: Duration,
    /// Opening a file believes what was learned of it for this long, and does not ask; zero: each open asks. Not
    /// needed where nobody else changes the volume.
    pub open_cache: Duration,
    /// How often the session says that it lives; it counts as dead after five times this.
    pub heartbeat: Duration,
    /// Clean up after others: old trash, and what dead clients left.
    pub background_jobs: bool,
    /// How often the jobs of a volume are done, by whichever of its clients; as long a deleted file is the business
    /// of who deleted it.
    pub jobs_every: Duration,
    /// What each part may take of memory; of unflushed writes at least [`limits::WRITE_BUDGET_MIN`].
    pub memory: Shares,
    /// Directories for cache files; none: blocks are kept in memory only.
    pub cache_disks: CacheDisks,
    /// How cache files are kept; the block size is the volume's.
    pub cache: zest_cache::disk::Settings,
    /// Puts under way at once.
    pub max_uploads: usize,
    /// Gets under way at once.
    pub max_downloads: usize,
    /// Bytes a handle may read ahead, in whole blocks; [`limits::READAHEAD_BLOCKS`] blocks where nothing is said.
    pub readahead: Option<u64>,
    /// Blocks that are fetched whole at once because parts of them were wanted again and again; any number where
    /// nothing is said.
    pub prefetch: Option<usize>,
    /// The session record, JSON.
    pub session_info: Vec<u8>,
    /// Encodes and decodes the volume's objects. Without one it is made from the settings, which works unless their
    /// private key wants a passphrase.
    pub codec: Option<Arc<BlockCodec>>,
    /// Blocks that wait on a local disk, from an earlier mount or from now on; none where nothing is to be changed.
    pub staging: Option<Arc<Staging>>,
    /// What an earlier process of this mount left, where one served it.
    pub inheritance: Option<Inheritance>,
    /// Who remembers which files have unflushed writes, for the process that comes next.
    pub unflushed: Option<Arc<dyn Unflushed>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            read_only: false,
            lease: Duration::from_secs(1),
            open_cache: Duration::ZERO,
            heartbeat: Duration::from_secs(limits::HEARTBEAT_SECS),
            background_jobs: true,
            jobs_every: Duration::from_secs(limits::JOBS_EVERY_SECS),
            memory: Shares::default(),
            cache_disks: CacheDisks::default(),
            cache: zest_cache::disk::Settings::default(),
            max_uploads: limits::UPLOADS,
            max_downloads: limits::DOWNLOADS,
            readahead: None,
            prefetch: None,
            session_info: b"{}".to_vec(),
            codec: None,
            staging: None,
            inheritance: None,
            unflushed: None,
        }
    }
}

/// A volume in use.
pub struct Mount {
    /// The entry for doors.
    pub vfs: Vfs,
    core: Arc<MetaCore>,
    engine: Arc<dyn Engine>,
    session: u64,
}

/// Puts a mount together. What dead sessions of an exclusive volume left open is removed on the way.
pub async fn mount(
    world: World,
    engine: Arc<dyn Engine>,
    settings: &Settings,
    options: &Options,
    stage: &dyn Stage,
) -> Result<Mount, Errno> {
    let codec = codec(&world, settings, options)?;
    let world = with_staged(world, options);
    let exclusive = engine.exclusive();
    let session = begin_session(&*engine, &world, options).await?;
    let budget = writes(&options.memory);
    let files = Files::new(settings.block_size(), budget.clone()).witnessed(options.unflushed.clone());
    let files = Arc::new(files);
    let lease = if exclusive { Duration::MAX } else { options.lease.max(options.open_cache) };
    let views = Arc::new(Views::of(lease, options.memory.records));
    let ears = Arc::new(Ears::new(Arc::clone(&views)));
    if engine.listen(Arc::clone(&ears) as _) {
        views.hear();
    }
    let rules = VolumeRules {
        session,
        trash_days: settings.trash_days,
        capacity: (settings.capacity, settings.inodes),
        heartbeat: options.heartbeat,
        acl: settings.enable_acl,
        user_quotas: settings.user_group_quota(),
    };
    let open_files: Arc<dyn OpenFiles> = Arc::clone(&files) as _;
    let core =
        Arc::new(MetaCore::new(Arc::clone(&engine), Arc::clone(&views), world.clone(), open_files, rules));
    core.introduce(&options.session_info);
    core.look_for_quotas().await?;
    if exclusive && !options.read_only {
        session::end_dead(&core, session).await?;
    }
    let names = names(settings);
    let tier = Arc::new(MemoryTier::new(options.memory.blocks));
    let disk = disks::open(&world, settings, options, &tier).await;
    let shared = Arc::new(Shared::new(Parts {
        world,
        views,
        ears,
        tier,
        disk,
        files,
        budget,
        names,
        exclusive,
        read_only: options.read_only,
        live: Live::new(settings),
        open_cache: !options.open_cache.is_zero(),
        heartbeat: options.heartbeat,
        background_jobs: options.background_jobs,
        jobs_every: options.jobs_every,
        session,
        acl: settings.enable_acl,
        staging: options.staging.clone(),
        streams: streams(settings, options),
        shares: options.memory,
        inherited: options.inheritance.clone(),
    }));
    mistrust_numbers(&shared, &core);
    start_actors(&shared, &core, codec, options, stage).await?;
    shared.inherit(&*engine).await?;
    if !options.read_only {
        shared.fetch_ids().await?;
    }
    Ok(Mount { vfs: Vfs::new(shared), core, engine, session })
}

/// A session, or that of the earlier process.
async fn begin_session(engine: &dyn Engine, world: &World, options: &Options) -> Result<u64, Errno> {
    let (info, heartbeat) = (&*options.session_info, options.heartbeat);
    match &options.inheritance {
        _ if options.read_only => Ok(0),
        Some(before) if before.session != 0 => {
            session::go_on(engine, world, before.session, info, heartbeat).await?;
            Ok(before.session)
        }
        _ => session::begin(engine, world, info, heartbeat).await,
    }
}

/// Memory for unflushed writes.
fn writes(shares: &Shares) -> Budget {
    Budget::with_pool(shares.writes.max(limits::WRITE_BUDGET_MIN), BlockPool::keeping(shares.idle))
}

/// How far streams may run ahead: each as far as was said, all of them into half of the memory for blocks, or as much as
/// is on its way to cache files.
fn streams(settings: &Settings, options: &Options) -> Streams {
    let block = u64::from(settings.block_size().max(1));
    let most = options.readahead.map_or(limits::READAHEAD_BLOCKS, |bytes| bytes / block);
    let files = if options.cache_disks.0.is_empty() { 0 } else { options.memory.files };
    Streams::new(most, (options.memory.blocks / 2).max(files) / block)
}

fn names(settings: &Settings) -> BlockNames {
    BlockNames {
        volume: settings.name.clone(),
        hash_prefix: settings.hash_prefix,
        block_size: settings.block_size(),
    }
}

/// The store may come back without its last changes: numbers it gave out could then be given to others, too.
fn mistrust_numbers(shared: &Arc<Shared>, core: &Arc<MetaCore>) {
    let (slices, inodes) = (Arc::downgrade(shared), Arc::downgrade(core));
    shared.ears.in_doubt(move || {
        slices.upgrade().iter().for_each(|shared| shared.slice_ids.clear());
        inodes.upgrade().iter().for_each(|core| core.forget_numbers());
    });
}

/// What waits stands in front of the store, for whoever asks.
fn with_staged(world: World, options: &Options) -> World {
    match &options.staging {
        Some(staging) => World { objects: staging.objects(), ..world },
        None => world,
    }
}

fn codec(world: &World, settings: &Settings, options: &Options) -> Result<Arc<BlockCodec>, Errno> {
    if let Some(codec) = &options.codec {
        return Ok(Arc::clone(codec));
    }
    BlockCodec::of(settings, None).map(Arc::new).map_err(|error| {
        world.trace.complain(&format!("volume {} can't be mounted: {error}", settings.name));
        Errno::EIO
    })
}

async fn start_actors(
    shared: &Arc<Shared>,
    core: &Arc<MetaCore>,
    codec: Arc<BlockCodec>,
    options: &Options,
    stage: &dyn Stage,
) -> Result<(), Errno> {
    let core = Arc::clone(core);
    let metadata = begin(stage, Role::Metadata, move || MetadataActor::new(core)).await?;
    let state = Arc::clone(shared);
    let decoder = Arc::clone(&codec);
    let bounds =
        Bounds { running: options.max_downloads, bytes: limits::FETCHING, prefetches: limits::PREFETCHES };
    let (prefetch, uploads) = (options.prefetch, options.max_uploads);
    let cache = begin(stage, Role::Data, move || {
        CacheActor::new(state.world.clone(), Arc::clone(&state.tier), decoder)
            .on_disk(state.disk.clone())
            .with(Arc::clone(&state.meter), bounds)
            .growing(prefetch)
    })
    .await?;
    if let Some(staging) = shared.staging.clone() {
        let (core, codec) = (Arc::clone(&staging), Arc::clone(&codec));
        staging.runs(begin(stage, Role::Data, move || core.actor(codec)).await?);
    }
    let state = Arc::clone(shared);
    let uploader = begin(stage, Role::Data, move || {
        let commits: Arc<dyn Commits> = Arc::clone(&state) as _;
        let outcomes: Arc<dyn Outcomes> = Arc::clone(&state) as _;
        let sink = disks::sink(&state);
        UploaderActor::new(state.world.clone(), state.names.clone(), codec, commits, outcomes, sink)
            .with_uploads(uploads)
            .with_staging(state.staging.clone())
    })
    .await?;
    disks::tend(shared, stage).await?;
    let state = Arc::clone(shared);
    let vfs = begin(stage, Role::Metadata, move || VfsActor::new(state)).await?;
    let links = Links { vfs, metadata, cache, uploader };
    shared.links.set(links).map_err(|_| Errno::EIO)
}

/// Starts a supervised actor on the stage for its role.
pub async fn begin<A: Actor<Context = actix::Context<A>> + actix::Supervised>(
    stage: &dyn Stage,
    role: Role,
    make: impl FnOnce() -> A + Send + 'static,
) -> Result<Addr<A>, Errno> {
    let (ready, started) = tokio::sync::oneshot::channel();
    let start = move || {
        let actor = make();
        let _gone = ready.send(actix::Supervisor::start(|_| actor));
    };
    stage.start(role, Box::new(start));
    started.await.map_err(|_| Errno::EIO)
}

impl Mount {
    /// Commits and writes everything, and ends the session. The mount must not be used afterwards.
    pub async fn close(&self) -> Result<(), Errno> {
        let task = Task { shared: Arc::clone(self.vfs.shared()), caller: Caller::SYSTEM, interrupt: None };
        let flushed = task.sync_all().await;
        if let Some(end) = task.shared.on_closing.get() {
            end().await;
        }
        self.empty_staging().await;
        disks::close(self.vfs.shared()).await;
        self.end_session().await?;
        flushed
    }

    /// Commits everything, for a process that goes on with this mount. What can't be written is lost, and told by that
    /// one.
    pub async fn settle(&self) -> Result<(), Errno> {
        let task = Task { shared: Arc::clone(self.vfs.shared()), caller: Caller::SYSTEM, interrupt: None };
        task.commit_all().await?;
        task.sync_records().await
    }

    /// Leaves the volume to a process that goes on with this mount, after [`Mount::settle`]: the session stays.
    pub async fn leave(&self) -> Result<(), Errno> {
        if let Some(end) = self.vfs.shared().on_closing.get() {
            end().await;
        }
        disks::close(self.vfs.shared()).await;
        self.core.sync().await
    }

    /// Ends the session alone: for a mount that was never used.
    pub async fn end_session(&self) -> Result<(), Errno> {
        if self.session != 0 {
            session::end(&self.core, self.session).await?;
            self.core.sync().await?;
        }
        Ok(())
    }

    /// Waits until everything that was staged is in the store.
    async fn empty_staging(&self) {
        let shared = self.vfs.shared();
        let Some(staging) = shared.staging.clone() else { return };
        staging.drain(None).await;
        shared.world.offload.run("empty the staging disk", Box::new(move || staging.finish())).await;
    }

    /// Takes over settings that somebody changed: from now on their limits and trash days hold.
    pub fn take_settings(&self, settings: &Settings) {
        self.vfs.shared().live.take(settings);
        let capacity = (settings.capacity, settings.inodes);
        self.core.take_limits(settings.trash_days, capacity, settings.user_group_quota());
    }

    /// The record store, for those who tend the volume.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
}
