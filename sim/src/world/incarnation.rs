//! One life of the client: opens the records, formats them once, mounts with the product's own assembly, has the
//! court look at what is there, lets the users live, and ends as the plan says.

use super::look::look;
use super::scene::{Bench, Scene};
use super::user::User;
use super::{census, copies, operator};
use crate::devices::{
    DiskMedia, Fates, Fault, Life, ObjectMedia, SimChance, SimClock, SimDisk, SimObjects, SimOffload,
    SimRecords, Tape,
};
use crate::judge::{Court, Recovered, Terms, Violation};
use crate::plan::{Ending, EngineKind, Round, Setup};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use zest_data::Shares;
use zest_engines::embedded::EmbeddedEngine;
use zest_engines::memory::MemoryEngine;
use zest_metadata::{CommitError, Engine, Key};
use zest_types::volume::Settings;
use zest_types::{Errno, Request, Time};
use zest_vfs::{Mount, Options, Role, Stage};
use zest_world::{Clock, World};

/// What outlives every incarnation.
pub struct Media {
    /// The plan.
    pub setup: Setup,
    /// Objects.
    pub objects: Arc<ObjectMedia>,
    /// The disk under the embedded engine.
    pub disk: Arc<DiskMedia>,
    /// The simulated record store.
    pub records: Arc<MemoryEngine>,
    /// Faults.
    pub fates: Arc<Fates>,
    /// The tape.
    pub tape: Arc<Tape>,
    /// The court.
    pub bench: Rc<RefCell<Bench>>,
}

/// How an incarnation is getting on; the world outside looks at it between ticks.
#[derive(Default)]
pub struct Progress {
    /// All users are done, and so is the ending.
    pub done: Cell<bool>,
    /// The volume was left in good order.
    pub unmounted: Cell<bool>,
}

/// What one incarnation is to do.
#[derive(Clone)]
pub struct Task {
    /// Its number.
    pub number: u64,
    /// Its round; none is a last look.
    pub round: Option<Round>,
    /// The life it has.
    pub life: Arc<Life>,
    /// How it is getting on.
    pub progress: Rc<Progress>,
    /// Age of the world when it begins.
    pub age: Duration,
    /// The incarnation before left in good order.
    pub orderly: bool,
    /// What was in the trash has had its time, and nobody used the volume meanwhile.
    pub trash_is_over: bool,
    /// Changes answered before this time had time enough to become durable by themselves.
    pub durable: Time,
}

/// Virtual time in which the work nobody asked for catches up.
const REST: Duration = Duration::from_secs(120);
/// Where others may use the volume, what a mount leaves is nobody's business for this long.
const JOBS_EVERY: Duration = Duration::from_secs(30);

/// Everything of a client runs in one thread.
pub(crate) struct Here;

impl Stage for Here {
    fn start(&self, _: Role, begin: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_local(async move { begin() });
    }
}

/// Lives one life.
pub async fn live(media: Rc<Media>, task: Task) {
    let seed = media.setup.seed.wrapping_mul(1_000_003).wrapping_add(task.number);
    media.tape.starts(task.age);
    let clock = Arc::new(SimClock::new(task.age));
    let world = world(&media, &task, seed, clock.clone());
    let engine = match open(&media, &task, seed, &world).await {
        Ok(engine) => engine,
        Err(text) => return failed(&media, &task, "open", text),
    };
    let settings = settings(&media.setup);
    if let Err(text) = format(&*engine, &settings, &world).await {
        return failed(&media, &task, "format", text);
    }
    let options = Options {
        lease: Duration::from_secs(1),
        memory: Shares { writes: media.setup.write_budget, blocks: media.setup.cache, ..Shares::default() },
        jobs_every: JOBS_EVERY,
        ..Options::default()
    };
    let mount = match zest_vfs::mount(world, engine, &settings, &options, &Here).await {
        Ok(mount) => mount,
        Err(errno) => return failed(&media, &task, "mount", format!("mounting fails: {errno}")),
    };
    let scene =
        Scene::new(mount.vfs.clone(), clock, task.life.clone(), media.tape.clone(), media.bench.clone());
    let scene = Rc::new(scene);
    if inspect(&media, &task, &scene, &mount).await {
        // Only now: the judge counts records while nothing changes them.
        if let Err(errno) = zest_upkeep::attach(&mount, &Here).await {
            return failed(&media, &task, "mount", format!("upkeep does not begin: {errno}"));
        }
        match &task.round {
            Some(round) => play(&task, round, &scene, &mount).await,
            None => rest(&media, &scene, &mount).await,
        }
    }
    task.progress.done.set(true);
}

fn failed(media: &Media, task: &Task, rule: &'static str, text: String) {
    // A client that can't start because its disk fails has died at the door.
    if !task.life.is_dead() && !bad_disk(media) {
        media.tape.say(|| format!("!!! {rule}: {text}"));
        media.bench.borrow_mut().violation.get_or_insert(Violation::new(rule, text));
    }
    task.progress.done.set(true);
}

fn bad_disk(media: &Media) -> bool {
    media.fates.fired().contains_key(&Fault::FailedSync)
}

/// What this world promises.
#[must_use]
pub fn terms(setup: &Setup) -> Terms {
    // After any of these a write can fail for good: in the store, or in an engine that takes nothing any more.
    let failing = [Fault::DeniedPut, Fault::FullStore, Fault::FailedSync];
    let failing = failing.iter().any(|fault| setup.faults.contains_key(fault));
    Terms {
        lenient: failing,
        lax_reads: failing,
        durable_at_once: setup.engine == EngineKind::Records,
        lax_times: false,
        several: false,
    }
}

pub(crate) fn settings(setup: &Setup) -> Settings {
    let mut settings = Settings::new("sim-volume", "00000000-0000-0000-0000-000000000001", "mem", "sim");
    settings.block_size_kib = setup.block_kib;
    settings.trash_days = setup.trash_days;
    if setup.quotas {
        settings.others.insert("UserGroupQuota".into(), true.into());
    }
    settings
}

fn world(media: &Media, task: &Task, seed: u64, clock: Arc<SimClock>) -> World {
    let stream = |name| Arc::new(SimChance::new(seed, name));
    let (life, fates, tape) = (task.life.clone(), media.fates.clone(), media.tape.clone());
    World {
        clock: clock.clone(),
        chance: stream("actors"),
        offload: Arc::new(SimOffload { life: life.clone(), chance: stream("offload"), fates: fates.clone() }),
        objects: Arc::new(SimObjects {
            media: media.objects.clone(),
            clock,
            life,
            chance: stream("objects"),
            fates,
            tape: tape.clone(),
        }),
        trace: tape,
    }
}

async fn open(media: &Media, task: &Task, seed: u64, world: &World) -> Result<Arc<dyn Engine>, String> {
    let (life, fates, tape) = (task.life.clone(), media.fates.clone(), media.tape.clone());
    match media.setup.engine {
        EngineKind::Embedded => {
            let disk = SimDisk::sound(media.disk.clone(), life, fates, tape);
            let engine = EmbeddedEngine::open(Arc::new(disk), world).map_err(|error| error.to_string())?;
            Ok(Arc::new(engine))
        }
        EngineKind::Records => {
            let chance = Arc::new(SimChance::new(seed, "records"));
            Ok(Arc::new(SimRecords { media: media.records.clone(), life, chance, fates, tape }))
        }
    }
}

pub(crate) async fn format(engine: &dyn Engine, settings: &Settings, world: &World) -> Result<(), String> {
    for _ in 0..20 {
        let found = engine.read(&[Key::Setting]).await.map_err(|error| error.to_string())?;
        if found.first().is_some_and(Option::is_some) {
            return engine.sync().await.map_err(|error| error.to_string());
        }
        let trash = settings.trash_days > 0;
        let first = zest_metadata::format::new_volume(settings.to_json(), trash, true, world.clock.now());
        match engine.commit(&first).await {
            Ok(_) | Err(CommitError::Unknown(_) | CommitError::Conflict(_)) => {}
            Err(CommitError::Engine(error)) => return Err(error.to_string()),
        }
    }
    Err("a new volume can't be made".into())
}

/// What the world needs before its users come is made once, for good.
async fn prepare(media: &Media, scene: &Scene) -> Result<(), Errno> {
    if scene.bench.borrow().prepared {
        return Ok(());
    }
    if media.setup.copies {
        copies::prepare(scene).await?;
    }
    if media.setup.quotas {
        operator::quotas(scene, &["a", "b"]).await?;
    }
    if media.setup.copies || media.setup.quotas {
        scene.plain(Request::SyncAll).await?;
    }
    scene.bench.borrow_mut().prepared = true;
    Ok(())
}

/// Where nothing went wrong, the trash is emptied when its time is over.
fn emptied(media: &Media, task: &Task, found: &Recovered) -> Result<(), Violation> {
    let quiet = media.setup.faults.is_empty() && media.fates.fired().is_empty();
    match found.bins.as_ref().and_then(|bins| bins.first()) {
        Some((dir, ino, name)) if task.trash_is_over && quiet => {
            let text = format!("{name}, inode {ino} of directory {dir}, is still in it, long after its time");
            Err(Violation::new("trash", text))
        }
        _ => Ok(()),
    }
}

/// The court looks at the volume; true when all is well.
async fn inspect(media: &Media, task: &Task, scene: &Scene, mount: &Mount) -> bool {
    if let Err(errno) = prepare(media, scene).await {
        if !bad_disk(media) {
            scene.violated(Violation::new("begin", format!("what users need can't be made: {errno}")));
        }
        return false;
    }
    media.tape.say(|| "the court looks at the volume".into());
    let verdict = match look(scene).await {
        Err(text) => Err(Violation::new("look", text)),
        Ok(found) => {
            let mut bench = media.bench.borrow_mut();
            match &mut bench.court {
                None => {
                    bench.court = Some(Court::new(terms(&media.setup), &found));
                    emptied(media, task, &found)
                }
                Some(court) if task.orderly => court.returned(&found),
                Some(court) => court.crashed(&found, task.durable),
            }
        }
    };
    let verdict = match verdict {
        Ok(()) => copies::check(scene, task.orderly).await,
        wrong => wrong,
    };
    let verdict = match verdict {
        Ok(()) => census::check(media, mount).await,
        wrong => wrong,
    };
    match verdict {
        Ok(()) => true,
        // A volume whose disk fails while it is looked at shows nothing; the next life looks again.
        Err(violation) if ["look", "census"].contains(&violation.rule) && bad_disk(media) => {
            violation.forgive();
            false
        }
        Err(violation) => {
            scene.violated(violation);
            false
        }
    }
}

/// Whether a fault happened that leaves things behind which only a search finds.
fn leaves_things(media: &Media) -> bool {
    let fired = media.fates.fired();
    let leaving = [Fault::Crash, Fault::DeniedPut, Fault::FullStore, Fault::FailedSync];
    leaving.iter().any(|fault| fired.contains_key(fault))
}

/// The last incarnation does nothing but what nobody asked for; then nothing may be left over, unless faults
/// have left things behind that only a search finds.
async fn rest(media: &Media, scene: &Rc<Scene>, mount: &Mount) {
    if leaves_things(media) {
        return;
    }
    scene.clock.sleep(REST).await;
    if leaves_things(media) {
        return;
    }
    if let Err(violation) = census::check_leaks(media, mount).await {
        scene.violated(violation);
    }
}

async fn play(task: &Task, round: &Round, scene: &Rc<Scene>, mount: &Mount) {
    let users = round.users.iter().enumerate().map(|(number, steps)| {
        let user = User::new(scene.clone(), number);
        tokio::task::spawn_local(user.live(steps.clone()))
    });
    let users: Vec<_> = users.collect();
    for user in users {
        if user.await.is_err() {
            scene.violated(Violation::new("panic", "a user's task ended by a panic".into()));
        }
    }
    if round.users.is_empty() {
        scene.clock.sleep(REST).await;
    }
    if scene.is_over() || round.ending == Ending::Cut {
        return;
    }
    match mount.close().await {
        Ok(()) => task.progress.unmounted.set(true),
        Err(Errno::EIO | Errno::ENOSPC) if may_fail(scene) => {
            scene.bench.borrow_mut().court.iter_mut().for_each(Court::lost);
        }
        Err(errno) => scene.violated(Violation::new("unmount", format!("unmounting fails: {errno}"))),
    }
}

fn may_fail(scene: &Scene) -> bool {
    scene.bench.borrow().court.as_ref().is_some_and(Court::is_lenient)
}
