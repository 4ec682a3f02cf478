//! Shortens chunk lists behind the mount that reads and writes them: told of long ones, it compacts a few at once, each
//! chunk once at a time; who waits for one is told when that is over, whatever came of it. Other clients may do the same
//! to the same chunk: one of them is then in vain.

use crate::compact::{Blocks, Done, compact};
use crate::reaper::remove_unreferenced;
use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised, WrapFuture,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use zest_data::BlockId;
use zest_data::retry::{Asker, retrying};
use zest_types::{Errno, Ino, SliceId, limits};
use zest_vfs::shared::Shared;

/// How long a chunk that could not be compacted is left alone.
const REST: Duration = Duration::from_secs(60);

/// A chunk has a long list.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Crowded {
    /// The file.
    pub ino: Ino,
    /// The chunk.
    pub index: u32,
    /// Dropped when the list was shortened, or will not be.
    pub done: Option<oneshot::Sender<()>>,
}

/// Nothing is begun any more, and what is under way is given up. Answered when that is over.
#[derive(Message)]
#[rtype(result = "()")]
pub struct End;

/// How long the end of a mount waits for that: a slow store gets to remove what a compaction given up has stored. What
/// is left after that is found by `gc`.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Compacts chunks of a mount.
pub struct Compactor {
    shared: Arc<Shared>,
    waiting: VecDeque<(Ino, u32)>,
    /// Chunks that wait or are under way, and who waits for them.
    known: BTreeMap<(Ino, u32), Vec<oneshot::Sender<()>>>,
    /// Chunks that could not be compacted, and until when they are left alone.
    resting: BTreeMap<(Ino, u32), Duration>,
    running: usize,
    ending: Arc<AtomicBool>,
    /// Who waits for the end.
    ends: Vec<oneshot::Sender<()>>,
}

impl Compactor {
    /// A compactor of this mount.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Compactor {
        Compactor {
            shared,
            waiting: VecDeque::new(),
            known: BTreeMap::new(),
            resting: BTreeMap::new(),
            running: 0,
            ending: Arc::default(),
            ends: Vec::new(),
        }
    }

    /// A chunk of which an object is missing would be read again and again, each time in vain.
    fn rest(&mut self, chunk: (Ino, u32)) {
        if self.resting.len() >= limits::COMPACTIONS_WAITING {
            self.resting.clear();
        }
        self.resting.insert(chunk, self.shared.mono() + REST);
    }

    fn rests(&mut self, chunk: (Ino, u32)) -> bool {
        let now = self.shared.mono();
        let rests = self.resting.get(&chunk).is_some_and(|until| now < *until);
        if !rests {
            self.resting.remove(&chunk);
        }
        rests
    }

    fn start(&mut self, ctx: &mut Context<Self>) {
        while self.running < limits::COMPACTIONS
            && let Some(chunk) = self.waiting.pop_front()
        {
            self.running += 1;
            let blocks = Mounted { shared: Arc::clone(&self.shared), ending: Arc::clone(&self.ending) };
            let work = async move { one(&blocks, chunk).await };
            ctx.spawn(work.into_actor(self).map(move |rests, actor, ctx| {
                actor.running -= 1;
                if rests {
                    actor.rest(chunk);
                }
                actor.known.remove(&chunk);
                actor.start(ctx);
            }));
        }
        if self.running == 0 {
            self.ends.clear();
        }
    }
}

/// Compacts a chunk, and removes what that leaves over; `true` when there is no use in trying again soon.
async fn one(blocks: &Mounted, chunk: (Ino, u32)) -> bool {
    let (shared, (Ino(subject), index)) = (&*blocks.shared, chunk);
    let delayed = shared.live.trash_days() > 0;
    let done = compact(shared, blocks, chunk, delayed).await;
    let (kind, garbage) = match done {
        Ok(Done::Compacted { garbage, .. }) => ("compacted", garbage),
        Ok(Done::InVain(garbage)) => ("in vain", garbage),
        Ok(Done::Missing) => {
            shared.world.tell("compactor", "missing", subject, u64::from(index));
            return true;
        }
        Ok(Done::Nothing) => return false,
        Err(errno) => {
            shared.world.tell("compactor", "failed", subject, u64::from(errno.number().unsigned_abs()));
            return true;
        }
    };
    shared.world.tell("compactor", kind, subject, u64::from(index));
    if remove_unreferenced(shared, garbage).await.is_err() {
        // Their counters say that they are garbage: whoever looks for that finds them.
        shared.world.tell("compactor", "left for later", subject, u64::from(index));
    }
    false
}

impl Actor for Compactor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(limits::MAILBOX);
    }
}

impl Supervised for Compactor {}

impl Handler<Crowded> for Compactor {
    type Result = ();

    fn handle(&mut self, Crowded { ino, index, done }: Crowded, ctx: &mut Self::Context) {
        let chunk = (ino, index);
        if let Some(waiters) = self.known.get_mut(&chunk) {
            waiters.extend(done);
        } else if !self.rests(chunk)
            && !self.ending.load(Ordering::Acquire)
            && !self.shared.refuses_changes()
            && self.waiting.len() < limits::COMPACTIONS_WAITING
        {
            self.known.insert(chunk, done.into_iter().collect());
            self.waiting.push_back(chunk);
            self.start(ctx);
        }
    }
}

impl Handler<End> for Compactor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: End, ctx: &mut Self::Context) -> Self::Result {
        self.ending.store(true, Ordering::Release);
        for chunk in self.waiting.drain(..) {
            self.known.remove(&chunk);
        }
        let (over, wait) = oneshot::channel();
        self.ends.push(over);
        self.start(ctx);
        Box::pin(async move {
            let _over = wait.await;
        })
    }
}

/// Blocks of a mount.
struct Mounted {
    shared: Arc<Shared>,
    ending: Arc<AtomicBool>,
}

#[async_trait(?Send)]
impl Blocks for Mounted {
    fn block_size(&self) -> u32 {
        self.shared.names.block_size
    }

    async fn new_slice(&self) -> Result<SliceId, Errno> {
        loop {
            if let Some(id) = self.shared.slice_ids.take() {
                return Ok(id);
            }
            self.shared.fetch_ids().await?;
        }
    }

    async fn fetch(&self, block: BlockId, len: u32) -> Result<Option<Bytes>, Errno> {
        self.shared.fetch_block(block, len).await
    }

    async fn store(&self, block: BlockId, data: Bytes) -> Result<(), Errno> {
        if self.ending.load(Ordering::Acquire) {
            return Err(Errno::EINTR);
        }
        self.shared.store_block(block, data).await
    }

    async fn forget(&self, slice: SliceId, size: u32) {
        // Side by side: at the end of a mount there is little time. What is left is found by `gc`.
        let removals = self.shared.names.of_slice(slice, size).map(|(block, key)| {
            self.shared.tier.remove(&block);
            let asker = Asker { actor: "compactor", subject: slice.0 };
            retrying(self.shared.world.clone(), asker, key, |world, key| world.objects.delete(key))
        });
        futures::stream::iter(removals).buffer_unordered(limits::DELETES).for_each(async |_| ()).await;
    }
}
