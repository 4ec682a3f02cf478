//! Serving a mount, from opening the volume to the last flush. One thread coordinates: it hears of signals and of
//! the end of the door, and whatever ends the mount, everything acknowledged is written before the process ends.

use crate::control::{self, Listener, Serving};
use crate::door::{Door, DoorOptions, capabilities};
use crate::meta_url::MetaUrl;
use crate::mount_point::{PointError, leave};
use crate::mount_table::mounted_at;
use crate::volume::{Volume, status};
use anyhow::{Context, anyhow, bail};
use fuser::{Config, MountOption, Session, SessionACL};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;
use zest_engines::EmbeddedEngine;
use zest_host::{Arbiters, Role};
use zest_types::volume::Settings;
use zest_types::{Caller, Errno, Request};
use zest_vfs::Mount;

/// How long files that are still open may keep a mount that was told to end.
const GRACE: Duration = Duration::from_secs(10);
/// How long it may take until the kernel lets go of a mount nobody uses.
const SETTLE: Duration = Duration::from_secs(10);

/// What to mount, where and how.
pub struct Plan {
    /// The volume.
    pub url: MetaUrl,
    /// The directory; prepared.
    pub point: PathBuf,
    /// How the volume is used.
    pub options: zest_vfs::Options,
    /// What the door does by itself.
    pub door: DoorOptions,
    /// Options for the kernel, beside those every mount has.
    pub kernel: Vec<MountOption>,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
    /// The name of the mount's source; `ZestFS:{volume}` otherwise.
    pub source: Option<String>,
}

/// What the coordinating thread hears of.
enum Event {
    /// A signal to end.
    Signal,
    /// The door is closed: the mount is gone.
    Closed(io::Result<()>),
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
    engine: Weak<EmbeddedEngine>,
    settings: Settings,
    point: PathBuf,
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
        let report = self.engine.upgrade().and_then(|engine| status::report(&engine, &self.settings).ok());
        report.unwrap_or_default()
    }
}

/// Serves a mount until it is left. `ready` is called once it can be used, with the volume's name.
pub fn serve(plan: Plan, ready: impl FnOnce(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let volume = Volume::open(&plan.url)?;
    let world = volume.world()?;
    let arbiters = Arbiters::start().context("the actors' threads can't be started")?;
    let mount = Arc::new(begin(&arbiters, &volume, world, &plan)?);
    let me = Me {
        engine: Arc::downgrade(&volume.engine),
        settings: volume.settings.clone(),
        point: plan.point.clone(),
    };
    let (events, heard) = mpsc::channel();
    let session = open_door(&mount, &volume, &plan)?;
    let session = run_door(session, events.clone())?;
    let listener = Listener::start(&names(&plan), Arc::new(me));
    let ended = match catch_signals(events).and_then(|()| ready(&volume.settings.name)) {
        Ok(()) => coordinate(&heard, &mount, &arbiters, &plan.point),
        Err(error) => {
            let _ = leave(&plan.point, true);
            Err(error)
        }
    };
    listener.close();
    // Whatever ended it: what was acknowledged is written.
    let flushed = close(&arbiters, &mount);
    let outcome = ended.and(flushed);
    // Nothing holds the volume any more when others hear that it is over.
    drop(session);
    drop(mount);
    arbiters.stop();
    drop(volume);
    listener.finish(&outcome.as_ref().copied().map_err(|error| format!("{error:#}")));
    outcome
}

fn names(plan: &Plan) -> Vec<String> {
    let device = mounted_at(&plan.point).ok().flatten().map(|entry| control::mount_name(&entry.device));
    device.into_iter().chain(control::volume_name(&plan.url.meta())).collect()
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
                zest_upkeep::attach(&mount, settings.trash_days, &stages).await?;
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

fn open_door(mount: &Arc<Mount>, volume: &Volume, plan: &Plan) -> anyhow::Result<Session<Door>> {
    let mut config = Config::default();
    capabilities::threads(&mut config);
    config.acl = if plan.allow_other { SessionACL::All } else { SessionACL::Owner };
    let source = plan.source.clone().unwrap_or_else(|| format!("ZestFS:{}", volume.settings.name));
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
    let door = Door::new(mount.vfs.clone(), plan.door);
    Session::new(door, &plan.point, &config).map_err(|error| explain(&plan.point, &error))
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

/// The door's threads, until they end.
struct RunningDoor(Option<std::thread::JoinHandle<()>>);

impl Drop for RunningDoor {
    fn drop(&mut self) {
        // After a forced end the door's threads may wait for a kernel that waits for us: they end with the process.
        if let Some(thread) = self.0.take().filter(std::thread::JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

fn run_door(session: Session<Door>, events: Sender<Event>) -> anyhow::Result<RunningDoor> {
    let thread = std::thread::Builder::new().name("zest-door".into()).spawn(move || {
        let _ = events.send(Event::Closed(session.run()));
    });
    Ok(RunningDoor(Some(thread.context("the door's thread can't be started")?)))
}

fn catch_signals(events: Sender<Event>) -> anyhow::Result<()> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals can't be caught")?;
    std::thread::Builder::new()
        .name("zest-signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                tracing::info!("signal {signal}: the mount ends");
                if events.send(Event::Signal).is_err() {
                    return;
                }
            }
        })
        .context("the thread for signals can't be started")?;
    Ok(())
}

/// Waits for the end of the mount, and brings it about when a signal asks for it.
fn coordinate(
    heard: &Receiver<Event>,
    mount: &Arc<Mount>,
    arbiters: &Arbiters,
    point: &Path,
) -> anyhow::Result<()> {
    match heard.recv() {
        Ok(Event::Closed(result)) => return closed(point, result),
        Ok(Event::Signal) => {}
        Err(_) => bail!("the mount at {} ended without a word", point.display()),
    }
    let patience = match leave(point, false) {
        Ok(()) => SETTLE,
        Err(PointError::Busy(_)) => {
            eprintln!(
                "zest: {} is in use: it is taken away now, and this process ends when its files are closed, in {} seconds, or at a second signal",
                point.display(),
                GRACE.as_secs()
            );
            leave(point, true)?;
            // Those who have files open may go on; what they wrote so far is safe already.
            sync_all(mount, arbiters)?;
            GRACE
        }
        Err(error) => return Err(error.into()),
    };
    match heard.recv_timeout(patience) {
        Ok(Event::Closed(result)) => closed(point, result),
        Ok(Event::Signal) | Err(RecvTimeoutError::Timeout) => {
            tracing::warn!("files at {} are still open and are cut off", point.display());
            Ok(())
        }
        Err(RecvTimeoutError::Disconnected) => bail!("the mount at {} ended without a word", point.display()),
    }
}

fn closed(point: &Path, result: io::Result<()>) -> anyhow::Result<()> {
    result.map_err(|error| anyhow!("the mount at {} died: {error}", point.display()))
}

fn sync_all(mount: &Arc<Mount>, arbiters: &Arbiters) -> anyhow::Result<()> {
    let vfs = mount.vfs.clone();
    let done = arbiters.run(Role::Data, move || {
        let (tell, told) = tokio::sync::oneshot::channel();
        vfs.serve(&Caller::SYSTEM, Request::SyncAll, move |result| {
            let _ = tell.send(result);
        });
        Box::pin(async move { told.await.unwrap_or(Err(Errno::EIO)) })
    });
    match done {
        Some(Ok(_)) => Ok(()),
        Some(Err(errno)) => Err(lost(errno)),
        None => Err(lost(Errno::EIO)),
    }
}

fn lost(errno: Errno) -> anyhow::Error {
    anyhow!(
        "not everything could be written ({}): what no fsync or close confirmed may be missing; see the log for why",
        errno.text()
    )
}

fn close(arbiters: &Arbiters, mount: &Arc<Mount>) -> anyhow::Result<()> {
    let mount = Arc::clone(mount);
    match arbiters.run(Role::Metadata, move || Box::pin(async move { mount.close().await })) {
        Some(Ok(())) => Ok(()),
        Some(Err(errno)) => Err(lost(errno)),
        None => Err(lost(Errno::EIO)),
    }
}
