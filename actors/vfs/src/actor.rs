//! The VfsActor: runs slow requests as tasks, seals writes that grew old, and keeps slice numbers in stock. What a
//! task does stands in `slow`.

use crate::ids::SlicePool;
use crate::interrupt::{Call, Interrupt};
use crate::reserve::Waiting;
use crate::shared::Shared;
use crate::slow::Task;
use actix::{Actor, AsyncContext, Context, Handler, Message, Supervised, WrapFuture};
use futures::FutureExt;
use futures::future::{Either, select};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use zest_metadata::{Counter, SyncRecords, TakeIds};
use zest_types::{Caller, Errno, Handle, Ino, Request, Response, ServeResult, limits};

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
    /// How it hears that whoever asked is called away.
    pub interrupt: Option<Arc<Interrupt>>,
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
    /// How it hears that whoever asked is called away.
    pub interrupt: Option<Arc<Interrupt>>,
    /// Where the answer goes.
    pub reply: Reply,
}

/// The kernel forgot a node that may have been open through a handle of an earlier process.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Forgotten(pub Ino);

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
        interrupt: Option<(Arc<Interrupt>, Leave)>,
        reply: Reply,
        ctx: &mut Context<VfsActor>,
    ) {
        let shared = Arc::clone(&self.shared);
        let task = async move {
            // A task that panics answers EIO and takes nothing with it.
            let caught = AssertUnwindSafe(work).catch_unwind().map(|result| {
                result.unwrap_or_else(|_| {
                    shared.world.trace.complain("a request panicked; it was answered with EIO");
                    Err(Errno::EIO)
                })
            });
            match interrupt {
                None => {
                    let result = caught.await;
                    shared.end_waiting();
                    reply(result);
                }
                Some((interrupt, leave)) => {
                    answer_or_leave(&shared, Box::pin(caught), &interrupt, leave, reply).await;
                }
            }
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

/// What becomes of a request whose asker is called away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// It waits and has done nothing yet: it is given up.
    GiveUp,
    /// It is done to its end, for nobody; what it opened (this file, or a directory) is closed again.
    Finish(Option<Ino>),
}

impl Leave {
    fn of(request: &Request<'_>) -> Leave {
        match request {
            Request::Read { .. } | Request::Write { .. } | Request::GetAttr { .. } => Leave::GiveUp,
            Request::Open { ino, .. } => Leave::Finish(Some(*ino)),
            _ => Leave::Finish(None),
        }
    }
}

/// Answers with the result, or with `EINTR` before there is one.
async fn answer_or_leave(
    shared: &Arc<Shared>,
    work: impl Future<Output = ServeResult> + Unpin,
    interrupt: &Interrupt,
    leave: Leave,
    reply: Reply,
) {
    let call = if leave == Leave::GiveUp { Call::Signal } else { Call::Gone };
    let work = match select(work, pin!(interrupt.called(call))).await {
        Either::Left((result, _)) => {
            shared.end_waiting();
            return reply(result);
        }
        Either::Right(((), work)) => work,
    };
    reply(Err(Errno::EINTR));
    if let Leave::Finish(opened) = leave {
        close_again(shared, opened, work.await).await;
    }
    shared.end_waiting();
}

/// Nobody heard of this handle, so nobody else will give it back.
async fn close_again(shared: &Arc<Shared>, opened: Option<Ino>, late: ServeResult) {
    let request = match (late, opened) {
        (Ok(Response::Created { ino, handle, .. }), _) | (Ok(Response::Opened { handle, .. }), Some(ino)) => {
            Request::Release { ino, handle }
        }
        (Ok(Response::Opened { handle, .. }), None) => Request::ReleaseDir { ino: Ino::ROOT, handle },
        _ => return,
    };
    let task = Task { shared: Arc::clone(shared), caller: Caller::SYSTEM, interrupt: None };
    if let Err(errno) = task.run(request).await {
        shared.world.trace.complain(&format!("what a killed process opened was not closed: {errno}"));
    }
}

/// Slice numbers that were asked for and are not waited for any more may be asked for again.
struct Asked<'a>(Option<&'a SlicePool>);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(pool) = self.0 {
            pool.give_up();
        }
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
        let interrupt = message.interrupt.clone();
        let task = Task { shared: Arc::clone(&self.shared), caller: message.caller, interrupt };
        let interrupt = message.interrupt.map(|interrupt| (interrupt, Leave::of(&message.request)));
        self.answer(async move { task.run(message.request).await }, interrupt, message.reply, ctx);
    }
}

impl Handler<SlowWrite> for VfsActor {
    type Result = ();

    fn handle(&mut self, message: SlowWrite, ctx: &mut Self::Context) {
        let task = Task { shared: Arc::clone(&self.shared), caller: message.caller, interrupt: None };
        let SlowWrite { handle, offset, payload, interrupt, reply, .. } = message;
        let interrupt = interrupt.map(|interrupt| (interrupt, Leave::GiveUp));
        self.answer(async move { task.write(handle, offset, payload).await }, interrupt, reply, ctx);
    }
}

impl Handler<Forgotten> for VfsActor {
    type Result = ();

    fn handle(&mut self, Forgotten(ino): Forgotten, ctx: &mut Self::Context) {
        let task = Task { shared: Arc::clone(&self.shared), caller: Caller::SYSTEM, interrupt: None };
        let work = async move {
            if let Err(errno) = task.forgotten(ino).await {
                let what =
                    format!("inode {ino}, which was removed while it was open, waits for the end: {errno}");
                task.shared.world.trace.complain(&what);
            }
        };
        ctx.spawn(work.into_actor(self));
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
        let mut asked = Asked(Some(&self.slice_ids));
        let take = TakeIds { counter: Counter::NextSlice, batch: limits::SLICE_BATCH };
        let batch = match self.links()?.metadata.send(take).await {
            Ok(batch) => batch,
            Err(_) => Err(Errno::EIO),
        };
        match batch {
            Ok(batch) => {
                asked.0 = None;
                self.slice_ids.add(batch, epoch);
                self.space.notify_waiters();
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }
}
