//! Keeps the mount's session alive, empties hour directories of the trash that are older than the volume keeps
//! them, and lets go what compaction replaced. One look an hour; what fails is tried again at the next.

use crate::gate;
use crate::reaper::remove_unreferenced;
use crate::trash;
use actix::{Actor, ActorFutureExt, AsyncContext, Context, Supervised, WrapFuture};
use std::sync::Arc;
use std::time::Duration;
use zest_metadata::actor::EndSilent;
use zest_metadata::{Beat, Counter};
use zest_types::Errno;
use zest_vfs::shared::Shared;

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

/// Empties old trash, and gives back what compaction replaced as long ago, if it is this mount's turn.
pub async fn empty_trash(shared: &Shared, days: u32) -> Result<(), Errno> {
    if !gate::pass(shared, Counter::LastCleanupTrash).await? {
        return Ok(());
    }
    let now = shared.world.clock.now().sec;
    remove_unreferenced(shared, trash::release(shared, now, days).await?).await?;
    let deleted = |ino, length| {
        if let Some(hears) = shared.on_deleted.get() {
            hears(ino, length);
        }
    };
    trash::empty(shared, now, days, &deleted).await.map(|_| ())
}
