//! The actor that fetches blocks the memory tier does not have. Keeps no data of its own besides what is in
//! flight. Each fetch runs as a task of its own and reports back by a message, so that a busy one is not polled
//! whenever another moves.
//!
//! A panic in a fetch fails that fetch. A panic in the actor itself ends the actor: its mailbox closes, who waits gets an error at once, and nothing else is
//! lost, since everything in a cache may be.

use crate::flights::{Flights, Start};
use crate::tier::MemoryTier;
use actix::prelude::*;
use bytes::Bytes;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::oneshot;
use zest_data::BlockId;
use zest_data::codec::{self, BlockCodec};
use zest_data::retry::{Asker, retrying};
use zest_types::Errno;
use zest_types::limits::{DOWNLOADS, MAILBOX, PREFETCHES};
use zest_world::{ObjectError, World};

/// Why a block could not be fetched, tries and all.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum FetchError {
    /// There is no such object: the caller's list of slices is out of date, or the object is lost. Refresh the
    /// list and look again before calling it lost.
    #[error("block object {0} does not exist: the file's slice list may be out of date")]
    NotFound(String),
    /// The store failed.
    #[error(transparent)]
    Store(ObjectError),
    /// The cache actor has ended.
    #[error("the block cache has stopped: unmount and mount again")]
    Stopped,
}

impl From<FetchError> for Errno {
    fn from(error: FetchError) -> Errno {
        match error {
            FetchError::NotFound(_) | FetchError::Store(_) | FetchError::Stopped => Errno::EIO,
        }
    }
}

/// Gives a whole block, from memory or from the store.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Bytes, FetchError>")]
pub struct Fetch {
    /// The block.
    pub block: BlockId,
    /// Bytes of it.
    pub len: u32,
    /// Key of its object.
    pub key: String,
}

/// Brings a block into memory where that costs nobody else his turn; may do nothing.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Prefetch {
    /// The block.
    pub block: BlockId,
    /// Bytes of it.
    pub len: u32,
    /// Key of its object.
    pub key: String,
}

type Waiter = oneshot::Sender<Result<Bytes, FetchError>>;

/// Fetches blocks.
pub struct CacheActor {
    world: World,
    tier: Arc<MemoryTier>,
    codec: Arc<BlockCodec>,
    flights: Flights<Waiter>,
}

impl CacheActor {
    /// A cache over this memory tier, of a volume whose objects `codec` decodes.
    #[must_use]
    pub fn new(world: World, tier: Arc<MemoryTier>, codec: Arc<BlockCodec>) -> CacheActor {
        CacheActor { world, tier, codec, flights: Flights::new(DOWNLOADS, PREFETCHES) }
    }

    fn start_all(&mut self, starts: Vec<Start>, ctx: &mut Context<Self>) {
        for Start { block, len, key } in starts {
            self.world.tell("cache", "fetch", block.slice.0, u64::from(block.index));
            let actor = ctx.address();
            let lost = FetchError::Store(ObjectError::Transient { key: key.clone(), why: "panicked".into() });
            let fetch = fetch(self.world.clone(), Arc::clone(&self.codec), block, len, key);
            actix::spawn(async move {
                let result = AssertUnwindSafe(fetch).catch_unwind().await.unwrap_or(Err(lost));
                actor.do_send(Landed { block, result });
            });
        }
    }
}

/// How a fetch ended.
#[derive(Message)]
#[rtype(result = "()")]
struct Landed {
    block: BlockId,
    result: Result<Bytes, FetchError>,
}

impl Handler<Landed> for CacheActor {
    type Result = ();

    fn handle(&mut self, message: Landed, ctx: &mut Self::Context) {
        let Landed { block, result } = message;
        let kind = if result.is_ok() { "fetched" } else { "missing" };
        self.world.tell("cache", kind, block.slice.0, u64::from(block.index));
        if let Ok(data) = &result {
            self.tier.insert(block, data.clone());
        }
        let (waiters, starts) = self.flights.landed(block);
        for waiter in waiters {
            let _gone = waiter.send(result.clone()); // who asked may have given up
        }
        self.start_all(starts, ctx);
    }
}

/// One fetch with all its tries: always of the whole object, since a part of an encoded one says nothing. A body that
/// is no such block is as bad as none: what is missing is never made up.
async fn fetch(
    world: World,
    codec: Arc<BlockCodec>,
    block: BlockId,
    len: u32,
    key: String,
) -> Result<Bytes, FetchError> {
    let asker = Asker { actor: "cache", subject: block.slice.0 };
    let request = move |world: &World, key: &str| {
        let (get, key) = (world.objects.get(key, None), key.to_owned());
        let (world, codec) = (world.clone(), Arc::clone(&codec));
        Box::pin(async move {
            let plain = codec::decode(&world, &codec, get.await?, len as usize).await;
            plain.map_err(|error| ObjectError::Transient { key, why: error.to_string() })
        }) as zest_world::BoxFuture<'static, _>
    };
    retrying(world, asker, key, request).await.map_err(|error| match error {
        ObjectError::NotFound(key) => FetchError::NotFound(key),
        other => FetchError::Store(other),
    })
}

impl Actor for CacheActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Supervised for CacheActor {}

impl Handler<Fetch> for CacheActor {
    type Result = ResponseFuture<Result<Bytes, FetchError>>;

    fn handle(&mut self, message: Fetch, ctx: &mut Self::Context) -> Self::Result {
        let Fetch { block, len, key } = message;
        if let Some(data) = self.tier.get(&block) {
            return Box::pin(async { Ok(data) });
        }
        let (done, wait) = oneshot::channel();
        let starts = self.flights.want(Start { block, len, key }, done);
        self.start_all(starts, ctx);
        Box::pin(async move { wait.await.unwrap_or(Err(FetchError::Stopped)) })
    }
}

impl Handler<Prefetch> for CacheActor {
    type Result = ();

    fn handle(&mut self, message: Prefetch, ctx: &mut Self::Context) {
        let Prefetch { block, len, key } = message;
        if !self.tier.contains(&block) {
            let starts = self.flights.prefetch(Start { block, len, key });
            self.start_all(starts, ctx);
        }
    }
}
