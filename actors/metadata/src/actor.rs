//! The MetadataActor: a bounded mailbox in front of `core`. It decides nothing itself; each message becomes one
//! task on the actor's thread, so that requests wait for the engine side by side.

use crate::clone;
use crate::engine::Found;
use crate::key::{Counter, Key, Scan};
use crate::op::{Op, Outcome};
use crate::record::Record;
use crate::restore::{self, Restored};
use crate::session;
use crate::transact::MetaCore;
use actix::{Actor, Context, Handler, Message, ResponseFuture, Supervised};
use std::ops::Range;
use std::sync::Arc;
use zest_types::{Caller, Errno, Ino, limits};

/// Serves changes and reads of metadata.
pub struct MetadataActor {
    core: Arc<MetaCore>,
}

impl MetadataActor {
    /// An actor over a core; several may share one.
    #[must_use]
    pub fn new(core: Arc<MetaCore>) -> MetadataActor {
        MetadataActor { core }
    }
}

impl Actor for MetadataActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(limits::MAILBOX);
    }
}

impl Supervised for MetadataActor {}

/// Decide and commit a change.
#[derive(Message)]
#[rtype(result = "Result<Outcome, Errno>")]
pub struct Change {
    /// Who asks.
    pub caller: Caller,
    /// What is wanted.
    pub op: Op,
}

/// Clone a file or a tree; the copy is the answer.
#[derive(Message)]
#[rtype(result = "Result<Ino, Errno>")]
pub struct Clone {
    /// Who asks.
    pub caller: Caller,
    /// What is wanted.
    pub job: clone::Job,
}

/// Bring back what lies in an hour directory of the trash.
#[derive(Message)]
#[rtype(result = "Result<Restored, Errno>")]
pub struct Restore {
    /// The hour directory.
    pub hour: Ino,
    /// Whether entries go back to where they were.
    pub back: bool,
}

impl Handler<Clone> for MetadataActor {
    type Result = ResponseFuture<Result<Ino, Errno>>;

    fn handle(&mut self, message: Clone, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { clone::clone(&core, message.caller, &message.job).await })
    }
}

impl Handler<Restore> for MetadataActor {
    type Result = ResponseFuture<Result<Restored, Errno>>;

    fn handle(&mut self, message: Restore, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { restore::restore(&core, message.hour, message.back).await })
    }
}

/// Read records; the views learn them.
#[derive(Message)]
#[rtype(result = "Result<Found, Errno>")]
pub struct Look(pub Vec<Key>);

/// Run a scan; the views learn what it finds, and with `attrs` the attributes of the entries too.
#[derive(Message)]
#[rtype(result = "Result<Vec<(Key, Record)>, Errno>")]
pub struct Find {
    /// What to look for.
    pub scan: Scan,
    /// Whether to learn the attributes of entries.
    pub attrs: bool,
}

/// Take numbers from a counter.
#[derive(Message)]
#[rtype(result = "Result<Range<u64>, Errno>")]
pub struct TakeIds {
    /// Which counter.
    pub counter: Counter,
    /// How many.
    pub batch: u64,
}

/// Make everything committed durable.
#[derive(Message)]
#[rtype(result = "Result<(), Errno>")]
pub struct SyncRecords;

/// The session lives on.
#[derive(Message)]
#[rtype(result = "Result<(), Errno>")]
pub struct Beat(pub u64);

/// End the sessions that were silent for too long, all but this one, if it is this client's turn.
#[derive(Message)]
#[rtype(result = "Result<(), Errno>")]
pub struct EndSilent(pub u64);

impl Handler<EndSilent> for MetadataActor {
    type Result = ResponseFuture<Result<(), Errno>>;

    fn handle(&mut self, message: EndSilent, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { session::end_silent(&core, message.0).await })
    }
}

impl Handler<Beat> for MetadataActor {
    type Result = ResponseFuture<Result<(), Errno>>;

    fn handle(&mut self, message: Beat, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            session::beat(&core, message.0).await?;
            core.look_for_quotas().await
        })
    }
}

impl Handler<Change> for MetadataActor {
    type Result = ResponseFuture<Result<Outcome, Errno>>;

    fn handle(&mut self, message: Change, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.change(message.caller, &message.op).await })
    }
}

impl Handler<Look> for MetadataActor {
    type Result = ResponseFuture<Result<Found, Errno>>;

    fn handle(&mut self, message: Look, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.read(message.0).await })
    }
}

impl Handler<Find> for MetadataActor {
    type Result = ResponseFuture<Result<Vec<(Key, Record)>, Errno>>;

    fn handle(&mut self, message: Find, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.scan(&message.scan, message.attrs).await })
    }
}

impl Handler<TakeIds> for MetadataActor {
    type Result = ResponseFuture<Result<Range<u64>, Errno>>;

    fn handle(&mut self, message: TakeIds, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.take_ids(message.counter, message.batch).await })
    }
}

impl Handler<SyncRecords> for MetadataActor {
    type Result = ResponseFuture<Result<(), Errno>>;

    fn handle(&mut self, _: SyncRecords, _: &mut Self::Context) -> Self::Result {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.sync().await })
    }
}
