//! Serving a mount, from opening the volume to the last flush: everything is put together here, one after the
//! other; how it ends is in `ending`.

mod budget;
mod cache;
mod clone;
mod doors;
mod ending;
mod figures;
mod flush;
mod handing;
mod info;
mod life;
mod reading;
mod staging;
pub mod subdir;
mod traffic;
mod warmup;
mod watch;

pub use cache::CachePlan;
pub use doors::DoorKind;
pub use figures::{Figure, Kind};
pub use life::Life;
pub use staging::StagingPlan;
pub use traffic::bytes_a_second;

use crate::control::{self, Listener, Serving};
use crate::door::{Device, Door, DoorOptions, Kernel, capabilities, staff, watch_waiters};
use crate::meta_url::MetaUrl;
use crate::metrics::{self, Endpoint};
use crate::mount_point::leave;
use crate::mount_table::mounted_at;
use crate::safety::{Finding, Verdict, verdict};
use crate::volume::{Volume, VolumeError, gate, status, whole};
use anyhow::{Context, anyhow, bail};
use doors::OpenDoor;
use fuser::{Config, MountOption, Session, SessionACL};
use serde_json::{Value, json};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use traffic::Limits;
use zest_data::Traffic;
use zest_host::{Arbiters, Role};
use zest_metadata::Engine;
use zest_types::volume::Settings;
use zest_types::{Errno, Ino, Name};
use zest_vfs::Mount;
use zest_vfs::standing::Over;
use zest_world::World;

/// What to mount, where and how.
pub struct Plan {
    /// The volume.
    pub url: MetaUrl,
    /// The directory; prepared.
    pub point: PathBuf,
    /// The directory of the volume that is mounted; empty: all of it.
    pub subdir: Vec<Name>,
    /// How the volume is used.
    pub options: zest_vfs::Options,
    /// Where blocks are cached.
    pub cache: CachePlan,
    /// The user insists on a metadata server that may lose data.
    pub force_unsafe_engine: bool,
    /// Blocks that wait on a local disk.
    pub staging: StagingPlan,
    /// How the traffic with the object store is limited.
    pub traffic: Traffic,
    /// The object store is tried first.
    pub check_storage: bool,
    /// Which door.
    pub kind: DoorKind,
    /// Requests and answers are recorded into this file.
    pub record: Option<PathBuf>,
    /// What the door does by itself.
    pub door: DoorOptions,
    /// Options for the kernel, beside those every mount has.
    pub kernel: Vec<MountOption>,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
    /// The name of the mount's source; `ZestFS:{volume}` otherwise.
    pub source: Option<String>,
    /// Where figures are served.
    pub metrics: Option<Endpoint>,
    /// What is to outlive this process; none without a supervisor.
    pub life: Option<Life>,
}

/// Starts actors on the arbiters of their roles.
struct Stages {
    metadata: actix::ArbiterHandle,
    data: actix::ArbiterHandle,
}

impl zest_vfs::Stage for Stages {
    fn start(&self, role: zest_vfs::Role, begin: Box<dyn FnOnce() + Send>) {
        let arbiter = match role {
            zest_vfs::Role::Metadata => &self.metadata,
            zest_vfs::Role::Data => &self.data,
        };
        if !arbiter.spawn_fn(begin) {
            tracing::error!("an actor could not be started: its thread is gone");
        }
    }
}

struct Me {
    engine: Weak<dyn Engine>,
    settings: Settings,
    world: World,
    point: PathBuf,
    /// The directory that is mounted.
    root: Ino,
    mount: Weak<Mount>,
    /// Set while the door is open.
    kernel: OnceLock<Arc<dyn Kernel>>,
    /// Where figures are served.
    metrics: Option<String>,
}

impl Me {
    /// What the mount says of itself to whoever asks for the state of its volume.
    fn said(&self) -> Option<Value> {
        let (engine, mount) = (self.engine.upgrade()?, self.mount.upgrade()?);
        let server = figures::stalls(&engine.stalls(), self.world.clock.mono());
        let (uuid, point) = (&self.settings.uuid, self.point.to_string_lossy());
        Some(json!({
            "UUID": uuid, "Point": point, "Pid": std::process::id(), "MetaServer": server,
            "Metrics": self.metrics, "Reading": reading::shown(&mount), "Memory": budget::shown(&mount),
        }))
    }
}

impl Serving for Me {
    fn who(&self) -> String {
        let point = self.point.display();
        format!(
            "process {}, which has it mounted at {point}: leave it with zest umount {point}",
            std::process::id()
        )
    }

    fn status(&self) -> String {
        let Some(engine) = self.engine.upgrade() else { return String::new() };
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return String::new();
        };
        let said = self.said().into_iter().collect();
        runtime.block_on(status::report(&*engine, &self.settings, Vec::new(), said)).unwrap_or_default()
    }

    fn health(&self) -> String {
        self.said().map(|said| said.to_string()).unwrap_or_default()
    }

    fn info(&self, question: &str) -> String {
        let Some(engine) = self.engine.upgrade() else { return String::new() };
        let staged = |ino| Some(self.mount.upgrade()?.vfs.shared().staging.as_ref()?.of_file(ino));
        info::answer(&whole::of(engine, self.world.clone(), &self.settings), self.root, staged, question)
    }

    fn staged(&self) -> String {
        let Some(mount) = self.mount.upgrade() else { return String::new() };
        let staging = mount.vfs.shared().staging.as_ref();
        staging.map(|staging| staging::report(&staging.stats(), staging.place())).unwrap_or_default()
    }

    fn flush(&self, question: &str) -> String {
        let Some(vfs) = self.mount.upgrade().map(|mount| mount.vfs.clone()) else { return String::new() };
        flush::answer(&vfs, question)
    }

    fn copy(&self, question: &str, asker: (u32, u32)) -> String {
        match self.mount.upgrade() {
            Some(mount) => {
                clone::answer(&mount, self.root, self.kernel.get().map(|kernel| &**kernel), question, asker)
            }
            None => String::new(),
        }
    }

    fn warm(&self, question: &str) -> String {
        self.mount.upgrade().map(|mount| warmup::answer(&mount, question)).unwrap_or_default()
    }
}

/// Serves a mount until it is left. `ready` is called once it can be used, with the volume's name.
pub fn serve(mut plan: Plan, ready: impl FnOnce(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    // A process the kernel needs for writing must not wait for the kernel's writing; threads inherit it. Only root
    // may ask for that, and others do without.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let arbiters = Arbiters::start().context("the actors' threads can't be started")?;
    let (volume, findings) = open(&arbiters, &mut plan)?;
    plan.options.codec = Some(volume.codec()?);
    plan.options.cache_disks = cache::disks(&plan.cache, &volume.settings);
    let patience = plan.traffic.get_timeout.max(plan.traffic.put_timeout);
    let (world, limits) = Limits::begin(volume.world_within(patience)?, plan.traffic, &volume.settings);
    if plan.check_storage {
        try_store(&arbiters, &volume, &world)?;
    }
    if !plan.options.read_only {
        plan.options.staging = staging::open(&plan.staging, &volume, &world)?;
    }
    let mount = Arc::new(begin(&arbiters, &volume, world.clone(), &plan)?);
    let root = subdir::find(&mount.vfs, &plan.subdir, !plan.options.read_only);
    plan.door.root = root.inspect_err(|_| give_up(&arbiters, &mount))?;
    let me = Me {
        engine: Arc::downgrade(&volume.records()),
        settings: volume.settings.clone(),
        world,
        point: plan.point.clone(),
        root: plan.door.root,
        mount: Arc::downgrade(&mount),
        kernel: OnceLock::new(),
        metrics: plan.metrics.as_ref().and_then(Endpoint::url),
    };
    let (events, heard) = mpsc::channel();
    ending::catch_signals(events.clone())?;
    let session = open_a_door(&mount, &volume, &mut plan).inspect_err(|_| give_up(&arbiters, &mount))?;
    let handing = handing::of(&session, &mut plan, events.clone())?;
    if let Ok(kernel) = session.kernel(plan.door.root) {
        let _first = me.kernel.set(kernel);
    }
    let session = ending::run_door(session, events.clone())?;
    let listener = Listener::start(&names(&plan), Arc::new(me));
    measure(&mut plan, &volume, &mount);
    watch(&arbiters, &volume, (&mount, limits), &plan, findings, events.clone());
    let point = &*plan.point;
    let end = ending::End { heard, events, mount: &mount, arbiters: &arbiters, point, handing };
    let ended = match ready(&volume.settings.name) {
        Ok(()) => end.wait(),
        Err(error) => {
            let _ = leave(&plan.point, true);
            Err(error)
        }
    };
    listener.close();
    // Whatever ended it: what was acknowledged is written, unless the volume is not the same any more.
    let outcome = match ended {
        Err(error) if error.is::<Over>() => Err(error),
        Ok(ending::How::HandedOver) => Ok(()),
        ended => ended.map(drop).and(end.close()),
    };
    // Nothing holds the volume any more when others hear that it is over.
    drop(session);
    drop(mount);
    arbiters.stop();
    drop(volume);
    listener.finish(&outcome.as_ref().copied().map_err(|error| format!("{error:#}")));
    outcome
}

/// Mounts, through the door that is wanted.
fn open_a_door(mount: &Arc<Mount>, volume: &Volume, plan: &mut Plan) -> anyhow::Result<OpenDoor> {
    match plan.kind {
        DoorKind::Uring | DoorKind::Dev => doors::open_native(mount, volume, plan).map(OpenDoor::Native),
        DoorKind::Auto | DoorKind::Fuser => open_door(mount, volume, plan).map(Box::new).map(OpenDoor::Fuser),
    }
}

/// Begins to serve figures.
fn measure(plan: &mut Plan, volume: &Volume, mount: &Arc<Mount>) {
    let Some(mut endpoint) = plan.metrics.take() else { return };
    for (name, value) in [
        ("mp", plan.point.to_string_lossy().into_owned()),
        ("vol_name", volume.settings.name.clone()),
        ("zest_version", env!("CARGO_PKG_VERSION").to_owned()),
    ] {
        endpoint.labels.entry(name.into()).or_insert(value);
    }
    let (mount, begun) = (Arc::downgrade(mount), mount.vfs.shared().world.clock.mono());
    let source = Arc::new(move || Some(figures::figures(&*mount.upgrade()?, begun)));
    if let Err(error) = metrics::serve(endpoint, source) {
        tracing::warn!("metrics are not served: {error:#}");
    }
}

/// Ends the session of a mount that never came to be.
fn give_up(arbiters: &Arbiters, mount: &Arc<Mount>) {
    if mount.vfs.shared().inherited.is_some() {
        // The session belongs to a mount that is there; another process goes on with it, or others end it in time.
        return;
    }
    let mount = Arc::clone(mount);
    let ended = arbiters.run(Role::Metadata, move || Box::pin(async move { mount.end_session().await }));
    if !matches!(ended, Some(Ok(()))) {
        tracing::warn!("the session of this mount could not be ended: others will end it");
    }
}

/// Opens the volume on the thread of its actors, and looks whether it and its server admit this mount. A server
/// that may have lost data makes the mount read-only.
fn open(arbiters: &Arbiters, plan: &mut Plan) -> anyhow::Result<(Volume, Vec<Finding>)> {
    let url = plan.url.clone();
    let kept = plan.life.as_ref().map(Life::records).transpose().context("what is kept can't be shared")?;
    let opened = arbiters.run(Role::Metadata, move || {
        Box::pin(async move {
            let volume = Volume::open_kept(&url, kept).await?;
            let findings = volume.backing.findings(&url).await?;
            Ok::<_, VolumeError>((volume, findings))
        })
    });
    let (volume, findings) =
        opened.ok_or_else(|| anyhow!("volume {} can't be opened: see the log", plan.url))??;
    if let Some(life) = &mut plan.life {
        life.of_volume(&volume.settings.uuid);
        life.shape(&mut plan.options)?;
    }
    let url = &plan.url;
    if let Some(why) = gate::refusal(&volume.settings) {
        return Err(VolumeError::Gate { url: url.to_string(), why }.into());
    }
    findings.iter().for_each(|finding| watch::tell(url, finding));
    match verdict(&findings, plan.force_unsafe_engine) {
        Verdict::Refused(finding) if !plan.options.read_only || finding.id == "redis-version" => {
            let finding = Box::new(finding.clone());
            return Err(VolumeError::Unsafe { url: url.to_string(), finding }.into());
        }
        Verdict::ReadOnly(finding) if !plan.options.read_only => {
            crate::log::tell(&format!("{url} is mounted read-only: {finding}"));
            plan.options.read_only = true;
        }
        _ => {}
    }
    if !plan.options.read_only {
        for what in gate::bypassed(&volume.settings) {
            tracing::warn!("{url}: the volume {what}");
        }
    }
    Ok((volume, findings))
}

fn try_store(arbiters: &Arbiters, volume: &Volume, world: &zest_world::World) -> anyhow::Result<()> {
    let (name, world) = (volume.settings.name.clone(), world.clone());
    let tried = arbiters.run(Role::Data, move || {
        Box::pin(async move { zest_host::probe::works(world.objects, &*world.chance, &name).await })
    });
    match tried {
        Some(outcome) => Ok(outcome.map_err(VolumeError::probe(&volume.url, &volume.settings))?),
        None => bail!("the objects of volume {} can't be tried: see the log", volume.url),
    }
}

/// Begins to look after a volume that others may use, too.
fn watch(
    arbiters: &Arbiters,
    volume: &Volume,
    (mount, limits): (&Arc<Mount>, Limits),
    plan: &Plan,
    told: Vec<Finding>,
    events: mpsc::Sender<ending::Event>,
) {
    if volume.records().exclusive() {
        return;
    }
    let watch = watch::Watch {
        url: plan.url.clone(),
        backing: volume.backing.clone(),
        mount: Arc::downgrade(mount),
        limits,
        settings: volume.stored.clone(),
        told,
        forced: plan.force_unsafe_engine,
        events,
    };
    let every = plan.options.heartbeat;
    let begun = arbiters.handle(Role::Metadata).spawn_fn(move || {
        actix::spawn(watch.run(every));
    });
    if !begun {
        tracing::error!("{}: nobody looks after the volume's settings: its thread is gone", plan.url);
    }
}

fn names(plan: &Plan) -> Vec<String> {
    let device = mounted_at(&plan.point).ok().flatten().map(|entry| control::mount_name(&entry.device));
    let volume = plan.url.local().and_then(|place| control::volume_name(&place.meta()).ok());
    device.into_iter().chain(volume).collect()
}

fn begin(
    arbiters: &Arbiters,
    volume: &Volume,
    world: zest_world::World,
    plan: &Plan,
) -> anyhow::Result<Mount> {
    let stages = Stages { metadata: arbiters.handle(Role::Metadata), data: arbiters.handle(Role::Data) };
    let (engine, settings, options) = (volume.records(), volume.settings.clone(), plan.options.clone());
    let mounted = arbiters.run(Role::Metadata, move || {
        Box::pin(async move {
            let mount = zest_vfs::mount(world, engine, &settings, &options, &stages).await?;
            if !options.read_only {
                zest_upkeep::attach(&mount, &stages).await?;
            }
            Ok::<Mount, Errno>(mount)
        })
    });
    match mounted {
        Some(Ok(mount)) => Ok(mount),
        Some(Err(errno)) => bail!("volume {} can't be mounted: {}: see the log", plan.url, errno.text()),
        None => bail!("volume {} can't be mounted: its actors ended at once: see the log", plan.url),
    }
}

/// The name of the mount's source.
fn source(plan: &Plan, volume: &Volume) -> String {
    plan.source.clone().unwrap_or_else(|| format!("ZestFS:{}", volume.settings.name))
}

fn open_door(mount: &Arc<Mount>, volume: &Volume, plan: &Plan) -> anyhow::Result<Session<Door>> {
    let mut config = Config::default();
    capabilities::threads(&mut config);
    config.acl = if plan.allow_other { SessionACL::All } else { SessionACL::Owner };
    let source = source(plan, volume);
    config.mount_options = vec![
        MountOption::FSName(source),
        // The library passes its own kind of subtype to the helper only; this one the kernel takes, too.
        MountOption::CUSTOM("subtype=zest".into()),
        MountOption::DefaultPermissions,
    ];
    if plan.options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.mount_options.extend(plan.kernel.iter().cloned());
    // Who may change nothing has no session that could hold locks.
    let posix_locks = plan.door.posix_locks && !plan.options.read_only;
    let door = Door::new(mount.vfs.clone(), DoorOptions { posix_locks, ..plan.door });
    let back = door.back();
    let session = Session::new(door, &plan.point, &config).map_err(|error| explain(&plan.point, &error))?;
    if posix_locks || plan.door.told.is_some() {
        let device = Device::new(session.notifier(), session.as_fd(), plan.door.root);
        let opened = device.and_then(|device| staff(&back, device));
        opened.context("the threads that speak to the kernel can't be started")?;
    }
    if posix_locks {
        say_locks(&plan.url);
        let mount = Arc::downgrade(mount);
        watch_waiters(move || mount.upgrade().map(|mount| mount.vfs.clone()))
            .context("the thread that looks after waiters can't be started")?;
    }
    Ok(session)
}

fn say_locks(url: &MetaUrl) {
    tracing::info!(
        "{url}: locks set with fcntl hold for all clients of the volume; those set with flock hold in this mount"
    );
}

/// What it means that the kernel or its helper would not mount.
fn explain(point: &Path, error: &io::Error) -> anyhow::Error {
    let point = point.display();
    match error.kind() {
        io::ErrorKind::NotFound if !Path::new("/dev/fuse").exists() => {
            anyhow!("{point}: there is no /dev/fuse: load the kernel's fuse module (modprobe fuse)")
        }
        io::ErrorKind::NotFound => anyhow!("{point}: fusermount3 is missing: install fuse3, or be root"),
        io::ErrorKind::PermissionDenied => {
            anyhow!("{point} can't be mounted: {error}: be root, or have access to /dev/fuse and {point}")
        }
        _ => anyhow!("{point} can't be mounted: {}", error.to_string().trim()),
    }
}
