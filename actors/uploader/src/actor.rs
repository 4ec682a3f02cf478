//! The actor that stores blocks and has slices committed. It performs what [`UploadQueue`] decides and keeps no
//! state of its own besides who waits for what. Each request runs as a task of its own and reports back by a
//! message, so that a busy one is not polled whenever another moves.
//!
//! A panic in such a task counts as its failure (`EIO`). A panic in the actor itself ends the actor: its mailbox closes, senders learn so at once, unflushed writes stay in their
//! writers and are reported as lost by the next flush. Nothing wrong is ever committed by that.

use crate::puts::{answer_of, encoded, kib, put_encoded, put_patiently};
use crate::queue::{Effect, Sealed, Token, UploadQueue};
use crate::staging::Staging;
use crate::{Commits, Outcomes};
use actix::prelude::*;
use bytes::Bytes;
use futures::FutureExt;
use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};
use zest_data::codec::BlockCodec;
use zest_data::retry::{Asker, retrying};
use zest_data::{BlockId, BlockNames, BlockSink, Handover};
use zest_types::limits::{MAILBOX, STAGING_PUTS, UPLOADS};
use zest_types::{Errno, Ino, Placed, SliceId, Time};
use zest_world::World;
use zest_world::planted::{self, Bug};

/// Blocks that may wait to be removed.
const GARBAGE: usize = 1 << 16;

/// What a file's writer handed over, in order. Bounded by the writers' budget, so it may be sent past a full
/// mailbox.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct HandOver {
    /// The file.
    pub ino: Ino,
    /// What it is.
    pub handed: Vec<Handover>,
}

/// Answered when every slice of this file that was opened before is committed or failed, and
/// [`Outcomes`] told. Slices must be sealed for that: whoever waits seals first.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Drain {
    /// The file.
    pub ino: Ino,
}

/// As [`Drain`], for all files.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct DrainAll;

/// Stores a block that belongs to no file's line, such as one of a slice that takes the place of others. Answered when
/// it is durable. Whoever sends it keeps within bounds, and removes it when it is not needed.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), Errno>")]
pub struct Store {
    /// The block.
    pub block: BlockId,
    /// Its bytes.
    pub data: Bytes,
}

/// Stores blocks and has slices committed.
pub struct UploaderActor {
    world: World,
    names: BlockNames,
    codec: Arc<BlockCodec>,
    queue: UploadQueue<Bytes>,
    commits: Arc<dyn Commits>,
    outcomes: Arc<dyn Outcomes>,
    sink: Arc<dyn BlockSink>,
    staging: Option<Arc<Staging>>,
    /// KiB of blocks that are encoded for staging at once.
    encoding: Arc<Semaphore>,
    drains: BTreeMap<Token, oneshot::Sender<()>>,
    last_token: Token,
    garbage: VecDeque<(BlockId, u32)>,
    sweeping: bool,
}

impl UploaderActor {
    /// An uploader for one volume, whose blocks `codec` encodes. Blocks that are stored are given to `sink` as well,
    /// plain.
    #[must_use]
    pub fn new(
        world: World,
        names: BlockNames,
        codec: Arc<BlockCodec>,
        commits: Arc<dyn Commits>,
        outcomes: Arc<dyn Outcomes>,
        sink: Arc<dyn BlockSink>,
    ) -> UploaderActor {
        let queue = UploadQueue::new(names.block_size, UPLOADS);
        let room = UPLOADS * names.block_size as usize;
        UploaderActor {
            world,
            names,
            codec,
            queue,
            commits,
            outcomes,
            sink,
            staging: None,
            encoding: Arc::new(Semaphore::new(kib(room) as usize)),
            drains: BTreeMap::new(),
            last_token: 0,
            garbage: VecDeque::new(),
            sweeping: false,
        }
    }

    /// At most so many puts are under way at once. To be said before anything else.
    #[must_use]
    pub fn with_uploads(mut self, uploads: usize) -> UploaderActor {
        self.queue = UploadQueue::new(self.names.block_size, uploads);
        self
    }

    /// Blocks are staged first.
    #[must_use]
    pub fn with_staging(mut self, staging: Option<Arc<Staging>>) -> UploaderActor {
        self.staging = staging.filter(|staging| staging.stages());
        if self.staging.is_some() {
            self.queue = UploadQueue::new(self.names.block_size, STAGING_PUTS);
        }
        self
    }

    fn perform(&mut self, effects: Vec<Effect<Bytes>>, ctx: &mut Context<Self>) {
        for effect in effects {
            match effect {
                Effect::Put { ino, block, data } => self.put(ino, block, data, ctx),
                Effect::Commit { ino, parts, mtime } => self.commit(ino, parts, mtime, ctx),
                Effect::Committed { ino, slice } => {
                    self.world.tell("uploader", "committed", ino.0, slice.0);
                    self.outcomes.committed(ino, slice);
                }
                Effect::Failed { ino, slice, error } => {
                    self.world.tell("uploader", "failed", ino.0, slice.0);
                    self.outcomes.failed(ino, slice, error);
                }
                Effect::Delete { blocks } => self.delete(blocks, ctx),
                Effect::Drained(token) => {
                    // Whoever waited may have gone.
                    let _gone = self.drains.remove(&token).map(|waiter| waiter.send(()));
                }
            }
        }
    }

    fn put(&mut self, ino: Ino, block: BlockId, data: Bytes, ctx: &mut Context<Self>) {
        let key = self.names.key(block, u32::try_from(data.len()).unwrap_or(0));
        let asker = Asker { actor: "uploader", subject: block.slice.0 };
        self.world.tell("uploader", "put", block.slice.0, u64::from(block.index));
        let (world, codec) = (self.world.clone(), Arc::clone(&self.codec));
        let result = move |data| move |result| Done::Put { ino, block, data, result: answer_of(result) };
        match &self.staging {
            None => run(ctx, put_encoded(world, codec, asker, key, data.clone()), result(data)),
            Some(staging) => {
                let (staging, encoding) = (Arc::clone(staging), Arc::clone(&self.encoding));
                let plain = data.clone();
                let put = async move {
                    let room = encoding.acquire_many(kib(plain.len())).await;
                    let len = u32::try_from(plain.len()).unwrap_or(0);
                    let body = encoded(&world, &codec, &key, plain).await?;
                    if staging.takes(len as usize) && staging.stage(ino, block, len, body.clone()).await {
                        return Ok(());
                    }
                    // Who waits for the store keeps nobody from the disk.
                    drop(room);
                    let _place = staging.direct_place().await;
                    put_patiently(world, asker, key, body).await
                };
                run(ctx, put, result(data));
            }
        }
    }

    fn commit(&mut self, ino: Ino, parts: Vec<Placed>, mtime: Time, ctx: &mut Context<Self>) {
        let last = parts.last().map_or(SliceId::ZEROS, |part| part.record.id);
        let commit = self.commits.commit(ino, parts, mtime);
        run(ctx, commit, move |result| Done::Commit { ino, last, result: result.unwrap_or(Err(Errno::EIO)) });
    }

    /// Removes objects nobody will ever ask for, one after the other. What can't be removed now, or finds no room
    /// in the list, is garbage for `gc`.
    fn delete(&mut self, blocks: Vec<(BlockId, u32)>, ctx: &mut Context<Self>) {
        let room = GARBAGE.saturating_sub(self.garbage.len());
        self.garbage.extend(blocks.into_iter().take(room));
        if !self.sweeping {
            self.sweep(ctx);
        }
    }

    fn sweep(&mut self, ctx: &mut Context<Self>) {
        let next = self.garbage.pop_front();
        self.sweeping = next.is_some();
        let Some((block, len)) = next else { return };
        let asker = Asker { actor: "uploader", subject: block.slice.0 };
        let key = self.names.key(block, len);
        let gone = retrying(self.world.clone(), asker, key, |world, key| world.objects.delete(key));
        run(ctx, gone, move |result| Done::Delete { block, gone: matches!(result, Some(Ok(()))) });
    }

    fn wait(&mut self) -> (Token, ResponseFuture<()>) {
        let (done, wait) = oneshot::channel();
        self.last_token += 1;
        if planted::active(Bug::CanaryDeadActor) {
            return (self.last_token, Box::pin(std::future::pending()));
        }
        self.drains.insert(self.last_token, done);
        let answer = async move {
            let _ended = wait.await; // an actor that ends has no line left to wait for
        };
        (self.last_token, Box::pin(answer))
    }
}

/// How a task ended.
#[derive(Message)]
#[rtype(result = "()")]
enum Done {
    Put { ino: Ino, block: BlockId, data: Bytes, result: Result<(), Errno> },
    Commit { ino: Ino, last: SliceId, result: Result<(), Errno> },
    Delete { block: BlockId, gone: bool },
}

/// Runs `work` beside the actor; `done` is told what came of it, or `None` when it panicked.
fn run<F: Future + 'static>(
    ctx: &mut Context<UploaderActor>,
    work: F,
    done: impl FnOnce(Option<F::Output>) -> Done + 'static,
) {
    let actor = ctx.address();
    actix::spawn(async move {
        let result = AssertUnwindSafe(work).catch_unwind().await.ok();
        actor.do_send(done(result));
    });
}

impl Actor for UploaderActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Supervised for UploaderActor {}

impl Handler<HandOver> for UploaderActor {
    type Result = ();

    fn handle(&mut self, message: HandOver, ctx: &mut Self::Context) {
        let ino = message.ino;
        for one in message.handed {
            let effects = match one {
                Handover::Open { slice } => {
                    self.queue.open(ino, slice);
                    continue;
                }
                Handover::Block { slice, index, data } => {
                    self.queue.block(ino, BlockId { slice, index }, data)
                }
                Handover::Seal { slice, size, parts, mtime, .. } => {
                    self.queue.seal(ino, Sealed { slice, size, parts, mtime })
                }
            };
            self.perform(effects, ctx);
        }
    }
}

impl Handler<Store> for UploaderActor {
    type Result = ResponseFuture<Result<(), Errno>>;

    fn handle(&mut self, Store { block, data }: Store, _: &mut Self::Context) -> Self::Result {
        let key = self.names.key(block, u32::try_from(data.len()).unwrap_or(0));
        let asker = Asker { actor: "uploader", subject: block.slice.0 };
        let put = put_encoded(self.world.clone(), Arc::clone(&self.codec), asker, key, data.clone());
        let sink = Arc::clone(&self.sink);
        Box::pin(async move {
            answer_of(Some(put.await))?;
            sink.keep(block, data);
            Ok(())
        })
    }
}

impl Handler<Done> for UploaderActor {
    type Result = ();

    fn handle(&mut self, message: Done, ctx: &mut Self::Context) {
        let effects = match message {
            Done::Put { ino, block, data, result } => {
                if result.is_ok() {
                    self.world.tell("uploader", "stored", block.slice.0, u64::from(block.index));
                    self.sink.keep(block, data);
                }
                self.queue.put_done(ino, block, result)
            }
            Done::Commit { ino, last, result } => self.queue.commit_done(ino, last, result),
            Done::Delete { block, gone } => {
                let kind = if gone { "deleted" } else { "left over" };
                self.world.tell("uploader", kind, block.slice.0, u64::from(block.index));
                self.sweep(ctx);
                return;
            }
        };
        self.perform(effects, ctx);
    }
}

impl Handler<Drain> for UploaderActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, message: Drain, ctx: &mut Self::Context) -> Self::Result {
        let (token, answer) = self.wait();
        let effects = self.queue.drain(message.ino, token);
        self.perform(effects, ctx);
        answer
    }
}

impl Handler<DrainAll> for UploaderActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: DrainAll, ctx: &mut Self::Context) -> Self::Result {
        let (token, answer) = self.wait();
        let effects = self.queue.drain_all(token);
        self.perform(effects, ctx);
        answer
    }
}
