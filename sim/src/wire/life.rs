//! A wire world from its beginning to its end: a server, its clients, and what came of it. In strict worlds, where no
//! client believes anything without asking, every answer about names and attributes is judged: calls take effect at one
//! moment each, over all clients together. In the others clients must agree at rest. In both: bytes as the ledgers say,
//! the invariants over all records at the end, no storm of connections, everything answered. Worlds whose server may
//! forget what it answered are judged by the last two only.

use super::client;
use super::counter::Counters;
use super::ledger::Ledger;
use super::locker::Lockers;
use super::plan::WireSetup;
use crate::devices::{DiskMedia, Fates, Fault, ObjectMedia, Tape};
use crate::judge::Violation;
use crate::plan::{EngineKind, Setup};
use crate::redis::machine::{Machine, Mishap, Mishaps, Model, serve};
use crate::world::Outcome;
use crate::world::incarnation::Media;
use crate::world::scene::Bench;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use zest_world::{Event, Trace};

/// Virtual time after which a world that is not done hangs: longer than any request may take.
const PATIENCE: Duration = Duration::from_secs(400);

/// What came of a wire world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireOutcome {
    /// What came of it.
    pub outcome: Outcome,
    /// How often each class of trouble happened.
    pub mishaps: BTreeMap<Mishap, u64>,
    /// Connections the server took.
    pub connections: u64,
    /// Why the server was silent, as the clients say.
    pub causes: Vec<String>,
}

impl WireOutcome {
    /// What a tape says of a world that ended by a panic.
    #[must_use]
    pub fn panicked(text: String, tape: &Tape) -> WireOutcome {
        let outcome = Outcome::panicked(text, tape);
        WireOutcome { outcome, mishaps: BTreeMap::new(), connections: 0, causes: Vec::new() }
    }
}

/// What all hosts of a world share.
pub struct Shared {
    /// The plan.
    pub setup: WireSetup,
    /// Devices, court and tape.
    pub media: Media,
    /// Everybody's file.
    pub ledgers: Rc<Vec<Ledger>>,
    /// The volume is there.
    pub formatted: Cell<bool>,
    /// Things may go wrong.
    pub begun: Cell<bool>,
    /// Clients that are mounted, done, and gone.
    pub ready: Cell<usize>,
    /// Clients whose users are done.
    pub done: RefCell<BTreeSet<usize>>,
    /// Clients that have left.
    pub gone: RefCell<BTreeSet<usize>>,
    /// Clients that died.
    pub dead: RefCell<BTreeSet<usize>>,
    /// Sessions of clients.
    pub sessions: RefCell<BTreeMap<usize, u64>>,
    /// Files that are locked, and who has locks.
    pub lockers: Lockers,
    /// Files that are counted in, and what must stand there.
    pub counters: Counters,
    /// Nothing goes wrong any more, and everybody has rested.
    pub rested: Cell<bool>,
    /// What each client shows at rest.
    pub seen: RefCell<BTreeMap<usize, Vec<String>>>,
    /// The court has looked at the end.
    pub looked: Cell<bool>,
    /// It is over before its time.
    pub stop: Cell<bool>,
    /// Why the server was silent, as clients say.
    pub causes: RefCell<Vec<String>>,
    machine: RefCell<Option<Rc<Machine>>>,
    mishaps: Rc<Mishaps>,
}

impl Shared {
    fn new(setup: &WireSetup, tape: Arc<Tape>) -> Shared {
        let mut plain = Setup::calm(setup.seed, EngineKind::Records);
        plain.trash_days = setup.trash_days;
        plain.faults.clone_from(&setup.faults);
        let media = Media {
            fates: Arc::new(Fates::new(plain.faults.clone(), setup.seed)),
            setup: plain,
            objects: Arc::new(ObjectMedia::default()),
            disk: Arc::new(DiskMedia::default()),
            records: Arc::default(),
            tape,
            bench: Rc::new(RefCell::new(Bench::default())),
        };
        let ledgers = if setup.ledger > 0 { setup.clients.len() } else { 0 };
        Shared {
            setup: setup.clone(),
            media,
            ledgers: Rc::new((0..ledgers).map(|_| Ledger::default()).collect()),
            formatted: Cell::default(),
            begun: Cell::default(),
            ready: Cell::default(),
            done: RefCell::default(),
            gone: RefCell::default(),
            dead: RefCell::default(),
            sessions: RefCell::default(),
            lockers: Lockers::default(),
            counters: Counters::default(),
            rested: Cell::default(),
            seen: RefCell::default(),
            looked: Cell::default(),
            stop: Cell::default(),
            causes: RefCell::default(),
            machine: RefCell::default(),
            mishaps: Rc::new(Mishaps::new(BTreeMap::new(), setup.seed)),
        }
    }

    /// Whether all clients that live are among these.
    pub fn all_of(&self, these: impl Fn(usize) -> bool) -> bool {
        let dead = self.dead.borrow();
        (0..self.setup.clients.len()).all(|client| dead.contains(&client) || these(client))
    }

    /// A client dies, unless it is done or all is over.
    fn dies(&self, client: usize) -> bool {
        let late = self.rested.get() || self.done.borrow().contains(&client);
        if late || client == 0 || client >= self.setup.clients.len() {
            return false;
        }
        self.dead.borrow_mut().insert(client);
        self.lockers.died(client);
        self.media.fates.count(Fault::Crash);
        self.media.tape.say(|| format!("*** client {client} dies"));
        self.media.tape.event(Event { actor: "client", kind: "dies", subject: client as u64, detail: 0 });
        true
    }

    /// Nothing goes wrong any more.
    pub fn calm(&self) {
        self.mishaps.calm();
        if let Some(machine) = &*self.machine.borrow() {
            machine.heal();
        }
    }

    fn model(&self) -> Model {
        Model {
            gib: self.setup.gib,
            save_every: (self.setup.save_every > 0).then(|| Duration::from_secs(self.setup.save_every)),
            replica_lag: self.setup.lag_ms.map(Duration::from_millis),
            config: self.config(),
            ..Model::default()
        }
    }

    fn config(&self) -> Vec<(String, String)> {
        let mut config = vec![("appendonly", "yes"), ("save", "")];
        if self.setup.mishaps.contains_key(&Mishap::FailedSave) {
            // Save points are what makes a failed snapshot stop writes.
            config.push(("save", "3600 1"));
        }
        config.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}

/// Lives through a wire world. Must be called inside a universe.
#[must_use]
pub fn live(setup: &WireSetup, tape: Arc<Tape>) -> WireOutcome {
    let shared = Rc::new(Shared::new(setup, tape));
    run(&shared);
    let violation = shared.media.bench.borrow_mut().violation.take();
    let outcome = Outcome::of(&shared.media.tape, violation, shared.media.fates.fired());
    let connections = shared.machine.borrow().as_ref().map_or(0, |machine| machine.connections());
    let causes = shared.causes.borrow().clone();
    WireOutcome { outcome, mishaps: shared.mishaps.fired(), connections, causes }
}

fn run(shared: &Rc<Shared>) {
    let tick = Duration::from_millis(shared.setup.tick_ms.max(1));
    let mut builder = turmoil::Builder::new();
    builder
        .rng_seed(madsim::rand::random())
        .tick_duration(tick)
        .epoch(SystemTime::now())
        .min_message_latency(tick)
        .max_message_latency(Duration::from_millis(shared.setup.latency_ms).max(tick))
        .simulation_duration(Duration::from_secs(1 << 30));
    let mut sim = builder.build();
    let server = shared.clone();
    sim.host("redis", move || {
        let shared = server.clone();
        async move {
            let machine = Machine::new(shared.model(), shared.mishaps.clone(), shared.media.tape.clone());
            *shared.machine.borrow_mut() = Some(machine.clone());
            serve(machine).await?;
            Ok(())
        }
    });
    for number in 0..shared.setup.clients.len() {
        let host = shared.clone();
        sim.host(format!("client{number}"), move || {
            let shared = host.clone();
            async move {
                client::live(shared, number).await;
                std::future::pending::<turmoil::Result>().await
            }
        });
    }
    let mut age = Duration::ZERO;
    let mut rated = false;
    let mut dies = shared.setup.dies;
    let mut begun = None;
    while !shared.all_of(|client| shared.gone.borrow().contains(&client)) {
        if shared.begun.get() {
            begun.get_or_insert(age);
        }
        let due =
            |(_, at): &mut (usize, u64)| begun.is_some_and(|begun| age >= begun + Duration::from_millis(*at));
        if let Some((client, _)) = dies.take_if(due).filter(|(client, _)| shared.dies(*client)) {
            sim.crash(format!("client{client}"));
        }
        if shared.begun.get() && !rated {
            rated = true;
            shared.mishaps.rate(shared.setup.mishaps.clone());
        }
        if let Err(error) = sim.step() {
            return shared.violated(Violation::new("panic", error.to_string()));
        }
        madsim::time::advance(tick);
        age += tick;
        if shared.media.bench.borrow().violation.is_some() {
            return;
        }
        if age > PATIENCE + Duration::from_secs(shared.setup.seconds) {
            let text = "nothing is answered any more: the world has waited longer than any request may take";
            return shared.violated(Violation::new("hang", text.into()));
        }
    }
}
