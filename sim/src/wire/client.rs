//! One client of a wire world: connects with the production engine, mounts with the product's own assembly, lets its
//! users live, and waits for the others before it leaves.

use super::counter::{self, Counter};
use super::ledger;
use super::life::Shared;
use super::locker::{self, Locker};
use crate::devices::{Fault, Life, SimChance, SimClock, SimObjects, SimOffload, Wrong};
use crate::judge::{Court, Terms, Violation};
use crate::kernel::Kernel;
use crate::plan::Step;
use crate::redis::dial::SimDial;
use crate::world::census;
use crate::world::incarnation::{Here, format, settings};
use crate::world::look::look;
use crate::world::operator;
use crate::world::scene::Scene;
use crate::world::user::User;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use zest_engines::redis::{ConnectOptions, RedisEngine, RedisUrl};
use zest_metadata::{Engine, Key, Scan};
use zest_types::volume::Settings;
use zest_types::{Errno, Ino, Name, Request, Response};
use zest_vfs::{Mount, Options};
use zest_world::{Clock, World};

/// How long a client tries to find the server.
const TRIES: u32 = 200;
/// How often a mount is tried.
const MOUNTS: u32 = 5;
/// More connections than this within a second are a storm.
const STORM: usize = 50;
/// A look at what others do.
const GLANCE: Duration = Duration::from_millis(5);
/// How long a compaction takes at most: some requests to a slow store.
const SLOWEST: Duration = Duration::from_secs(40);
/// Quiet time before the court looks at the volume.
const REST: Duration = Duration::from_secs(2);

fn world(shared: &Shared, number: usize, clock: Arc<SimClock>, life: &Arc<Life>) -> World {
    let media = &shared.media;
    let seed = media.setup.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
    let stream = |name| Arc::new(SimChance::new(seed, name));
    let (fates, tape) = (media.fates.clone(), media.tape.clone());
    World {
        clock: clock.clone(),
        chance: stream("actors"),
        offload: Arc::new(SimOffload { life: life.clone(), chance: stream("offload"), fates: fates.clone() }),
        objects: Arc::new(SimObjects {
            media: media.objects.clone(),
            clock: Arc::new(SimClock::new(Duration::ZERO)),
            life: life.clone(),
            chance: stream("objects"),
            fates,
            tape: tape.clone(),
        }),
        trace: tape,
    }
}

/// The clock of a client's host.
fn clock_of(shared: &Shared, number: usize) -> SimClock {
    let right = SimClock::new(Duration::ZERO);
    let chance = SimChance::new(shared.setup.seed.wrapping_mul(17).wrapping_add(number as u64), "clock");
    match Wrong::draw(&shared.media.fates, &chance, shared.setup.most_wrong()) {
        Some(wrong) if shared.setup.has_wrong_clocks() => right.wrong(wrong),
        _ => right,
    }
}

async fn connect(shared: &Shared, world: &World, dial: &Arc<SimDial>) -> Result<Arc<RedisEngine>, String> {
    let url = RedisUrl::parse("redis://redis:6379/1").map_err(|error| error.to_string())?;
    let options = ConnectOptions { scripts: shared.setup.scripts, push: shared.setup.push };
    let mut last = String::new();
    for _ in 0..TRIES {
        match RedisEngine::connect(&url, dial.clone(), world, options).await {
            Ok(engine) => return Ok(Arc::new(engine)),
            Err(error) => last = error.to_string(),
        }
        world.clock.sleep(Duration::from_millis(50)).await;
    }
    Err(last)
}

/// Lives as client `number`, until the world ends.
pub async fn live(shared: Rc<Shared>, number: usize) {
    if let Err(violation) = act(&shared, number).await {
        // In a world that forgets, nothing but answers at all is promised.
        if !shared.setup.forgets() || violation.rule == "hang" {
            shared.violated(violation);
        } else {
            violation.forgive();
        }
        shared.stop.set(true);
    }
    shared.gone.borrow_mut().insert(number);
}

async fn act(shared: &Rc<Shared>, number: usize) -> Result<(), Violation> {
    let clock = Arc::new(clock_of(shared, number));
    if number == 0 {
        shared.media.tape.starts(Duration::ZERO);
    }
    let life = Arc::new(Life::new(None));
    let world = world(shared, number, clock.clone(), &life);
    let dial = Arc::new(SimDial::default());
    let engine = connect(shared, &world, &dial).await.map_err(|text| Violation::new("connect", text))?;
    let settings = settings(&shared.media.setup);
    if number == 0 {
        format(&*engine, &settings, &world).await.map_err(|text| Violation::new("format", text))?;
    } else {
        shared.wait(|| shared.formatted.get()).await;
    }
    let options = Options {
        lease: Duration::from_millis(shared.setup.lease_ms),
        memory: zest_data::Shares { blocks: 4 << 20, ..zest_data::Shares::default() },
        heartbeat: Duration::from_secs(shared.setup.heartbeat),
        ..Options::default()
    };
    let cant = |errno: Errno| Violation::new("mount", format!("client {number} can't mount: {errno}"));
    let mount = mounted(world, &engine, &settings, &options).await.map_err(cant)?;
    zest_upkeep::attach(&mount, &Here).await.map_err(cant)?;
    shared.sessions.borrow_mut().insert(number, mount.vfs.shared().session);
    let scene =
        Scene::new(mount.vfs.clone(), clock, life, shared.media.tape.clone(), shared.media.bench.clone());
    let scene = Rc::new(scene);
    let seed = shared.setup.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
    let kernel = Rc::new(Kernel::new(scene.clone(), number, options.heartbeat, seed));
    if number == 0 {
        begin(shared, &kernel).await?;
        shared.formatted.set(true);
    }
    shared.ready.set(shared.ready.get() + 1);
    shared.wait(|| shared.ready.get() == shared.setup.clients.len()).await;
    play(shared, &kernel, number).await;
    shared.done.borrow_mut().insert(number);
    shared.wait(|| shared.all_of(|client| shared.done.borrow().contains(&client))).await;
    end(shared, &kernel, &mount, number).await?;
    // Without scripts every change has a connection of its own.
    if shared.setup.scripts && dial.most_in_a_second() > STORM {
        let text =
            format!("client {number} asked for {} connections within a second", dial.most_in_a_second());
        return Err(Violation::new("storm", text));
    }
    for stall in engine.stalls().recent {
        scene.tape.say(|| {
            format!("client {number} saw a stall of {} ms: {}", stall.lasted.as_millis(), stall.cause)
        });
        shared.causes.borrow_mut().push(stall.cause);
    }
    Ok(())
}

/// Mounts, again where the beginning of a session met with trouble: whoever mounts tries again.
async fn mounted(
    world: World,
    engine: &Arc<RedisEngine>,
    settings: &Settings,
    options: &Options,
) -> Result<Mount, Errno> {
    let mut last = Errno::EIO;
    for _ in 0..MOUNTS {
        let store: Arc<dyn Engine> = engine.clone();
        match zest_vfs::mount(world.clone(), store, settings, options, &Here).await {
            Ok(mount) => return Ok(mount),
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

/// The first client makes the files of all, and the court takes its seat.
async fn begin(shared: &Shared, kernel: &Kernel) -> Result<(), Violation> {
    let scene = &kernel.scene;
    let cant = |errno| Violation::new("begin", format!("what users need can't be made: {errno}"));
    if shared.setup.locks > 0 {
        locker::create(scene, &shared.lockers).await.map_err(cant)?;
    }
    if shared.setup.counts > 0 {
        counter::create(kernel, &shared.counters).await.map_err(cant)?;
    }
    if shared.setup.quotas {
        operator::quotas(scene, &["x", "y"]).await.map_err(cant)?;
    }
    for (client, ledger) in shared.ledgers.iter().enumerate() {
        ledger::create(kernel, client, ledger)
            .await
            .map_err(|errno| Violation::new("begin", format!("a file can't be made: {errno}")))?;
    }
    if !shared.setup.is_strict() {
        return Ok(());
    }
    let found = look(scene).await.map_err(|text| Violation::new("look", text))?;
    let lenient = shared.setup.may_fail();
    let lax_times = shared.setup.faults.contains_key(&Fault::JumpingClock);
    let terms = Terms { lenient, lax_reads: true, durable_at_once: true, lax_times, several: true };
    shared.media.bench.borrow_mut().court = Some(Court::new(terms, &found));
    Ok(())
}

async fn play(shared: &Rc<Shared>, kernel: &Rc<Kernel>, number: usize) {
    let scene = &kernel.scene;
    shared.begun.set(true);
    let mut tasks = Vec::new();
    let users = shared.setup.clients.get(number).cloned().unwrap_or_default();
    for (user, steps) in users.into_iter().enumerate() {
        let user = number * 10 + user;
        tasks.push(tokio::task::spawn_local(repeat(shared.clone(), scene.clone(), user, steps)));
    }
    let (times, lenient) = (shared.setup.ledger, shared.setup.may_fail());
    // A server that forgets takes files with it.
    if times > 0 && !shared.setup.forgets() {
        let ledgers = shared.ledgers.clone();
        tasks.push(tokio::task::spawn_local(ledger::write(
            kernel.clone(),
            number,
            ledgers.clone(),
            times,
            lenient,
        )));
        tasks.push(tokio::task::spawn_local(ledger::read(kernel.clone(), number, ledgers, times, lenient)));
    }
    if shared.setup.locks > 0 && !shared.setup.forgets() {
        for user in 0..locker::USERS {
            let locker = Locker::new(shared.clone(), scene.clone(), number, user);
            tasks.push(tokio::task::spawn_local(locker.live()));
        }
    }
    if shared.setup.counts > 0 && !shared.setup.forgets() {
        for user in 0..counter::USERS {
            let counter = Counter::new(shared.clone(), kernel.clone(), number, user);
            tasks.push(tokio::task::spawn_local(counter.live()));
        }
    }
    for task in tasks {
        if task.await.is_err() {
            shared.violated(Violation::new("panic", "a user's task ended by a panic".into()));
        }
    }
}

async fn repeat(shared: Rc<Shared>, scene: Rc<Scene>, user: usize, steps: Vec<Step>) {
    loop {
        User::new(scene.clone(), user).live(steps.clone()).await;
        if shared.is_over()
            || steps.is_empty()
            || scene.clock.mono() >= Duration::from_secs(shared.setup.seconds)
        {
            return;
        }
    }
}

/// Everybody is done: the first client lets the court look, at rest and with nothing going wrong any more.
async fn end(shared: &Rc<Shared>, kernel: &Kernel, mount: &Mount, number: usize) -> Result<(), Violation> {
    let scene = &kernel.scene;
    if number == 0 {
        shared.calm();
        scene.clock.sleep(REST).await;
        shared.rested.set(true);
    }
    shared.wait(|| shared.rested.get()).await;
    if shared.setup.forgets() || shared.is_over() {
        shared.looked.set(true);
        return Ok(());
    }
    let seen = survey(scene).await;
    shared.seen.borrow_mut().insert(number, seen);
    shared.wait(|| shared.all_of(|client| shared.seen.borrow().contains_key(&client))).await;
    ledger::settle(kernel, number, &shared.ledgers).await;
    if number == 0 {
        agree(&shared.seen.borrow())?;
        if shared.setup.is_strict() {
            User::new(scene.clone(), 90).live(walk()).await;
        }
        // Looking around may have set compactions off.
        scene.clock.sleep(REST).await;
        if !shared.is_over() {
            at_rest(shared, scene, mount).await?;
        }
        if !shared.is_over() && !shared.setup.may_fail() {
            locker::settle(shared, scene).await?;
            sessions(shared, scene, mount).await?;
        }
        shared.looked.set(true);
    }
    shared.wait(|| shared.looked.get()).await;
    match mount.close().await {
        Err(errno) if !shared.setup.may_fail() => {
            Err(Violation::new("unmount", format!("client {number} can't unmount: {errno}")))
        }
        _ => Ok(()),
    }
}

/// The invariants hold, at the latest when whatever looking around has set off is over, on a slow store too.
async fn at_rest(shared: &Shared, scene: &Scene, mount: &Mount) -> Result<(), Violation> {
    let deadline = scene.clock.mono() + SLOWEST;
    loop {
        match census::check(&shared.media, mount).await {
            Err(violation) if scene.clock.mono() < deadline => violation.forgive(),
            verdict => return verdict,
        }
        scene.clock.sleep(REST).await;
    }
}

/// Sessions are those of the clients that live, at the latest when the others count as dead.
async fn sessions(shared: &Shared, scene: &Scene, mount: &Mount) -> Result<(), Violation> {
    let deadline = scene.clock.mono() + shared.setup.session_over() + REST;
    let all = shared.sessions.borrow().clone();
    let right: BTreeSet<u64> = all
        .into_iter()
        .filter(|(client, _)| !shared.dead.borrow().contains(client))
        .map(|(_, session)| session)
        .collect();
    loop {
        let found = mount.engine().scan(&Scan::Sessions { limit: usize::MAX }).await;
        let found = found.map_err(|error| Violation::new("sessions", error.to_string()))?;
        let there: BTreeSet<u64> = found
            .into_iter()
            .filter_map(|(key, _)| match key {
                Key::SessionExpiry(session) => Some(session),
                _ => None,
            })
            .collect();
        // Mounts that did not come to be leave sessions that end like those of the dead.
        if there == right {
            return Ok(());
        }
        if scene.clock.mono() > deadline {
            let text = format!("there are sessions {there:?}, clients that live have {right:?}");
            return Err(Violation::new("sessions", text));
        }
        scene.clock.sleep(Duration::from_millis(500)).await;
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What one client shows of every name that can be there.
async fn survey(scene: &Scene) -> Vec<String> {
    let mut seen = Vec::new();
    let mut queue: Vec<(String, Ino)> = vec![(String::new(), Ino::ROOT)];
    while let Some((path, parent)) = queue.pop() {
        for name in NAMES.iter().chain(&["x", "y"]) {
            let Ok(whole) = Name::new(name.as_bytes()) else { continue };
            let path = format!("{path}/{name}");
            match scene.plain(Request::Lookup { parent, name: whole }).await {
                Ok(Response::Entry { ino, attr }) => {
                    if attr.is_dir() && path.len() < 6 {
                        queue.push((path.clone(), ino));
                    }
                    seen.push(format!("{path} is inode {ino}: {attr:?}"));
                }
                Ok(other) => seen.push(format!("{path} answers {other:?}")),
                Err(errno) => seen.push(format!("{path} fails with {errno:?}")),
            }
        }
    }
    seen
}

/// At rest all clients show the same.
fn agree(seen: &BTreeMap<usize, Vec<String>>) -> Result<(), Violation> {
    let mut all = seen.iter();
    let Some((first, right)) = all.next() else { return Ok(()) };
    for (client, lines) in all {
        if let Some((one, other)) = right.iter().zip(lines).find(|(one, other)| one != other) {
            let text = format!("at rest client {first} shows: {one}; client {client} shows: {other}");
            return Err(Violation::new("agreement", text));
        }
    }
    Ok(())
}

/// Every name that can be there, with the court listening.
fn walk() -> Vec<Step> {
    use crate::plan::Path;
    let mut steps: Vec<Step> = ["", "x", "y"].map(|dir| Step::List { path: Path::new(dir) }).to_vec();
    for dir in ["", "x/", "y/"] {
        for name in NAMES {
            steps.push(Step::Stat { path: Path::new(&format!("{dir}{name}")) });
            steps.push(Step::ListXattr { path: Path::new(&format!("{dir}{name}")) });
        }
    }
    steps
}

impl Shared {
    /// Waits until something is so, or the world is over.
    async fn wait(&self, is_so: impl Fn() -> bool) {
        while !is_so() && !self.stop.get() {
            tokio::time::sleep(GLANCE).await;
        }
    }

    fn is_over(&self) -> bool {
        self.stop.get() || self.media.bench.borrow().violation.is_some()
    }

    /// The first broken rule counts.
    pub fn violated(&self, violation: Violation) {
        self.media.tape.say(|| format!("!!! {}: {}", violation.rule, violation.text));
        self.media.bench.borrow_mut().violation.get_or_insert(violation);
    }
}
