//! The VfsActor: runs slow requests as tasks, seals writes that grew old, and keeps slice numbers in stock. What a
//! task does stands in `slow`.

use crate::reserve::Waiting;
use crate::shared::Shared;
use crate::slow::Task;
use actix::{Actor, AsyncContext, Context, Handler, Message, Supervised, WrapFuture};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use zest_metadata::{Counter, SyncRecords, TakeIds};
use zest_types::{Caller, Errno, Handle, Request, ServeResult, limits};

/// Takes the answer of a request, once.
pub type Reply = Box<dyn FnOnce(ServeResult) + Send>;

/// A request that has to wait.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Slow {
    /// Who asks.
    pub caller: Caller,
    /// What.
    pub request: Request<'static>,
    /// Where the answer goes.
    pub reply: Reply,
}

/// A write that has to wait.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SlowWrite {
    /// Who asks.
    pub caller: Caller,
    /// Where to.
    pub handle: Handle,
    /// First byte in the file.
    pub offset: u64,
    /// The bytes.
    pub payload: Arc<Waiting>,
    /// Where the answer goes.
    pub reply: Reply,
}

/// Fetch slice numbers.
#[derive(Message)]
#[rtype(result = "()")]
pub struct RefillIds;

/// Runs slow requests.
pub struct VfsActor {
    shared: Arc<Shared>,
}

impl VfsActor {
    /// An actor over a mount's state.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> VfsActor {
        VfsActor { shared }
    }

    fn answer(
        &self,
        work: impl Future<Output = ServeResult> + 'static,
        reply: Reply,
        ctx: &mut Context<VfsActor>,
    ) {
        let shared = Arc::clone(&self.shared);
        let task = async move {
            // A task that panics answers EIO and takes nothing with it.
            let result = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
                shared.world.trace.complain("a request panicked; it was answered with EIO");
                Err(Errno::EIO)
            });
            shared.end_waiting();
            reply(result);
        };
        ctx.spawn(task.into_actor(self));
    }

    fn tend(&self, ctx: &mut Context<VfsActor>) {
        let mono = self.shared.mono();
        for file in self.shared.files.dirty() {
            let mut writer = file.writer();
            let handover = writer.seal_due(mono);
            self.shared.hand_over(file.ino, handover);
        }
        self.shared.refill_ids();
        let shared = Arc::clone(&self.shared);
        let sync = async move {
            let Ok(links) = shared.links() else { return };
            if !matches!(links.metadata.send(SyncRecords).await, Ok(Ok(()))) {
                shared.world.trace.complain("metadata could not be written to disk; trying again");
            }
        };
        ctx.spawn(sync.into_actor(self));
    }
}

impl Actor for VfsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(limits::MAILBOX);
        ctx.run_interval(Duration::from_millis(limits::META_FLUSH_MS), |actor, ctx| actor.tend(ctx));
    }
}

impl Supervised for VfsActor {}

impl Handler<Slow> for VfsActor {
    type Result = ();

    fn handle(&mut self, message: Slow, ctx: &mut Self::Context) {
        let task = Task { shared: Arc::clone(&self.shared), caller: message.caller };
        self.answer(async move { task.run(message.request).await }, message.reply, ctx);
    }
}

impl Handler<SlowWrite> for VfsActor {
    type Result = ();

    fn handle(&mut self, message: SlowWrite, ctx: &mut Self::Context) {
        let task = Task { shared: Arc::clone(&self.shared), caller: message.caller };
        let SlowWrite { handle, offset, payload, reply, .. } = message;
        self.answer(async move { task.write(handle, offset, payload).await }, reply, ctx);
    }
}

impl Handler<RefillIds> for VfsActor {
    type Result = ();

    fn handle(&mut self, _: RefillIds, ctx: &mut Self::Context) {
        let shared = Arc::clone(&self.shared);
        let refill = async move {
            if let Err(errno) = shared.fetch_ids().await {
                shared.world.trace.complain(&format!("no slice numbers could be had: {errno}"));
            }
        };
        ctx.spawn(refill.into_actor(self));
    }
}

impl Shared {
    /// Asks for a batch of slice numbers when the stock runs low.
    pub fn refill_ids(&self) {
        if self.slice_ids.wants_more() {
            match self.links.get() {
                Some(links) => links.vfs.do_send(RefillIds),
                None => self.slice_ids.give_up(),
            }
        }
    }

    /// Takes a batch of slice numbers into stock.
    pub async fn fetch_ids(&self) -> Result<(), Errno> {
        let epoch = self.slice_ids.epoch();
        let take = TakeIds { counter: Counter::NextSlice, batch: limits::SLICE_BATCH };
        let batch = match self.links()?.metadata.send(take).await {
            Ok(batch) => batch,
            Err(_) => Err(Errno::EIO),
        };
        match batch {
            Ok(batch) => {
                self.slice_ids.add(batch, epoch);
                self.space.notify_waiters();
                Ok(())
            }
            Err(errno) => {
                self.slice_ids.give_up();
                Err(errno)
            }
        }
    }
}
