//! Removes the data of deleted files: their chunk lists, the references of the slices in them, and the objects of
//! slices nobody refers to any more. Objects go only after the records that named them are gone for good, so a
//! crash never brings back a file whose blocks are missing. What a crash leaves undone is found at the next start.

use crate::gate;
use actix::{Actor, AsyncContext, Context, Handler, Message, Supervised, WrapFuture};
use futures::StreamExt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use zest_data::retry::{Asker, retrying};
use zest_metadata::{Change, Counter, Find, Key, Look, Op, Outcome, Record, Scan, SyncRecords};
use zest_types::{Caller, Errno, Ino, SliceId, limits};
use zest_vfs::shared::Shared;
use zest_world::planted::{self, Bug};

/// A file was deleted, and had this length.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deleted {
    /// The file.
    pub ino: Ino,
    /// Its length, which is part of the name of its record.
    pub length: u64,
}

/// Removes data of deleted files, batch by batch.
pub struct Reaper {
    shared: Arc<Shared>,
    queue: VecDeque<(Ino, u64)>,
    busy: bool,
}

impl Reaper {
    /// A reaper of this mount.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Reaper {
        Reaper { shared, queue: VecDeque::new(), busy: false }
    }

    /// Looks for files that were deleted and forgotten.
    fn look(&mut self, ctx: &mut Context<Self>) {
        if self.busy {
            return;
        }
        self.busy = true;
        let shared = Arc::clone(&self.shared);
        let scan = async move {
            if let Err(errno) = finish(&shared).await {
                left_for_later(&shared, 0, errno);
            }
            forgotten(&shared).await
        };
        ctx.spawn(actix::fut::ActorFutureExt::map(scan.into_actor(self), |found, actor, ctx| {
            actor.busy = false;
            for (key, _) in found.unwrap_or_default() {
                if let Key::Deleted { ino, length } = key {
                    actor.queue.push_back((ino, length));
                }
            }
            actor.work(ctx);
        }));
    }

    fn work(&mut self, ctx: &mut Context<Self>) {
        if self.busy || self.queue.is_empty() {
            return;
        }
        self.busy = true;
        let many = self.queue.len().min(limits::REAPER_BATCH);
        let batch: Vec<(Ino, u64)> = self.queue.drain(..many).collect();
        let shared = Arc::clone(&self.shared);
        let job = async move {
            if let Err(errno) = reap(&shared, &batch).await {
                left_for_later(&shared, batch.len(), errno);
            }
        };
        ctx.spawn(actix::fut::ActorFutureExt::map(job.into_actor(self), |(), actor, ctx| {
            actor.busy = false;
            actor.work(ctx);
        }));
    }
}

impl Actor for Reaper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(limits::MAILBOX);
        self.look(ctx);
        ctx.run_interval(Duration::from_secs(limits::REAPER_LOOK_SECS), |actor, ctx| actor.look(ctx));
    }
}

impl Supervised for Reaper {}

impl Handler<Deleted> for Reaper {
    type Result = ();

    fn handle(&mut self, message: Deleted, ctx: &mut Self::Context) {
        // What does not fit is found again by the next look.
        if self.queue.len() < limits::REAPER_QUEUE {
            self.queue.push_back((message.ino, message.length));
        }
        self.work(ctx);
    }
}

/// Files that were deleted and whose data are still there; where others use the volume, those that nobody can
/// still be at work on.
async fn forgotten(shared: &Shared) -> Result<Vec<(Key, Record)>, Errno> {
    if !gate::pass(shared, Counter::LastCleanupFiles).await? {
        return Ok(Vec::new());
    }
    let mut found = find(shared, Scan::Deleted { limit: limits::REAPER_QUEUE }).await?;
    if !shared.exclusive {
        let fresh = i64::try_from(shared.jobs_every.as_secs()).unwrap_or(i64::MAX);
        let edge = shared.world.clock.now().sec.saturating_sub(fresh);
        found.retain(|(_, record)| matches!(record, Record::Stamp(at) if *at < edge));
    }
    Ok(found)
}

async fn find(shared: &Shared, scan: Scan) -> Result<Vec<(Key, Record)>, Errno> {
    shared.links()?.metadata.send(Find { scan, attrs: false }).await.map_err(|_| Errno::EIO)?
}

async fn change(shared: &Shared, op: Op) -> Result<Outcome, Errno> {
    let change = Change { caller: Caller::SYSTEM, op };
    shared.links()?.metadata.send(change).await.map_err(|_| Errno::EIO)?
}

fn left_for_later(shared: &Shared, many: usize, errno: Errno) {
    shared.world.tell("reaper", "left for later", many as u64, u64::from(errno.number().unsigned_abs()));
}

/// Removes the objects of slices that lost their last reference in a life before, or in work that failed.
async fn finish(shared: &Shared) -> Result<(), Errno> {
    if !gate::pass(shared, Counter::NextCleanupSlices).await? {
        return Ok(());
    }
    let found = find(shared, Scan::SliceRefs { limit: limits::REAPER_QUEUE }).await?;
    let unreferenced = found.into_iter().filter_map(|(key, record)| match (key, record) {
        (Key::SliceRef { id, size }, Record::Count(count)) if count < 0 => Some((id, size)),
        _ => None,
    });
    let garbage: Vec<(SliceId, u32)> = unreferenced.collect();
    remove_unreferenced(shared, garbage).await
}

/// Removes the objects of slices that lost their last reference, once that is gone for good from the records.
pub(crate) async fn remove_unreferenced(shared: &Shared, garbage: Vec<(SliceId, u32)>) -> Result<(), Errno> {
    if garbage.is_empty() {
        return Ok(());
    }
    shared.links()?.metadata.send(SyncRecords).await.map_err(|_| Errno::EIO)??;
    remove_slices(shared, garbage).await
}

/// Removes the data of these files.
async fn reap(shared: &Shared, files: &[(Ino, u64)]) -> Result<(), Errno> {
    let mut garbage = Vec::new();
    for (ino, length) in files {
        let last = u32::try_from(length / limits::CHUNK_SIZE).unwrap_or(u32::MAX);
        let mut from = 0;
        if !shared.exclusive && last < limits::FEW_CHUNKS {
            garbage.extend(drop_few_chunks(shared, *ino, last).await?);
            from = last + 1;
        }
        garbage.extend(drop_chunks(shared, *ino, from).await?);
    }
    // Only what is gone for good from the records may go from the store.
    if !planted::active(Bug::ObjectsBeforeRecords) {
        shared.links()?.metadata.send(SyncRecords).await.map_err(|_| Errno::EIO)??;
    }
    remove_slices(shared, garbage).await?;
    for (ino, length) in files {
        change(shared, Op::DropDeleted { ino: *ino, length: *length }).await?;
    }
    Ok(())
}

/// Removes the chunk lists of a short file where lists of a file that is gone are hard to find.
async fn drop_few_chunks(shared: &Shared, ino: Ino, last: u32) -> Result<Vec<(SliceId, u32)>, Errno> {
    let mut garbage = Vec::new();
    for index in 0..=last {
        let look = || shared.links().map(|links| links.metadata.send(Look(vec![Key::Chunk(ino, index)])));
        while look()?.await.map_err(|_| Errno::EIO)??.iter().any(|(_, list)| list.is_some()) {
            if let Outcome::Unreferenced(slices) = change(shared, Op::DropChunk { ino, index }).await? {
                garbage.extend(slices);
            }
        }
    }
    Ok(garbage)
}

/// Removes all chunk lists of a file from one on, also those behind its end where the store finds them; answers the slices that lost their last reference.
async fn drop_chunks(shared: &Shared, ino: Ino, from: u32) -> Result<Vec<(SliceId, u32)>, Errno> {
    let mut garbage = Vec::new();
    loop {
        let scan = Scan::Chunks { ino, from, limit: limits::REAPER_BATCH };
        let found = find(shared, scan).await?;
        let mut dropped = false;
        for (key, _) in found {
            let Key::Chunk(ino, index) = key else { continue };
            if let Outcome::Unreferenced(slices) = change(shared, Op::DropChunk { ino, index }).await? {
                garbage.extend(slices);
            }
            dropped = true;
        }
        if !dropped {
            return Ok(garbage);
        }
    }
}

/// Removes the objects of slices, and then the slices' counters.
async fn remove_slices(shared: &Shared, slices: Vec<(SliceId, u32)>) -> Result<(), Errno> {
    let removals = slices.into_iter().map(|(id, size)| remove_slice(shared, id, size));
    let results: Vec<_> = futures::stream::iter(removals).buffer_unordered(limits::DELETES).collect().await;
    results.into_iter().collect()
}

async fn remove_slice(shared: &Shared, id: SliceId, size: u32) -> Result<(), Errno> {
    for (block, key) in shared.names.of_slice(id, size) {
        shared.tier.remove(&block);
        let asker = Asker { actor: "reaper", subject: id.0 };
        let gone = retrying(shared.world.clone(), asker, key, |world, key| world.objects.delete(key)).await;
        gone.map_err(|error| {
            shared.world.trace.complain(&format!("data of a deleted file stay for now: {error}"));
            Errno::EIO
        })?;
    }
    change(shared, Op::DropSliceRef { id, size }).await?;
    Ok(())
}
