//! The actor that has cache directories filled and looked after: one job at a time for each, away from every
//! actor's thread. Keeps nothing but who is busy.

use super::DiskTier;
use actix::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use zest_types::limits::CACHE_TEND_MS;
use zest_world::World;

/// There may be something to store.
#[derive(Message)]
#[rtype(result = "()")]
struct Wake;

/// A job has ended.
#[derive(Message)]
#[rtype(result = "()")]
struct Done(usize);

/// See the head of this file.
pub struct Tender {
    tier: Arc<DiskTier>,
    world: World,
    busy: Vec<bool>,
    /// Directories that are due to be looked after.
    due: Vec<bool>,
}

impl Tender {
    /// Of this tier.
    #[must_use]
    pub fn new(world: World, tier: Arc<DiskTier>) -> Tender {
        let count = tier.stores.len();
        Tender { tier, world, busy: vec![false; count], due: vec![true; count] }
    }

    fn look(&mut self, ctx: &mut Context<Self>) {
        for (number, store) in self.tier.stores.iter().enumerate() {
            let (Some(busy), Some(due)) = (self.busy.get_mut(number), self.due.get_mut(number)) else {
                return;
            };
            let tend = *due && !store.is_retired();
            if *busy || !(tend || store.has_work()) {
                continue;
            }
            (*busy, *due) = (true, false);
            let tier = Arc::clone(&self.tier);
            let job = move || {
                let Some(store) = tier.stores.get(number) else { return };
                if tend {
                    store.tend();
                }
                store.work();
            };
            let (ran, actor) = (self.world.offload.run("cache files", Box::new(job)), ctx.address());
            // A job that panicked has ended, too.
            actix::spawn(async move {
                ran.await;
                actor.do_send(Done(number));
            });
        }
    }
}

impl Actor for Tender {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let actor = ctx.address();
        // A mailbox that is full has a question in it already.
        let wake = move || drop(actor.try_send(Wake));
        *self.tier.wake.write() = Some(Box::new(wake));
        self.busy.fill(false);
        ctx.run_interval(Duration::from_millis(CACHE_TEND_MS), |actor, ctx| {
            actor.due.fill(true);
            actor.look(ctx);
        });
        self.look(ctx);
    }
}

impl Supervised for Tender {}

impl Handler<Wake> for Tender {
    type Result = ();

    fn handle(&mut self, _message: Wake, ctx: &mut Self::Context) {
        self.look(ctx);
    }
}

impl Handler<Done> for Tender {
    type Result = ();

    fn handle(&mut self, Done(number): Done, ctx: &mut Self::Context) {
        if let Some(busy) = self.busy.get_mut(number) {
            *busy = false;
        }
        self.look(ctx);
    }
}
