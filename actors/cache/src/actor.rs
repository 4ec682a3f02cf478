//! The actor that fetches blocks, or parts of them, that the memory tier does not have. Keeps no data of its own besides what is in
//! flight. Each fetch runs as a task of its own and reports back by a message, so that a busy one is not polled
//! whenever another moves.
//!
//! A panic in a fetch fails that fetch. A panic in the actor itself ends the actor: its mailbox closes, who waits gets an error at once, and nothing else is
//! lost, since everything in a cache may be.

use crate::appetite::{Appetite, Helping};
use crate::disk::DiskTier;
use crate::fetch::{Fetcher, Part};
use crate::flights::{Bounds, Flights, Flying, Start};
use crate::meter::{Count, Meter};
use crate::tier::MemoryTier;
use actix::prelude::*;
use bytes::Bytes;
use futures::FutureExt;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::oneshot;
use zest_data::codec::BlockCodec;
use zest_data::{BlockId, BlockSink};
use zest_types::Errno;
use zest_types::limits::{DOWNLOADS, FETCHING, MAILBOX, PREFETCHES};
use zest_world::{ObjectError, World};

/// Why a block could not be fetched, tries and all.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum FetchError {
    /// There is no such object: the caller's list of slices is out of date, or the object is lost. Refresh the
    /// list and look again before calling it lost.
    #[error("block object {0} does not exist: the file's slice list may be out of date")]
    NotFound(String),
    /// There is such an object, and it is not this block: its bytes are damaged, or the list is out of date.
    #[error("block object {key} is damaged: {why}")]
    Damaged {
        /// The object.
        key: String,
        /// What is wrong with it.
        why: String,
    },
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
            FetchError::NotFound(_) | FetchError::Damaged { .. } => Errno::EIO,
            FetchError::Store(_) | FetchError::Stopped => Errno::EIO,
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

/// Gives bytes of a block, from memory or from the store: as much around them as is worth fetching.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Part, FetchError>")]
pub struct FetchPart {
    /// The block.
    pub block: BlockId,
    /// Bytes of the whole block.
    pub len: u32,
    /// Key of its object.
    pub key: String,
    /// The bytes that are wanted, within the block.
    pub range: Range<u32>,
    /// The rest of the block will be wanted next.
    pub stream: bool,
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

type Waiter = oneshot::Sender<Result<Part, FetchError>>;

/// Fetches blocks.
pub struct CacheActor {
    fetcher: Fetcher,
    tier: Arc<MemoryTier>,
    disk: Option<Arc<DiskTier>>,
    flights: Flights<Waiter>,
    appetite: Appetite,
    /// Blocks that may be fetched whole at once because parts of them were wanted again and again; none is any.
    grows: Option<usize>,
    growing: BTreeSet<Flying>,
}

impl CacheActor {
    /// A cache over this memory tier, of a volume whose objects `codec` decodes.
    #[must_use]
    pub fn new(world: World, tier: Arc<MemoryTier>, codec: Arc<BlockCodec>) -> CacheActor {
        let bounds = Bounds { running: DOWNLOADS, bytes: FETCHING, prefetches: PREFETCHES };
        let fetcher = Fetcher { world, codec, meter: Arc::default() };
        CacheActor {
            fetcher,
            tier,
            disk: None,
            flights: Flights::new(bounds),
            appetite: Appetite::default(),
            grows: None,
            growing: BTreeSet::new(),
        }
    }

    /// Keeps what it fetched on disk, too.
    #[must_use]
    pub fn on_disk(mut self, disk: Option<Arc<DiskTier>>) -> CacheActor {
        self.disk = disk;
        self
    }

    /// Counts with others, and keeps within bounds of the caller's.
    #[must_use]
    pub fn with(mut self, meter: Arc<Meter>, bounds: Bounds) -> CacheActor {
        self.fetcher.meter = meter;
        self.flights = Flights::new(bounds);
        self
    }

    /// At most so many blocks at once are fetched whole because parts of them were wanted again and again.
    #[must_use]
    pub fn growing(mut self, grows: Option<usize>) -> CacheActor {
        self.grows = grows;
        self
    }

    /// What to fetch so that a range of a block is there.
    fn helping(&mut self, block: BlockId, len: u32, range: Range<u32>, stream: bool) -> Range<u32> {
        // What is on its way already costs nothing more.
        if self.flights.covering(block, &range).is_some() {
            return range;
        }
        if !self.fetcher.codec.is_plain() {
            return 0..len;
        }
        let may_grow = self.grows.is_none_or(|most| self.growing.len() < most);
        let Helping { span, grown } = self.appetite.span(block, len, &range, stream, may_grow);
        if grown {
            self.growing.insert(Start { block, len, key: String::new(), span: span.clone() }.name());
        }
        span
    }

    fn start_all(&mut self, starts: Vec<Start>, ctx: &mut Context<Self>) {
        for start in starts {
            let block = start.block;
            self.fetcher.world.tell("cache", "fetch", block.slice.0, u64::from(block.index));
            let (actor, name, len) = (ctx.address(), start.name(), start.len);
            let lost = ObjectError::Transient { key: start.key.clone(), why: "panicked".into() };
            let fetch = self.fetcher.clone().fetch(start);
            actix::spawn(async move {
                let result = AssertUnwindSafe(fetch).catch_unwind().await;
                let result = result.unwrap_or(Err(FetchError::Store(lost)));
                actor.do_send(Landed { block, len, name, result });
            });
        }
    }

    /// Has something fetched; the answer comes when it has landed.
    fn want(&mut self, start: Start, ctx: &mut Context<Self>) -> oneshot::Receiver<Result<Part, FetchError>> {
        let (done, wait) = oneshot::channel();
        let starts = self.flights.want(start, done);
        self.start_all(starts, ctx);
        wait
    }
}

/// How a fetch ended.
#[derive(Message)]
#[rtype(result = "()")]
struct Landed {
    block: BlockId,
    len: u32,
    name: Flying,
    result: Result<Part, FetchError>,
}

impl Handler<Landed> for CacheActor {
    type Result = ();

    fn handle(&mut self, message: Landed, ctx: &mut Self::Context) {
        let Landed { block, len, name, result } = message;
        let kind = if result.is_ok() { "fetched" } else { "missing" };
        self.fetcher.world.tell("cache", kind, block.slice.0, u64::from(block.index));
        self.growing.remove(&name);
        let (waiters, starts) = self.flights.landed(name);
        if let Ok(part) = &result {
            let whole = part.data.len() == len as usize;
            if whole && waiters.is_empty() {
                self.tier.insert_awaited(block, part.data.clone());
            } else if whole {
                self.tier.insert(block, part.data.clone());
            } else {
                self.tier.insert_part(block, part.start, &part.data);
            }
            match &self.disk {
                Some(disk) if whole => disk.keep(block, part.data.clone()),
                Some(disk) => disk.keep_range(block, len, part.start, part.data.clone()),
                None => {}
            }
        }
        for waiter in waiters {
            let _gone = waiter.send(result.clone()); // who asked may have given up
        }
        self.start_all(starts, ctx);
    }
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
        let wait = self.want(Start::whole(block, len, key), ctx);
        Box::pin(async move { wait.await.unwrap_or(Err(FetchError::Stopped)).map(|part| part.data) })
    }
}

impl Handler<FetchPart> for CacheActor {
    type Result = ResponseFuture<Result<Part, FetchError>>;

    fn handle(&mut self, message: FetchPart, ctx: &mut Self::Context) -> Self::Result {
        let FetchPart { block, len, key, range, stream } = message;
        if let Some(data) = self.tier.get(&block) {
            return Box::pin(async { Ok(Part { start: 0, data }) });
        }
        let span = self.helping(block, len, range, stream);
        let wait = self.want(Start { block, len, key, span }, ctx);
        Box::pin(async move { wait.await.unwrap_or(Err(FetchError::Stopped)) })
    }
}

impl Handler<Prefetch> for CacheActor {
    type Result = ();

    fn handle(&mut self, message: Prefetch, ctx: &mut Self::Context) {
        let Prefetch { block, len, key } = message;
        if self.tier.contains(&block) {
            return;
        }
        match self.flights.prefetch(Start::whole(block, len, key)) {
            Some(starts) => self.start_all(starts, ctx),
            None => self.fetcher.meter.add(Count::AheadDropped, 1),
        }
    }
}
