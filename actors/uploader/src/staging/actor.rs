//! The actor that stages blocks and brings them to the store. Many blocks share one sync: what comes while one runs
//! is written together afterwards. While the store fails, one block at a time tries whether it is back.
//!
//! A panic in a task counts as its failure. A panic in the actor ends it: blocks then go the direct way, and what
//! waits is finished by the next mount.

use super::index::{Entry, Spot, When};
use super::journal::{Item, Place, ReadError};
use super::order::Number;
use super::{LoadError, Staging, others};
use actix::prelude::*;
use bytes::Bytes;
use futures::FutureExt;
use parking_lot::Mutex;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use zest_data::BlockId;
use zest_data::retry::in_time;
use zest_types::Ino;
use zest_types::limits::{MAILBOX, STAGING_BATCH, STAGING_REST_MS};
use zest_world::{ObjectError, World};

/// Stages a block; `done` hears whether it is durable here.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Stage {
    pub ino: Ino,
    pub block: BlockId,
    pub plain: u32,
    pub data: Bytes,
    pub done: oneshot::Sender<bool>,
}

/// A block that was taken out of the index before it went up.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Forget {
    pub block: BlockId,
    pub entry: Entry,
}

/// `done` hears when all that waits now is in the store.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct DrainStaged {
    pub ino: Option<Ino>,
    pub done: oneshot::Sender<()>,
}

/// A batch was written, or not.
#[derive(Message)]
#[rtype(result = "()")]
struct Written {
    batch: Vec<Stage>,
    at: i64,
    result: io::Result<Vec<Place>>,
}

/// How an upload ended.
enum Upload {
    Stored,
    Failed(ObjectError),
    Unreadable(String),
    /// The disk did not give it this time.
    Unread(String),
    /// The staged copy is not there any more; nobody waits for it.
    Vanished,
}

/// An upload ended.
#[derive(Message)]
#[rtype(result = "()")]
struct Uploaded {
    block: BlockId,
    ended: Upload,
}

/// The journal has noted what is gone.
#[derive(Message)]
#[rtype(result = "()")]
struct Swept;

struct Waiter {
    upto: Number,
    ino: Option<Ino>,
    done: oneshot::Sender<()>,
}

/// See the head of the file.
pub struct StagingActor {
    core: Arc<Staging>,
    world: World,
    batch: Vec<Stage>,
    writing: bool,
    /// Blocks go the direct way until then.
    rests_until: Option<Duration>,
    going: usize,
    /// Failed uploads since the last that succeeded.
    failures: u32,
    store_rests_until: Duration,
    gone: Vec<(BlockId, Entry)>,
    sweeping: bool,
    drains: Vec<Waiter>,
}

impl StagingActor {
    pub(super) fn new(core: Arc<Staging>) -> StagingActor {
        let world = core.world.clone();
        StagingActor {
            core,
            world,
            batch: Vec::new(),
            writing: false,
            rests_until: None,
            going: 0,
            failures: 0,
            store_rests_until: Duration::ZERO,
            gone: Vec::new(),
            sweeping: false,
            drains: Vec::new(),
        }
    }

    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| self.world.clock.mono() < until)
    }

    fn write(&mut self, ctx: &mut Context<Self>) {
        if self.writing || self.batch.is_empty() {
            return;
        }
        self.writing = true;
        let rest = self.batch.split_off(self.batch.len().min(STAGING_BATCH));
        let batch = std::mem::replace(&mut self.batch, rest);
        let at = self.world.clock.now().sec;
        let item = |one: &Stage| Item {
            ino: one.ino,
            block: one.block,
            plain: one.plain,
            at,
            data: one.data.clone(),
        };
        let items: Vec<Item> = batch.iter().map(item).collect();
        let (slot, journal) = (Arc::new(Mutex::new(None)), Arc::clone(&self.core.journal));
        let (filled, full) = (Arc::clone(&slot), self.core.is_full());
        let job = move || {
            let written = match full {
                true => Err(io::Error::new(io::ErrorKind::StorageFull, "too many blocks wait already")),
                false => journal.append(&items),
            };
            *filled.lock() = Some(written);
        };
        let (world, actor) = (self.world.clone(), ctx.address());
        actix::spawn(async move {
            world.offload.run("stage blocks", Box::new(job)).await;
            let result = slot.lock().take();
            let result = result.unwrap_or_else(|| Err(io::Error::other("the work on it broke off")));
            actor.do_send(Written { batch, at, result });
        });
    }

    /// Starts uploads, as many as may run.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        let mono = self.world.clock.mono();
        if mono < self.store_rests_until {
            return;
        }
        let most = if self.failures > 0 { 1 } else { self.core.options.uploads };
        let all = self.drains.iter().any(|waiter| waiter.ino.is_none());
        let urgent: Vec<Ino> = self.drains.iter().filter_map(|waiter| waiter.ino).collect();
        let bounds = self.core.options.bounds;
        while self.going < most {
            let mut index = self.core.index.lock();
            let when = When {
                now: self.world.clock.now(),
                mono,
                patience: &self.core.options.patience,
                pressed: index.stats().waiting.bytes > bounds.bytes / 2,
                all,
                urgent: &urgent,
            };
            let Some((block, entry)) = index.start(&when) else { return };
            drop(index);
            self.going += 1;
            self.world.tell("staging", "upload", block.slice.0, u64::from(block.index));
            let (actor, core) = (ctx.address(), Arc::clone(&self.core));
            actix::spawn(async move {
                let ended = AssertUnwindSafe(upload(&core, block, &entry)).catch_unwind().await;
                let lost =
                    |_| Upload::Failed(ObjectError::Transient { key: String::new(), why: "panicked".into() });
                actor.do_send(Uploaded { block, ended: ended.unwrap_or_else(lost) });
            });
        }
    }

    fn store_failed(&mut self, block: BlockId, error: &ObjectError) {
        self.failures = self.failures.saturating_add(1);
        let pause = Duration::from_millis((100u64 << self.failures.min(6)).min(STAGING_REST_MS));
        let mono = self.world.clock.mono();
        self.store_rests_until = mono + pause;
        self.world.tell("staging", "upload failed", block.slice.0, u64::from(self.failures));
        let mut index = self.core.index.lock();
        index.failed(&block, mono + pause + pause);
        if self.failures == 3 {
            let waiting = index.stats().waiting;
            self.world.trace.complain(&format!(
                "staged blocks do not reach the store: {error}; {} blocks with {} bytes wait in {} and are tried again",
                waiting.blocks,
                waiting.bytes,
                self.core.place()
            ));
        }
    }

    fn store_works(&mut self) {
        if self.failures >= 3 {
            self.world.trace.complain("staged blocks reach the store again");
        }
        self.failures = 0;
        self.store_rests_until = Duration::ZERO;
    }

    /// Has the journal note what is gone, in batches.
    fn sweep(&mut self, ctx: &mut Context<Self>) {
        if self.sweeping || self.gone.is_empty() {
            return;
        }
        self.sweeping = true;
        let (mut journaled, mut files) = (Vec::new(), Vec::new());
        for (block, entry) in self.gone.drain(..) {
            match entry.spot {
                Spot::Journal(place) => journaled.push((block, place.segment)),
                Spot::Other { folder, path } => files.push((folder, path)),
            }
        }
        let core = Arc::clone(&self.core);
        let job = move || {
            // What can't be noted is uploaded once more by the next mount.
            let _ = core.journal.forget(&journaled);
            for (folder, path) in files {
                if let Some(disk) = core.options.others.get(folder) {
                    others::remove(&**disk, &path);
                }
            }
        };
        let (world, actor) = (self.world.clone(), ctx.address());
        actix::spawn(async move {
            world.offload.run("note what is uploaded", Box::new(job)).await;
            actor.do_send(Swept);
        });
    }

    fn tell_drained(&mut self) {
        let index = self.core.index.lock();
        let (over, rest): (Vec<_>, Vec<_>) =
            self.drains.drain(..).partition(|waiter| !index.waits(waiter.upto, waiter.ino));
        drop(index);
        self.drains = rest;
        for waiter in over {
            let _gone = waiter.done.send(());
        }
    }

    fn leave(&mut self, block: BlockId, entry: Entry, ctx: &mut Context<Self>) {
        if !entry.damaged {
            self.gone.push((block, entry));
        }
        self.core.changed.notify_waiters();
        self.sweep(ctx);
        self.tell_drained();
    }
}

/// One try to bring a block to the store.
async fn upload(core: &Arc<Staging>, block: BlockId, entry: &Entry) -> Upload {
    let data = match core.load(entry).await {
        Ok(data) => data,
        Err(LoadError::Journal(ReadError::Gone)) => return Upload::Vanished,
        Err(error @ (LoadError::Journal(ReadError::Disk(_)) | LoadError::Disk(_) | LoadError::Lost)) => {
            return Upload::Unread(error.to_string());
        }
        Err(error) => return Upload::Unreadable(error.to_string()),
    };
    let key = core.options.names.key(block, entry.plain);
    let put = core.world.objects.put(&key, data);
    match in_time(&core.world, &core.world.objects.manners(), &key, put).await {
        Ok(()) => Upload::Stored,
        Err(error) => Upload::Failed(error),
    }
}

impl Actor for StagingActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(Duration::from_secs(1), |actor, ctx| actor.pump(ctx));
        self.pump(ctx);
    }
}

impl Supervised for StagingActor {}

impl Handler<Stage> for StagingActor {
    type Result = ();

    fn handle(&mut self, message: Stage, ctx: &mut Self::Context) {
        if self.rests() {
            let _gone = message.done.send(false);
            return;
        }
        self.batch.push(message);
        self.write(ctx);
    }
}

impl Handler<Written> for StagingActor {
    type Result = ();

    fn handle(&mut self, message: Written, ctx: &mut Self::Context) {
        self.writing = false;
        let Written { batch, at, result } = message;
        match result {
            Ok(places) => {
                if self.rests_until.take().is_some() {
                    self.world.trace.complain(&format!("blocks are staged in {} again", self.core.place()));
                }
                for (one, place) in batch.into_iter().zip(places) {
                    let (block, spot) = (one.block, Spot::Journal(place));
                    self.world.tell("staging", "staged", block.slice.0, u64::from(block.index));
                    self.core.index.lock().add(block, one.ino, at, one.plain, spot);
                    let _gone = one.done.send(true);
                }
                self.pump(ctx);
            }
            Err(error) => {
                if self.rests_until.is_none() {
                    self.world.trace.complain(&format!(
                        "blocks can't be staged in {} ({error}): they go straight to the store for now",
                        self.core.place()
                    ));
                }
                self.world.tell("staging", "not staged", batch.len() as u64, 0);
                let rest = Duration::from_millis(STAGING_REST_MS);
                self.rests_until = Some(self.world.clock.mono() + rest);
                for one in batch.into_iter().chain(self.batch.drain(..)) {
                    let _gone = one.done.send(false);
                }
            }
        }
        self.write(ctx);
    }
}

impl Handler<Uploaded> for StagingActor {
    type Result = ();

    fn handle(&mut self, message: Uploaded, ctx: &mut Self::Context) {
        self.going = self.going.saturating_sub(1);
        let Uploaded { block, ended } = message;
        let doomed = self.core.index.lock().get(&block).is_some_and(|entry| entry.doomed);
        match ended {
            Upload::Stored => {
                self.store_works();
                self.world.tell("staging", "uploaded", block.slice.0, u64::from(block.index));
                let entry = self.core.index.lock().finished(&block, true);
                if let Some(entry) = entry {
                    self.leave(block, entry, ctx);
                }
            }
            Upload::Failed(error) => {
                self.store_failed(block, &error);
                // It need not get there any more.
                let entry = doomed.then(|| self.core.index.lock().finished(&block, false)).flatten();
                if let Some(entry) = entry {
                    self.leave(block, entry, ctx);
                }
            }
            Upload::Vanished => {
                let entry = self.core.index.lock().finished(&block, false);
                if let Some(entry) = entry {
                    self.leave(block, entry, ctx);
                }
            }
            Upload::Unreadable(why) => self.spoilt(block, &why, ctx),
            Upload::Unread(why) => {
                let rest = self.world.clock.mono() + Duration::from_millis(STAGING_REST_MS);
                self.core.index.lock().failed(&block, rest);
                self.world.trace.complain(&format!(
                    "a staged block in {} can't be read ({why}): it is kept and tried again",
                    self.core.place()
                ));
                let entry = doomed.then(|| self.core.index.lock().finished(&block, false)).flatten();
                if let Some(entry) = entry {
                    self.leave(block, entry, ctx);
                }
            }
        }
        self.pump(ctx);
    }
}

impl StagingActor {
    fn spoilt(&mut self, block: BlockId, why: &str, ctx: &mut Context<Self>) {
        let entry = self.core.index.lock().spoil(&block);
        let Some(entry) = entry else { return };
        let key = self.core.options.names.key(block, entry.plain);
        self.world.tell("staging", "damaged", block.slice.0, u64::from(block.index));
        self.world.trace.complain(&format!(
            "staged block {key} of inode {} in {} is not uploaded: {why}; it is kept",
            entry.ino,
            self.core.place()
        ));
        if let Spot::Journal(place) = entry.spot {
            let (journal, world) = (Arc::clone(&self.core.journal), self.world.clone());
            let job = move || journal.damaged(place.segment);
            actix::spawn(async move { world.offload.run("keep a damaged block", Box::new(job)).await });
        }
        self.core.changed.notify_waiters();
        self.tell_drained();
        self.sweep(ctx);
    }
}

impl Handler<Swept> for StagingActor {
    type Result = ();

    fn handle(&mut self, _: Swept, ctx: &mut Self::Context) {
        self.sweeping = false;
        self.sweep(ctx);
    }
}

impl Handler<Forget> for StagingActor {
    type Result = ();

    fn handle(&mut self, message: Forget, ctx: &mut Self::Context) {
        self.leave(message.block, message.entry, ctx);
    }
}

impl Handler<DrainStaged> for StagingActor {
    type Result = ();

    fn handle(&mut self, message: DrainStaged, ctx: &mut Self::Context) {
        let upto = self.core.index.lock().last();
        self.drains.push(Waiter { upto, ino: message.ino, done: message.done });
        self.tell_drained();
        self.pump(ctx);
    }
}
