//! The machine a simulated server runs on: virtual time, sockets, a disk, children that save, a replica, and everything
//! that goes wrong with them.

mod fate;
pub mod mishap;
mod serve;
pub mod store;
mod work;

pub use mishap::{Mishap, Mishaps};
pub use serve::serve;

use super::resp::Frame;
use super::server::{ClientId, Effect, Server, Version};
use crate::devices::Tape;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use store::{Image, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The port it listens on.
pub const PORT: u16 = 6379;

/// What kind of machine it is. Times are parameters, not measured ones.
#[derive(Clone, Debug)]
pub struct Model {
    /// Memory the process pretends to have beside its records, in GiB.
    pub gib: u64,
    /// How long a fork takes for each GiB.
    pub fork_per_gib: Duration,
    /// How long a child writes for each GiB.
    pub child_per_gib: Duration,
    /// What a command costs.
    pub command: Duration,
    /// What a write costs more while a child shares the memory.
    pub copy: Duration,
    /// What a sync of the log takes.
    pub sync: Duration,
    /// A snapshot is made this often, whatever the settings say.
    pub save_every: Option<Duration>,
    /// How far the replica is behind; there is none without.
    pub replica_lag: Option<Duration>,
    /// Settings.
    pub config: Vec<(String, String)>,
    /// What the server says it is.
    pub version: Version,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            gib: 4,
            fork_per_gib: Duration::from_millis(20),
            child_per_gib: Duration::from_millis(500),
            command: Duration::from_micros(10),
            copy: Duration::from_micros(200),
            sync: Duration::from_millis(3),
            save_every: None,
            replica_lag: None,
            config: vec![("appendonly".into(), "yes".into()), ("save".into(), String::new())],
            version: Version::NEW,
        }
    }
}

/// A connection, as the machine sees it.
pub(super) struct Link {
    pub(super) id: ClientId,
    pub(super) out: RefCell<Vec<u8>>,
    /// There is something to send, or the connection has to end.
    pub(super) wake: Notify,
    pub(super) dead: std::cell::Cell<bool>,
}

/// A child that writes a file.
pub(super) struct Child {
    pub(super) ends: Instant,
    pub(super) image: Image,
    pub(super) dirty: u64,
    pub(super) is_log: bool,
}

pub(super) struct Replica {
    pub(super) server: Server,
    pub(super) queue: VecDeque<(Instant, Effect)>,
}

/// Everything about the machine that changes.
pub(super) struct State {
    pub(super) server: Server,
    pub(super) store: Store,
    pub(super) links: BTreeMap<ClientId, Rc<Link>>,
    pub(super) busy_until: Instant,
    pub(super) debt: Duration,
    pub(super) up: bool,
    /// The process begins again at this moment.
    pub(super) starts: Option<Instant>,
    pub(super) loaded: Option<Instant>,
    pub(super) child: Option<Child>,
    pub(super) replica: Option<Replica>,
    /// A sync of the log is under way until this moment, up to an offset.
    pub(super) sync: Option<(Instant, u64)>,
    pub(super) synced_last: Instant,
    pub(super) saved_last: Instant,
    /// A phase ends at this moment: of being a replica, of too little memory.
    pub(super) demoted: Option<Instant>,
    pub(super) squeezed: Option<Instant>,
    pub(super) born: Instant,
    pub(super) connected: u64,
}

/// A machine with a server.
pub struct Machine {
    pub(super) model: Model,
    /// What goes wrong.
    pub mishaps: Rc<Mishaps>,
    pub(super) state: RefCell<State>,
    /// Somebody's wait may be over.
    pub(super) changed: Notify,
    pub(super) tape: Arc<Tape>,
}

/// Virtual time since 1970, as every clock of a world has it.
pub(super) fn wall(born: Instant) -> Duration {
    Duration::from_secs(crate::devices::clock::DAWN.unsigned_abs()) + born.elapsed()
}

impl Machine {
    /// A machine with an empty server. Must be made inside its host.
    #[must_use]
    pub fn new(model: Model, mishaps: Rc<Mishaps>, tape: Arc<Tape>) -> Rc<Machine> {
        let now = Instant::now();
        let mut server = Server::new(model.version);
        prepare(&mut server, &model, now);
        let replica =
            model.replica_lag.map(|_| Replica { server: Server::new(model.version), queue: VecDeque::new() });
        let state = State {
            server,
            store: Store::default(),
            links: BTreeMap::new(),
            busy_until: now,
            debt: Duration::ZERO,
            up: true,
            starts: None,
            loaded: None,
            child: None,
            replica,
            sync: None,
            synced_last: now,
            saved_last: now,
            demoted: None,
            squeezed: None,
            born: now,
            connected: 0,
        };
        Rc::new(Machine { model, mishaps, state: RefCell::new(state), changed: Notify::new(), tape })
    }

    /// Connections taken so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.state.borrow().connected
    }

    /// Does a command at the machine itself, as an operator would.
    pub fn operator(&self, words: &[&str]) -> Vec<Frame> {
        let args = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let id = self.state.borrow_mut().server.connect();
        let frames = self.state.borrow_mut().server.execute(id, &args);
        self.state.borrow_mut().server.disconnect(id);
        self.after(&mut self.state.borrow_mut());
        frames
    }

    /// Records of one database now.
    #[must_use]
    pub fn database(&self, number: usize) -> super::value::Database {
        self.state.borrow().server.databases.get(number).cloned().unwrap_or_default()
    }
}

/// Settings and facts of a server that begins.
pub(super) fn prepare(server: &mut Server, model: &Model, born: Instant) {
    for (name, value) in &model.config {
        drop(server.config.set(name, value));
    }
    server.facts.ballast = model.gib << 30;
    server.facts.now = wall(born);
    server.facts.last_save = wall(born);
}
