//! The connection to a Redis: one multiplexed connection, made again by one task when it is lost. Whoever asks
//! waits until there is one, up to the deadline; what was sent on a connection that broke is unknown. Knows the
//! protocol's library and no record.

use super::health::Health;
use super::numbers::Numbers;
use super::push;
use super::url::{RedisUrl, Servers};
use super::within::within;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError, Value};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use zest_metadata::{Changed, Listener};
use zest_types::limits;
use zest_world::planted::{self, Bug};
use zest_world::{Dial, Target, World};

/// Why a server could not be connected to. Texts name what was tried.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ConnectError {
    #[error("{target} can't be reached: {error}; is the server running, and the address right?")]
    Unreachable { target: String, error: io::Error },
    #[error("{0} does not answer; is it overloaded, or no Redis?")]
    Silent(String),
    #[error(
        "{target} wants a right user and password: {why}; give them in the URL, REDIS_PASSWORD, META_PASSWORD or META_PASSWORD_FILE"
    )]
    Login { target: String, why: String },
    #[error("{target} broke the connection off: {why}; is it overloaded, or no Redis?")]
    Lost { target: String, why: String },
    #[error("{target}: {why}")]
    Refused { target: String, why: String },
    #[error("no sentinel knows where {0:?} is; is this its name?")]
    NoPrimary(String),
}

/// How long an answer may take where a stall is taken for an error: the library's own default.
const IMPATIENT: Duration = Duration::from_millis(500);

/// What reads and writes a connection as long as it is polled.
type Driver = BoxFuture<'static, ()>;

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Miss {
    /// It was not done, and waiting longer is not allowed.
    NotDone(String),
    /// It was sent, and the connection broke.
    Unknown(String),
    /// The server refused it.
    Server(RedisError),
}

#[derive(Clone)]
struct Up {
    serial: u64,
    connection: MultiplexedConnection,
}

#[derive(Clone)]
enum State {
    Down(String),
    Up(Up),
}

pub(crate) struct Link {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    pub(crate) url: RedisUrl,
    dial: Arc<dyn Dial>,
    pub(crate) world: World,
    state: watch::Sender<State>,
    serials: AtomicU64,
    closed: AtomicBool,
    /// What keys begin with.
    prefix: Vec<u8>,
    pub(crate) listener: Arc<Mutex<Option<Arc<dyn Listener>>>>,
    turns: AtomicU64,
    pushes: AtomicBool,
    /// Where the server of a cluster sent us.
    moved: Mutex<Option<Target>>,
    pub(crate) health: Health,
    pub(crate) numbers: Numbers,
}

impl Link {
    /// Connects, and keeps connected until dropped.
    pub(crate) async fn open(
        url: &RedisUrl,
        dial: Arc<dyn Dial>,
        world: &World,
        push: bool,
    ) -> Result<Link, ConnectError> {
        let (state, _) = watch::channel(State::Down("not connected yet".into()));
        let mut core = Core {
            url: url.clone(),
            dial,
            world: world.clone(),
            state,
            serials: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            prefix: Vec::new(),
            listener: Arc::default(),
            turns: AtomicU64::new(0),
            pushes: AtomicBool::new(push),
            moved: Mutex::default(),
            health: Health::default(),
            numbers: Numbers::default(),
        };
        if matches!(url.servers, Servers::Cluster(_)) || core.is_cluster_for_sure().await? {
            core.prefix = format!("{{{}}}", url.db).into_bytes();
        }
        let core = Arc::new(core);
        let first = core.first().await?;
        tokio::spawn(Arc::clone(&core).keep(first));
        Ok(Link { core })
    }

    pub(crate) fn prefix(&self) -> &[u8] {
        &self.core.prefix
    }

    /// Whether the server tells what others change.
    pub(crate) fn pushes(&self) -> bool {
        self.core.pushes.load(Ordering::Relaxed)
    }

    /// One command.
    pub(crate) async fn run(&self, command: &Cmd) -> Result<Value, Miss> {
        let up = self.core.up().await?;
        let mut connection = up.connection.clone();
        let answer = connection.send_packed_command(command);
        let answer = match planted::active(Bug::StallBecomesError) {
            false => answer.await,
            true => within(&*self.core.world.clock, IMPATIENT, answer)
                .await
                .ok_or_else(|| Miss::NotDone(format!("{} does not answer", self.core.url)))?,
        };
        let answer = answer.and_then(|answer| match answer {
            Value::ServerError(error) => Err(error.into()),
            answer => Ok(answer),
        });
        self.core.judge(&up, answer)
    }

    /// Several commands in one go; one answer for each.
    pub(crate) async fn run_all(&self, pipeline: &Pipeline) -> Result<Vec<Value>, Miss> {
        let up = self.core.up().await?;
        let mut connection = up.connection.clone();
        let answer = pipeline.query_async::<Vec<Value>>(&mut connection).await;
        self.core.judge(&up, answer)
    }

    /// A connection of one's own, for transactions that watch keys.
    pub(crate) async fn exclusive(&self) -> Result<MultiplexedConnection, Miss> {
        // Waits first until the server is there at all.
        self.core.up().await?;
        match self.core.handshake(false).await {
            Ok((connection, driver)) => {
                tokio::spawn(driver);
                Ok(connection)
            }
            Err(error) => Err(Miss::Unknown(error.to_string())),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.core.closed.store(true, Ordering::Relaxed);
        self.core.state.send_replace(State::Down("closed".into()));
    }
}

impl Core {
    /// The connection, as soon as there is one.
    async fn up(&self) -> Result<Up, Miss> {
        let mut states = self.state.subscribe();
        let wait = async {
            loop {
                if let State::Up(up) = &*states.borrow_and_update() {
                    return Some(up.clone());
                }
                if states.changed().await.is_err() {
                    return None;
                }
            }
        };
        let deadline = Duration::from_millis(limits::META_DEADLINE_MS);
        if let Some(Some(up)) = within(&*self.world.clock, deadline, wait).await {
            return Ok(up);
        }
        let why = match &*self.state.borrow() {
            State::Down(why) => why.clone(),
            State::Up(_) => "it came back just now".into(),
        };
        Err(Miss::NotDone(format!("{} was not there for {} s: {why}", self.url, deadline.as_secs())))
    }

    fn judge<T>(&self, up: &Up, answer: Result<T, RedisError>) -> Result<T, Miss> {
        answer.map_err(|error| {
            // Without a code of the server it is the connection, or what came over it.
            if error.code().is_none() {
                self.down(up.serial, &error.to_string());
                return Miss::Unknown(format!("{}: {error}", self.url));
            }
            Miss::Server(error)
        })
    }

    /// This connection is of no use any more.
    pub(crate) fn down(&self, serial: u64, why: &str) {
        let went = self.state.send_if_modified(|state| match state {
            State::Up(up) if up.serial == serial => {
                *state = State::Down(why.into());
                true
            }
            _ => false,
        });
        if went {
            self.world.tell("redis", "lost", serial, 0);
            self.tell(&Changed::Anything);
        }
    }

    /// Connects anew although the connection works: it leads to the wrong server.
    pub(crate) fn elsewhere(&self, why: &str) {
        if let Some((_, target)) = why.rsplit_once(' ').filter(|_| why.contains("MOVED"))
            && let Some((host, port)) = target.rsplit_once(':')
            && let Ok(port) = port.parse()
        {
            let tls = match &self.url.servers {
                Servers::One(Target::Tcp { tls, .. }) => tls.clone(),
                Servers::Cluster(all) => all.iter().find_map(|target| match target {
                    Target::Tcp { tls, .. } => tls.clone(),
                    Target::Unix(_) => None,
                }),
                _ => None,
            };
            *self.moved.lock() = Some(Target::Tcp { host: host.into(), port, tls });
        }
        let serial = match &*self.state.borrow() {
            State::Up(up) => Some(up.serial),
            State::Down(_) => None,
        };
        if let Some(serial) = serial {
            self.down(serial, why);
        }
    }

    /// The server tells no more than it was asked for: what is changed on other connections of ours is not heard in
    /// time.
    pub(crate) fn stop_pushes(&self) {
        self.pushes.store(false, Ordering::Relaxed);
        self.tell(&Changed::Anything);
    }

    fn tell(&self, what: &Changed) {
        if let Some(listener) = &*self.listener.lock() {
            listener.changed(what);
        }
    }

    /// Makes the connection again whenever it is lost; one try at a time, with growing pauses.
    async fn keep(self: Arc<Self>, first: (Up, Driver)) {
        let mut next = Some(first);
        let mut pause = self.url.min_backoff;
        while !self.closed.load(Ordering::Relaxed) {
            match next.take() {
                Some((up, driver)) => {
                    pause = self.url.min_backoff;
                    self.serve(up, driver).await;
                }
                None => {
                    let spread = 0.5 + (self.world.chance.next_u64() % 1024) as f64 / 1024.0;
                    if !planted::active(Bug::ReconnectStorm) {
                        self.world.clock.sleep(pause.mul_f64(spread)).await;
                    }
                    pause = (pause * 2).min(self.url.max_backoff);
                    match self.connect().await {
                        Ok(made) => next = Some(made),
                        Err(error) => {
                            *self.moved.lock() = None;
                            self.state.send_replace(State::Down(error.to_string()));
                        }
                    }
                }
            }
        }
    }

    /// Serves one connection until it is lost.
    async fn serve(&self, up: Up, driver: Driver) {
        let serial = up.serial;
        self.world.tell("redis", "connected", serial, 0);
        self.state.send_replace(State::Up(up.clone()));
        let mut states = self.state.subscribe();
        let lost = async {
            while matches!(&*states.borrow_and_update(), State::Up(now) if now.serial == serial) {
                if states.changed().await.is_err() {
                    return;
                }
            }
        };
        futures::pin_mut!(lost);
        let beat = self.beat(up).fuse();
        futures::pin_mut!(beat);
        let mut driver = driver.fuse();
        let mut lost = lost.fuse();
        futures::select_biased! {
            () = driver => self.down(serial, "the server closed the connection"),
            () = beat => self.down(serial, "the server does not answer"),
            () = lost => {}
        }
    }

    /// Asks whether the server lives, as long as it does.
    async fn beat(&self, up: Up) {
        let clock = &*self.world.clock;
        let ping = redis::cmd("PING");
        loop {
            let sent = clock.mono();
            let mut connection = up.connection.clone();
            let answer = connection.send_packed_command(&ping).fuse();
            futures::pin_mut!(answer);
            let stall = Duration::from_millis(limits::META_STALL_MS);
            let quick = within(clock, stall, &mut answer).await;
            let answer = match quick {
                Some(answer) => answer,
                None => {
                    self.health.stall_begins(sent);
                    self.world.tell("redis", "stall", up.serial, 0);
                    let late = within(clock, self.url.read_timeout, &mut answer).await;
                    let lasted = clock.mono().saturating_sub(sent);
                    self.world.tell("redis", "stall over", up.serial, 0);
                    let cause = match &late {
                        Some(Ok(_)) => self.cause(&up).await,
                        _ => "it does not answer".into(),
                    };
                    self.health.stall_ends(lasted, &cause);
                    self.world.trace.complain(&format!(
                        "metadata server {} did not answer for {} ms: {cause}",
                        self.url,
                        lasted.as_millis()
                    ));
                    match late {
                        Some(answer) => answer,
                        None => return,
                    }
                }
            };
            if answer.is_err() {
                return;
            }
            if let Some(listener) =
                self.listener.lock().as_ref().filter(|_| self.pushes.load(Ordering::Relaxed))
            {
                listener.vouch(sent + Duration::from_millis(limits::META_VOUCH_MS));
            }
            clock.sleep(Duration::from_millis(limits::META_PING_MS)).await;
        }
    }

    /// Why the server was silent, as far as it tells.
    async fn cause(&self, up: &Up) -> String {
        let mut connection = up.connection.clone();
        let mut info = String::new();
        for section in ["persistence", "stats", "replication"] {
            let mut command = redis::cmd("INFO");
            command.arg(section);
            if let Ok(answer) = connection.send_packed_command(&command).await
                && let Ok(Some(text)) = super::record::text(answer)
            {
                info.push_str(&text);
            }
        }
        self.health.explain(&info)
    }

    fn lost(&self) -> ConnectError {
        ConnectError::Lost { target: self.url.to_string(), why: "an answer did not come".into() }
    }

    /// The first connection. One that broke off is tried again, as all later ones are.
    async fn first(self: &Core) -> Result<(Up, Driver), ConnectError> {
        for _ in 1..limits::META_FIRST_TRIES {
            match self.connect().await {
                Err(ConnectError::Lost { .. }) => self.world.clock.sleep(self.url.min_backoff).await,
                outcome => return outcome,
            }
        }
        self.connect().await
    }

    async fn is_cluster_for_sure(self: &Core) -> Result<bool, ConnectError> {
        for _ in 1..limits::META_FIRST_TRIES {
            match self.is_cluster().await {
                Err(ConnectError::Lost { .. }) => self.world.clock.sleep(self.url.min_backoff).await,
                outcome => return outcome,
            }
        }
        self.is_cluster().await
    }

    async fn connect(self: &Core) -> Result<(Up, Driver), ConnectError> {
        let push = self.pushes.load(Ordering::Relaxed);
        let (mut connection, driver) = match self.handshake(push).await {
            // Servers before 6 know neither the newer protocol nor pushes.
            Err(ConnectError::Refused { .. }) if push => {
                let made = self.handshake(false).await?;
                self.pushes.store(false, Ordering::Relaxed);
                made
            }
            other => other?,
        };
        let mut driver = driver.fuse();
        if self.pushes.load(Ordering::Relaxed) {
            let track = push::tracking();
            let asked = async {
                let asked = connection.send_packed_command(&track).fuse();
                futures::pin_mut!(asked);
                futures::select_biased! { answer = asked => said(answer), () = driver => None }
            };
            let time = Duration::from_millis(limits::META_CONNECT_MS);
            let answer = within(&*self.world.clock, time, asked).await.flatten();
            // A refusal is an answer, too; none says nothing about what the server can do.
            let answer = answer.ok_or_else(|| self.lost())?;
            self.pushes.store(matches!(answer, Value::Okay), Ordering::Relaxed);
        }
        let raised = async {
            let raised = self.raise_numbers(&mut connection).fuse();
            futures::pin_mut!(raised);
            futures::select_biased! { done = raised => done, () = driver => None }
        };
        let time = Duration::from_millis(limits::META_CONNECT_MS);
        let raised = within(&*self.world.clock, time, raised).await.flatten();
        raised.ok_or_else(|| self.lost())?;
        let serial = self.serials.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((Up { serial, connection }, driver.boxed()))
    }

    /// Before another process than before is used: no number is given twice. `None` when it does not answer.
    async fn raise_numbers(&self, connection: &mut MultiplexedConnection) -> Option<()> {
        let mut info = redis::cmd("INFO");
        info.arg("server");
        // One that says nothing of itself may still be used.
        let said = match connection.send_packed_command(&info).await {
            Ok(Value::ServerError(_)) => None,
            Ok(answer) => super::record::text(answer).ok().flatten(),
            Err(_) => return None,
        };
        let lines = said.iter().flat_map(|said| said.lines());
        let process = lines.filter_map(|line| line.strip_prefix("run_id:")).map(str::trim).next();
        for raise in self.numbers.raises(process) {
            let key = [&self.prefix[..], raise.name.as_bytes()].concat();
            let stands = add(connection, &key, raise.by).await?;
            if raise.lost(stands) > 0 {
                self.world.trace.complain(&format!(
                    "metadata server {} came back without its last changes: {} of {} given out here are unknown to it",
                    self.url,
                    raise.lost(stands),
                    raise.name
                ));
            }
            match raise.missing(stands) {
                0 => {}
                more => drop(add(connection, &key, more).await?),
            }
        }
        self.numbers.settle(process);
        Some(())
    }

    async fn handshake(&self, push: bool) -> Result<(MultiplexedConnection, Driver), ConnectError> {
        let target = self.target().await?;
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if self.prefix.is_empty() {
            info = info.set_db(self.url.db);
        }
        info = self.login(info);
        let mut config = AsyncConnectionConfig::new().set_response_timeout(None);
        if push {
            info = info.set_protocol(ProtocolVersion::RESP3);
            config = config.set_push_sender(self.ear());
        }
        self.shake(&target, info, config).await
    }

    async fn shake(
        &self,
        target: &Target,
        info: RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Driver), ConnectError> {
        let shown = target.to_string();
        let clock = &*self.world.clock;
        let time = Duration::from_millis(limits::META_CONNECT_MS);
        let stream = within(clock, time, self.dial.dial(target)).await;
        let stream = stream
            .ok_or_else(|| ConnectError::Silent(shown.clone()))?
            .map_err(|error| ConnectError::Unreachable { target: shown.clone(), error })?;
        let made = within(clock, time, MultiplexedConnection::new_with_config(&info, stream, config)).await;
        let made = made.ok_or_else(|| ConnectError::Silent(shown.clone()))?;
        made.map(|(connection, driver)| (connection, driver.boxed())).map_err(|error| {
            let why = error.to_string();
            if error.is_io_error() || error.is_connection_dropped() {
                return ConnectError::Lost { target: shown, why };
            }
            let login =
                ["AUTH", "auth", "WRONGPASS", "password", "NOPERM"].iter().any(|word| why.contains(word));
            match login {
                true => ConnectError::Login { target: shown, why },
                false => ConnectError::Refused { target: shown, why },
            }
        })
    }

    /// Hears pushes in the task that reads the connection, so that they keep their place among answers.
    fn ear(&self) -> impl Fn(redis::PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (prefix, listener) = (self.prefix.clone(), Arc::clone(&self.listener));
        move |info| {
            if let Some(listener) = &*listener.lock()
                && !planted::active(Bug::InvalidationDropped)
            {
                push::heard(&prefix, &info).iter().for_each(|what| listener.changed(what));
            }
            Ok(())
        }
    }

    /// Where to connect to now.
    async fn target(&self) -> Result<Target, ConnectError> {
        if let Some(target) = self.moved.lock().clone() {
            return Ok(target);
        }
        match &self.url.servers {
            Servers::One(target) => Ok(target.clone()),
            Servers::Cluster(members) => {
                let turn = usize::try_from(self.turns.fetch_add(1, Ordering::Relaxed)).unwrap_or(0);
                members.iter().cycle().nth(turn % members.len().max(1)).cloned().ok_or_else(|| {
                    ConnectError::Refused { target: self.url.to_string(), why: "it names no member".into() }
                })
            }
            Servers::Sentinels { primary, sentinels } => self.ask_sentinels(primary, sentinels).await,
        }
    }

    async fn ask_sentinels(&self, primary: &str, sentinels: &[Target]) -> Result<Target, ConnectError> {
        let mut last = ConnectError::NoPrimary(primary.into());
        for sentinel in sentinels {
            let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
            if let Some(password) = self.url.sentinel_password() {
                info = info.set_password(password);
            }
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let (connection, driver) = match self.shake(sentinel, info, config).await {
                Ok(made) => made,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            let mut ask = redis::cmd("SENTINEL");
            ask.arg("get-master-addr-by-name").arg(primary);
            let Some(answer) = self.ask(connection, driver, &ask).await else { continue };
            let Ok(parts) = super::record::list(answer) else { continue };
            if let [host, port] = &parts[..]
                && let Ok(port) = String::from_utf8_lossy(port).parse()
            {
                let tls = match sentinel {
                    Target::Tcp { tls, .. } => tls.clone(),
                    Target::Unix(_) => None,
                };
                return Ok(Target::Tcp { host: String::from_utf8_lossy(host).into_owned(), port, tls });
            }
        }
        Err(last)
    }

    /// One question on a connection that is used for nothing else.
    async fn ask(
        &self,
        mut connection: MultiplexedConnection,
        driver: impl Future<Output = ()>,
        command: &Cmd,
    ) -> Option<Value> {
        let time = Duration::from_millis(limits::META_CONNECT_MS);
        let asked = async {
            let asked = connection.send_packed_command(command).fuse();
            let driver = driver.fuse();
            futures::pin_mut!(asked, driver);
            futures::select_biased! { answer = asked => said(answer), () = driver => None }
        };
        within(&*self.world.clock, time, asked).await.flatten()
    }

    /// Whether a single server that was named is a member of a cluster.
    async fn is_cluster(&self) -> Result<bool, ConnectError> {
        let Servers::One(target) = &self.url.servers else { return Ok(false) };
        let info = self.login(RedisConnectionInfo::default().set_skip_set_lib_name());
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let (connection, driver) = self.shake(target, info, config).await?;
        let mut command = redis::cmd("CLUSTER");
        command.arg("INFO");
        let answer = self.ask(connection, driver, &command).await.ok_or_else(|| self.lost())?;
        let text = super::record::text(answer).ok().flatten();
        Ok(text.is_some_and(|text| text.contains("cluster_state:")))
    }

    fn login(&self, mut info: RedisConnectionInfo) -> RedisConnectionInfo {
        if let Some(user) = &self.url.user {
            info = info.set_username(user);
        }
        if let Some(password) = self.url.password() {
            info = info.set_password(password);
        }
        info
    }
}

/// What the server said, a refusal included; nothing when it did not.
fn said(answer: Result<Value, RedisError>) -> Option<Value> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => error.code().is_some().then_some(Value::Nil),
    }
}

/// Adds to a counter; what it stands at then.
async fn add(connection: &mut MultiplexedConnection, key: &[u8], more: i64) -> Option<i64> {
    let mut command = redis::cmd("INCRBY");
    command.arg(key).arg(more);
    match connection.send_packed_command(&command).await {
        Ok(Value::Int(stands)) => Some(stands),
        _ => None,
    }
}
