//! A Redis server as a pure value: databases, connections, scripts, settings. A command goes in, replies come out, and
//! beside them what it changed (for log and replicas), what it told other connections, and what it wants of the machine
//! it runs on. Time, chance, disks and sockets are the machine's.

use super::command::{self, Run, Spec};
use super::config::Config;
use super::resp::{Args, Frame};
use super::tracking::Tracking;
use super::value::{Database, Text};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A connection.
pub type ClientId = u64;

/// Number of databases.
pub const DATABASES: usize = 16;

/// The version a server says it has; commands that came later are not known to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// A server of today.
    pub const NEW: Version = Version(8, 2, 1);
}

/// What a connection has said about itself.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Its database.
    pub db: usize,
    /// Its protocol.
    pub resp: u8,
    /// Its name.
    pub name: Text,
    /// Library name and version.
    pub library: (Text, Text),
    /// Whether it gave the password.
    pub trusted: bool,
    /// Commands queued since MULTI.
    pub queue: Option<Vec<Args>>,
    /// A queued command was wrong.
    pub queue_broken: bool,
    /// Keys it watches.
    pub watched: BTreeSet<(usize, Text)>,
    /// A watched key was changed.
    pub watch_broken: bool,
    /// What it wants to hear about.
    pub tracking: Option<Tracking>,
    /// Channels it listens to.
    pub channels: BTreeSet<Text>,
    /// Replication offset behind its last write.
    pub written: u64,
}

/// A write for the log and for replicas: its database and the command.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Database.
    pub db: usize,
    /// Command.
    pub args: Args,
    /// Replication offset behind it.
    pub offset: u64,
}

/// What a command wants of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A snapshot in a child.
    Save,
    /// A snapshot, here and now.
    SaveNow,
    /// A new log in a child.
    Rewrite,
    /// Nothing at all for a while.
    Sleep(Duration),
    /// The end of a connection, after what it was told.
    Kill(ClientId),
    /// The end of the process.
    Shutdown {
        /// With a snapshot before.
        save: bool,
    },
    /// A reply once so many logs and replicas have what the connection wrote.
    Wait {
        /// Who waits.
        client: ClientId,
        /// Logs on this machine; nothing: do not answer about them.
        logs: Option<u64>,
        /// Replicas.
        replicas: u64,
        /// No longer than this; for ever where it is zero.
        timeout: Duration,
    },
    /// A setting was changed.
    Configured,
}

/// What the machine knows and the server tells.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Time since 1970.
    pub now: Duration,
    /// Since the process began.
    pub uptime: Duration,
    /// A replica of another server.
    pub replica: bool,
    /// Records are being loaded.
    pub loading: bool,
    /// A snapshot is being made.
    pub saving: bool,
    /// The last snapshot failed.
    pub save_failed: bool,
    /// Why the log can't be written.
    pub log_failed: Option<String>,
    /// A new log is being made.
    pub rewriting: bool,
    /// The last new log failed.
    pub rewrite_failed: bool,
    /// When the last snapshot was made, since 1970.
    pub last_save: Duration,
    /// How long the last fork took.
    pub fork: Duration,
    /// Memory it pretends to have, beside that of its records.
    pub ballast: u64,
    /// Delayed syncs of the log.
    pub delayed_syncs: u64,
    /// Offset up to which the log is synced.
    pub synced: u64,
    /// Offsets of its replicas.
    pub replicas: Vec<u64>,
    /// Number of the process, in place of a random id.
    pub process: u64,
}

/// Counted since the process began.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Commands.
    pub commands: u64,
    /// Connections.
    pub connections: u64,
    /// Keys thrown away for lack of memory.
    pub evicted: u64,
    /// Writes since the last snapshot.
    pub dirty: u64,
    /// Connections refused.
    pub rejected: u64,
}

/// A server.
pub struct Server {
    /// Its version.
    pub version: Version,
    /// Its settings.
    pub config: Config,
    /// Its records.
    pub databases: Vec<Database>,
    /// Its connections.
    pub clients: BTreeMap<ClientId, Client>,
    /// Scripts by their digest.
    pub scripts: BTreeMap<String, Text>,
    /// What the machine knows.
    pub facts: Facts,
    /// What is counted.
    pub stats: Stats,
    /// Replication offset.
    pub offset: u64,
    pub(super) lua: Option<mlua::Lua>,
    pub(super) effects: Vec<Effect>,
    pub(super) wishes: Vec<Wish>,
    pub(super) pushes: Vec<(ClientId, Frame)>,
    pub(super) news: Vec<(Text, ClientId)>,
    /// Who has read a key and wants to hear of changes to it, and who will.
    pub(super) reads: BTreeMap<Text, BTreeSet<ClientId>>,
    pub(super) direct: Vec<(ClientId, Text)>,
    /// Keys the running script was given.
    pub(super) declared: Vec<Text>,
    /// A transaction or a script is running.
    pub(super) inside: bool,
    /// A script is running.
    pub(super) scripted: bool,
    /// It began without memory, and has not written yet.
    pub(super) starved: bool,
    next_client: ClientId,
}

impl Server {
    /// An empty server.
    #[must_use]
    pub fn new(version: Version) -> Server {
        Server {
            version,
            config: Config::default(),
            databases: vec![Database::default(); DATABASES],
            clients: BTreeMap::new(),
            scripts: BTreeMap::new(),
            facts: Facts::default(),
            stats: Stats::default(),
            offset: 0,
            lua: None,
            effects: Vec::new(),
            wishes: Vec::new(),
            pushes: Vec::new(),
            news: Vec::new(),
            reads: BTreeMap::new(),
            direct: Vec::new(),
            declared: Vec::new(),
            inside: false,
            scripted: false,
            starved: false,
            next_client: 1,
        }
    }

    /// A new connection.
    pub fn connect(&mut self) -> ClientId {
        let id = self.next_client;
        self.next_client += 1;
        self.stats.connections += 1;
        let trusted = self.config.get("requirepass").is_empty();
        self.clients.insert(id, Client { resp: 2, trusted, ..Client::default() });
        id
    }

    /// A connection has ended.
    pub fn disconnect(&mut self, id: ClientId) {
        self.clients.remove(&id);
    }

    /// The protocol of a connection.
    #[must_use]
    pub fn protocol(&self, id: ClientId) -> u8 {
        self.clients.get(&id).map_or(2, |client| client.resp)
    }

    /// Does a command. Nothing is answered now where a [`Wish::Wait`] is left.
    pub fn execute(&mut self, id: ClientId, args: &Args) -> Vec<Frame> {
        self.stats.commands += 1;
        let frames = self.process(id, args);
        self.tell_news();
        frames
    }

    /// What other connections must be told, in order.
    pub fn take_pushes(&mut self) -> Vec<(ClientId, Frame)> {
        std::mem::take(&mut self.pushes)
    }

    /// What was changed, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// What is wanted of the machine.
    pub fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    fn process(&mut self, id: ClientId, args: &Args) -> Vec<Frame> {
        let Some(name) = args.first() else { return Vec::new() };
        let Some(spec) = self.known(name) else { return self.refuse(id, unknown(args)) };
        let late = self.version >= Version(7, 2, 0);
        if !spec.takes(args.len()) {
            let text = format!("ERR wrong number of arguments for '{}' command", spec.name);
            return if spec.name == "exec" { vec![self.abort(id, &text)] } else { self.refuse(id, text) };
        }
        if let Some(text) = command::wrong_second(spec, args, late) {
            return self.refuse(id, text);
        }
        if let Err(text) = self.allowed(id, spec, args) {
            if spec.name == "exec" {
                return vec![self.abort(id, &text)];
            }
            return self.refuse(id, text);
        }
        let Some(client) = self.clients.get_mut(&id) else { return Vec::new() };
        if let Some(queue) = &mut client.queue
            && !spec.is(NOT_QUEUED)
        {
            if spec.is(command::NO_MULTI) {
                return self.refuse(id, "ERR Command not allowed inside a transaction".into());
            }
            queue.push(args.clone());
            return vec![Frame::Simple("QUEUED".into())];
        }
        let before = self.wishes.len();
        let reply = self.call(id, spec, args);
        let waits = self.wishes.get(before..).unwrap_or_default();
        if waits.iter().any(|wish| matches!(wish, Wish::Wait { .. })) {
            return Vec::new();
        }
        match reply {
            // Several channels are several replies.
            Frame::Push(parts) if spec.is(command::SUBSCRIBER) => parts,
            reply => vec![reply],
        }
    }

    /// The command of this name, where this version knows it.
    #[must_use]
    pub fn known(&self, name: &[u8]) -> Option<&'static Spec> {
        command::find(name).filter(|spec| spec.name != "waitaof" || self.version >= Version(7, 2, 0))
    }

    fn refuse(&mut self, id: ClientId, text: String) -> Vec<Frame> {
        if let Some(client) = self.clients.get_mut(&id)
            && client.queue.is_some()
        {
            client.queue_broken = true;
        }
        vec![Frame::Error(text)]
    }

    fn abort(&mut self, id: ClientId, why: &str) -> Frame {
        self.end_transaction(id);
        Frame::Error(format!("EXECABORT Transaction discarded because of: {why}"))
    }

    /// Whether a command may be done now.
    fn allowed(&mut self, id: ClientId, spec: &Spec, args: &Args) -> Result<(), String> {
        let Some(client) = self.clients.get(&id) else { return Err("ERR no such client".into()) };
        if !client.trusted && !spec.is(command::NO_AUTH) {
            return Err("NOAUTH Authentication required.".into());
        }
        let queued = client.queue.iter().filter(|_| spec.name == "exec").flatten();
        let flags = queued
            .filter_map(|args| command::find(args.first()?))
            .fold(spec.flags, |all, spec| all | spec.flags);
        let listens = client.resp == 2 && !client.channels.is_empty();
        self.state_allows(flags & if spec.name == "exec" { !LOADING_FLAG } else { !0 }, spec.name == "ping")?;
        if listens && !spec.is(command::SUBSCRIBER) {
            let name =
                String::from_utf8_lossy(args.first().map_or(&[][..], Vec::as_slice)).to_ascii_lowercase();
            return Err(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            ));
        }
        if self.facts.loading && !spec.is(command::LOADING) {
            return Err("LOADING Redis is loading the dataset in memory".into());
        }
        Ok(())
    }

    /// Whether the state of the server allows commands with these flags.
    pub(super) fn state_allows(&mut self, flags: u16, ping: bool) -> Result<(), String> {
        if flags & command::DENY_OOM != 0 && !self.make_room() {
            return Err("OOM command not allowed when used memory > 'maxmemory'.".into());
        }
        if (flags & command::WRITE != 0 || ping) && !self.facts.replica {
            self.disk_allows()?;
        }
        if flags & command::WRITE != 0 && self.facts.replica {
            return Err("READONLY You can't write against a read only replica.".into());
        }
        Ok(())
    }

    fn disk_allows(&self) -> Result<(), String> {
        if let Some(why) = &self.facts.log_failed {
            return Err(format!("MISCONF Errors writing to the AOF file: {why}"));
        }
        let stops = self.config.is("stop-writes-on-bgsave-error") && !self.config.get("save").is_empty();
        if self.facts.save_failed && stops {
            return Err("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
                        disk. Commands that may modify the data set are disabled, because this instance is \
                        configured to report errors during writes if RDB snapshotting fails \
                        (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the \
                        RDB error."
                .into());
        }
        Ok(())
    }

    /// Bytes in use.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.facts.ballast + (1 << 20) + self.databases.iter().map(|db| db.bytes() as u64).sum::<u64>()
    }

    /// Throws keys away until there is room, where the policy allows it; whether there is room.
    fn make_room(&mut self) -> bool {
        let limit = self.config.number("maxmemory");
        if limit == 0 {
            return true;
        }
        let evicts = self.config.get("maxmemory-policy").starts_with("allkeys");
        while self.memory() > limit {
            let oldest =
                self.databases.iter().enumerate().find_map(|(db, keys)| Some((db, keys.least_used()?)));
            let Some((db, key)) = oldest.filter(|_| evicts) else { return false };
            self.databases[db].remove(&key);
            self.databases[db].changed(&key, 1);
            self.stats.evicted += 1;
            self.settle(0, db, &[b"DEL".to_vec(), key]);
        }
        true
    }

    /// Does a command that is allowed.
    pub(super) fn call(&mut self, id: ClientId, spec: &Spec, args: &Args) -> Frame {
        let db = self.clients.get(&id).map_or(0, |client| client.db);
        let result = match spec.run {
            Run::Data(run) => run(&mut self.databases[db], args),
            Run::Server(run) => run(self, id, args),
        };
        if matches!(spec.run, Run::Data(_)) && spec.is(command::WRITE) {
            self.settle(id, db, args);
        } else {
            self.remember(id, spec, args);
        }
        result.unwrap_or_else(|fail| Frame::Error(fail.0))
    }

    /// After a change: those who watch lose, those who track will hear, log and replicas get the command.
    pub(super) fn settle(&mut self, id: ClientId, db: usize, args: &[Text]) {
        let (touched, dirty) = self.databases[db].take_changes();
        for key in touched {
            self.touch(id, db, key);
        }
        if dirty > 0 {
            self.stats.dirty += dirty;
            self.propagate(id, db, args.to_vec());
        }
    }

    pub(super) fn touch(&mut self, id: ClientId, db: usize, key: Text) {
        let watched = (db, key);
        for client in self.clients.values_mut() {
            client.watch_broken |= client.watched.contains(&watched);
        }
        self.tell_readers(id, &watched.1);
        // What a script changes is changed by nobody: who runs it hears of it even without wanting its own changes.
        self.news.push((watched.1, if self.scripted { 0 } else { id }));
    }

    pub(super) fn propagate(&mut self, id: ClientId, db: usize, args: Args) {
        self.offset += args.iter().map(|arg| arg.len() as u64 + 5).sum::<u64>() + 4;
        self.effects.push(Effect { db, args, offset: self.offset });
        if let Some(client) = self.clients.get_mut(&id) {
            client.written = self.offset;
        }
    }

    /// Does an effect of another server, or of a log.
    pub fn replay(&mut self, effect: &Effect) {
        let Some(spec) = effect.args.first().and_then(|name| self.known(name)) else { return };
        let db = effect.db.min(DATABASES - 1);
        match spec.run {
            Run::Data(run) => drop(run(&mut self.databases[db], &effect.args)),
            Run::Server(_) if spec.name == "flushall" => {
                self.databases.iter_mut().for_each(|db| drop(db.clear()))
            }
            Run::Server(_) => drop(self.databases[db].clear()),
        }
        let (touched, dirty) = self.databases[db].take_changes();
        self.stats.dirty += dirty;
        touched.into_iter().for_each(|key| self.touch(0, db, key));
        self.offset = effect.offset;
    }

    pub(super) fn end_transaction(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.queue = None;
            client.queue_broken = false;
            client.watch_broken = false;
            client.watched.clear();
        }
    }
}

const NOT_QUEUED: u16 = command::NOT_QUEUED;
const LOADING_FLAG: u16 = command::LOADING;

fn unknown(args: &Args) -> String {
    let name: String =
        String::from_utf8_lossy(args.first().map_or(&[][..], Vec::as_slice)).chars().take(128).collect();
    let mut shown = String::new();
    for arg in args.iter().skip(1) {
        if shown.len() >= 128 {
            break;
        }
        let text: String = String::from_utf8_lossy(arg).chars().take(128 - shown.len()).collect();
        shown.push_str(&format!("'{text}' "));
    }
    format!("ERR unknown command '{name}', with args beginning with: {shown}")
}
