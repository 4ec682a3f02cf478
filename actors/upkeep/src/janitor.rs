//! Keeps the mount's session alive, empties hour directories of the trash that are older than the volume keeps
//! them, and lets go what compaction replaced. One look an hour; what fails is tried again at the next.

use crate::gate;
use crate::reaper::remove_unreferenced;
use crate::trash::hour_of;
use actix::{Actor, ActorFutureExt, AsyncContext, Context, Supervised, WrapFuture};
use std::sync::Arc;
use std::time::Duration;
use zest_metadata::actor::EndSilent;
use zest_metadata::{Beat, Change, Counter, Find, Key, Op, Outcome, Record, Scan};
use zest_types::{Caller, Errno, FileType, Ino, Name, limits};
use zest_vfs::shared::Shared;

/// Hours that pass after the last full day before an hour directory goes.
const GRACE_HOURS: i64 = 2;

/// Tends session and trash.
pub struct Janitor {
    shared: Arc<Shared>,
    busy: bool,
}

impl Janitor {
    /// A janitor of this mount; in a volume without trash it leaves alone what there is.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Janitor {
        Janitor { shared, busy: false }
    }

    fn beat(&self, ctx: &mut Context<Self>) {
        let shared = Arc::clone(&self.shared);
        let beat = async move {
            let Ok(links) = shared.links() else { return };
            if !matches!(links.metadata.send(Beat(shared.session)).await, Ok(Ok(()))) {
                shared.world.trace.complain("the session could not be kept alive; trying again");
            }
            // Where nobody else can be here, all others were ended when this mount began.
            if shared.exclusive || !shared.background_jobs || shared.refuses_changes() {
                return;
            }
            if !matches!(links.metadata.send(EndSilent(shared.session)).await, Ok(Ok(()))) {
                shared.world.trace.complain("dead sessions could not be ended; trying again");
            }
        };
        ctx.spawn(beat.into_actor(self));
    }

    fn empty(&mut self, ctx: &mut Context<Self>) {
        let days = self.shared.live.trash_days();
        if self.busy || !self.shared.background_jobs || self.shared.refuses_changes() {
            return;
        }
        self.busy = true;
        let shared = Arc::clone(&self.shared);
        let work = async move {
            if let Err(errno) = empty_trash(&shared, days).await {
                shared
                    .world
                    .trace
                    .complain(&format!("the trash could not be emptied: {errno}; trying again"));
            }
        };
        ctx.spawn(work.into_actor(self).map(|(), actor, _| actor.busy = false));
    }
}

impl Actor for Janitor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.empty(ctx);
        ctx.run_interval(self.shared.heartbeat, |actor, ctx| actor.beat(ctx));
        ctx.run_interval(Duration::from_secs(3600), Self::empty);
    }
}

impl Supervised for Janitor {}

/// Empties and removes every hour directory that is old enough, and gives back what compaction replaced as long ago.
pub async fn empty_trash(shared: &Shared, days: u32) -> Result<(), Errno> {
    if !gate::pass(shared, Counter::LastCleanupTrash).await? {
        return Ok(());
    }
    release_delayed(shared, days).await?;
    if days == 0 {
        return Ok(()); // what is in the trash since it was on stays until somebody empties it
    }
    let this_hour = shared.world.clock.now().sec.div_euclid(3600);
    let keep_from = this_hour - i64::from(days) * 24 - GRACE_HOURS;
    for (name, _, hour) in entries(shared, Ino::TRASH).await? {
        if hour_of(name.as_bytes()).is_none_or(|old| old >= keep_from) {
            continue;
        }
        loop {
            let batch = entries(shared, hour).await?;
            if batch.is_empty() {
                break;
            }
            for (name, kind, _) in batch {
                let op = match kind {
                    FileType::Directory => Op::Rmdir { parent: hour, name },
                    _ => Op::Unlink { parent: hour, name },
                };
                remove(shared, op).await?;
            }
        }
        remove(shared, Op::Rmdir { parent: Ino::TRASH, name }).await?;
    }
    Ok(())
}

/// Slices that compaction replaced lose their references once the trash would have let them go.
async fn release_delayed(shared: &Shared, days: u32) -> Result<(), Errno> {
    let edge = shared.world.clock.now().sec.saturating_sub(i64::from(days) * 86_400);
    let links = shared.links()?;
    let find = Find { scan: Scan::Delayed { limit: limits::REAPER_QUEUE }, attrs: false };
    let mut garbage = Vec::new();
    for (key, _) in links.metadata.send(find).await.map_err(|_| Errno::EIO)?? {
        let Key::DelayedSlices { stamp, id } = key else { continue };
        if stamp > edge {
            continue;
        }
        let change = Change { caller: Caller::SYSTEM, op: Op::DropDelayed { stamp, id } };
        if let Outcome::Unreferenced(gone) = links.metadata.send(change).await.map_err(|_| Errno::EIO)?? {
            garbage.extend(gone);
        }
    }
    remove_unreferenced(shared, garbage).await
}

async fn entries(shared: &Shared, dir: Ino) -> Result<Vec<(Name, FileType, Ino)>, Errno> {
    let scan = Scan::Dentries { dir, after: None, limit: limits::READDIR_BATCH };
    let find = Find { scan, attrs: false };
    let found = shared.links()?.metadata.send(find).await.map_err(|_| Errno::EIO)??;
    let entry = |(key, record)| match (key, record) {
        (Key::Dentry(_, name), Record::Dentry { kind, ino }) => Some((name, kind, ino)),
        _ => None,
    };
    Ok(found.into_iter().filter_map(entry).collect())
}

async fn remove(shared: &Shared, op: Op) -> Result<(), Errno> {
    let change = Change { caller: Caller::SYSTEM, op };
    match shared.links()?.metadata.send(change).await.map_err(|_| Errno::EIO)? {
        Ok(Outcome::Removed { ino, deleted: Some(length) }) => {
            if let Some(hears) = shared.on_deleted.get() {
                hears(ino, length);
            }
            Ok(())
        }
        Ok(_) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}
