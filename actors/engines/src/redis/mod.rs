//! The Redis engine: records of a volume in a Redis, shared with every other client of the volume, also those of
//! other programs. A change set is committed by one script in one round trip, or where scripts can't be used by
//! WATCH, MULTI and EXEC from the same change set. Knows no rule of the file system, and no socket.

mod commit;
mod health;
mod link;
mod listing;
mod numbers;
mod place;
mod push;
mod read;
mod record;
mod scan;
mod server;
mod strangers;
mod sweep;
mod url;
mod watch;
mod within;

pub use link::ConnectError;
pub use server::ServerInfo;
pub use url::{RedisUrl, Servers, UrlError};

use async_trait::async_trait;
use commit::{SCRIPT, sentence};
use link::{Link, Miss};
use listing::Listings;
use place::Places;
use redis::{Cmd, RedisError, ServerErrorKind, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use zest_metadata::{
    Applied, ChangeSet, CommitError, Engine, EngineError, Key, Lengths, Listener, Record, Scan, SlicePage,
    Stalls,
};
use zest_types::limits;
use zest_world::planted::{self, Bug};
use zest_world::{Dial, World};

/// How to use a Redis.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOptions {
    /// Commit by script; otherwise by WATCH, MULTI and EXEC.
    pub scripts: bool,
    /// Ask the server to tell what others change; only with scripts.
    pub push: bool,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions { scripts: true, push: true }
    }
}

/// The engine. Its connection lives in the tokio runtime it was opened in.
pub struct RedisEngine {
    link: Link,
    places: Places,
    scripts: AtomicBool,
    script: redis::Script,
    listings: Listings,
    strangers: strangers::Strangers,
    world: World,
}

impl RedisEngine {
    /// Connects to the server of a URL. It need not hold a volume.
    pub async fn connect(
        url: &RedisUrl,
        dial: Arc<dyn Dial>,
        world: &World,
        options: ConnectOptions,
    ) -> Result<RedisEngine, ConnectError> {
        let link = Link::open(url, dial, world, options.push && options.scripts).await?;
        let places = Places { prefix: link.prefix().to_vec() };
        Ok(RedisEngine {
            link,
            places,
            scripts: AtomicBool::new(options.scripts),
            script: redis::Script::new(SCRIPT),
            listings: Listings::default(),
            strangers: strangers::Strangers::default(),
            world: world.clone(),
        })
    }

    /// Whether the server tells what others change.
    #[must_use]
    pub fn pushes(&self) -> bool {
        self.link.pushes()
    }

    /// The volume's URL, without password.
    #[must_use]
    pub fn url(&self) -> &RedisUrl {
        &self.link.core.url
    }

    /// One command, repeated while the connection is being made again, until the deadline: only for what may be
    /// done twice.
    async fn ask(&self, command: &Cmd) -> Result<Value, EngineError> {
        let mut patience = Patience::new(&self.world);
        loop {
            match self.link.run(command).await {
                Ok(answer) => return Ok(answer),
                Err(miss) => patience.bear(self, miss).await?,
            }
        }
    }

    /// Several commands in one round trip, likewise.
    async fn ask_all(&self, pipeline: &redis::Pipeline) -> Result<Vec<Value>, EngineError> {
        let mut patience = Patience::new(&self.world);
        loop {
            match self.link.run_all(pipeline).await {
                Ok(answers) => return Ok(answers),
                Err(miss) => patience.bear(self, miss).await?,
            }
        }
    }

    async fn commit_by_script(&self, changes: &ChangeSet, known: &Lengths) -> Result<Applied, CommitError> {
        let sentence = sentence(&self.places, changes, known)?;
        let mut by_name = true;
        let mut patience = Patience::new(&self.world);
        loop {
            let mut command = redis::cmd(if by_name { "EVALSHA" } else { "EVAL" });
            command.arg(if by_name { self.script.get_hash() } else { SCRIPT });
            command.arg(sentence.keys.len());
            for part in sentence.keys.iter().chain(&sentence.words) {
                command.arg(&part[..]);
            }
            match self.link.run(&command).await {
                Ok(answer) => return sentence.understand(answer),
                Err(Miss::Server(error)) if is(&error, ServerErrorKind::NoScript) => by_name = false,
                Err(Miss::Server(error)) if no_scripts(&error) => {
                    self.scripts.store(false, Ordering::Relaxed);
                    self.link.core.stop_pushes();
                    self.world.trace.complain(&format!(
                        "metadata server {} runs no scripts ({error}): changes take more round trips",
                        self.url()
                    ));
                    return watch::commit(self, changes).await;
                }
                Err(Miss::Unknown(why)) if !planted::active(Bug::LostReplyRepeated) => {
                    return Err(CommitError::Unknown(why));
                }
                Err(miss) => patience.bear(self, miss).await?,
            }
        }
    }
}

fn is(error: &RedisError, kind: ServerErrorKind) -> bool {
    error.kind() == redis::ErrorKind::Server(kind)
}

fn no_scripts(error: &RedisError) -> bool {
    let text = error.to_string();
    is(error, ServerErrorKind::NoPerm) || text.contains("unknown command")
}

/// Waits out what passes by itself, until the deadline.
struct Patience {
    begun: Duration,
    pause: Duration,
}

impl Patience {
    fn new(world: &World) -> Patience {
        Patience { begun: world.clock.mono(), pause: Duration::from_millis(10) }
    }

    /// Returns when it is worth another try.
    async fn bear(&mut self, engine: &RedisEngine, miss: Miss) -> Result<(), EngineError> {
        let error = match miss {
            Miss::NotDone(why) => return Err(EngineError::Failed(why)),
            // Only what may be repeated comes here; `Link` waits for the next connection.
            Miss::Unknown(why) => why,
            Miss::Server(error) => {
                use ServerErrorKind as Kind;
                let text = error.to_string();
                let elsewhere = [Kind::ReadOnly, Kind::Moved, Kind::Ask].iter().any(|kind| is(&error, *kind));
                if elsewhere {
                    engine.link.core.elsewhere(&text);
                }
                let passes =
                    [Kind::BusyLoading, Kind::MasterDown, Kind::ClusterDown, Kind::TryAgain, Kind::ExecAbort];
                if !elsewhere
                    && !passes.iter().any(|kind| is(&error, *kind))
                    && !["max number of clients", "BUSY", "LOADING"].iter().any(|word| text.contains(word))
                {
                    return Err(refusal(engine.url(), &error));
                }
                text
            }
        };
        let deadline = Duration::from_millis(limits::META_DEADLINE_MS);
        if engine.world.clock.mono().saturating_sub(self.begun) > deadline {
            return Err(EngineError::Failed(format!("{}: {error}", engine.url())));
        }
        engine.world.clock.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        Ok(())
    }
}

fn refusal(url: &RedisUrl, error: &RedisError) -> EngineError {
    let text = error.to_string();
    if text.contains("OOM") {
        let remedy = "raise its maxmemory, or remove files; removing needs memory too";
        return EngineError::Full(format!("{url} is at its memory limit: {remedy}"));
    }
    if text.contains("MISCONF") {
        let remedy = "it could not save its data to disk; look at its log and disk";
        return EngineError::Failed(format!("{url} takes no changes: {remedy}"));
    }
    EngineError::Failed(format!("{url}: {text}"))
}

#[async_trait]
impl Engine for RedisEngine {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        read::read(self, keys).await
    }

    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        let mut found = scan::scan(self, scan).await?;
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.truncate(scan.limit());
        Ok(found)
    }

    async fn slices(&self, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
        sweep::slices(self, from).await
    }

    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.commit_knowing(changes, &Lengths::new()).await
    }

    async fn commit_knowing(&self, changes: &ChangeSet, known: &Lengths) -> Result<Applied, CommitError> {
        let applied = match self.scripts.load(Ordering::Relaxed) {
            true => self.commit_by_script(changes, known).await,
            false => watch::commit(self, changes).await,
        }?;
        self.link.core.numbers.note(&applied.records);
        Ok(applied)
    }

    /// What the server acknowledged is as durable as its persistence makes it: there is nothing to wait for.
    async fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn exclusive(&self) -> bool {
        false
    }

    fn listen(&self, listener: Arc<dyn Listener>) -> bool {
        *self.link.core.listener.lock() = Some(listener);
        self.link.pushes()
    }

    fn stalls(&self) -> Stalls {
        self.link.core.health.look()
    }
}
