//! Blocks of a file brought into the cache before anybody asks for them, looked for there, or taken out of it. What it
//! counts is what is so: a block counts as cached when it is in its cache file, or in memory where there are none.

use crate::Vfs;
use crate::shared::Shared;
use crate::slow::Task;
use bytes::Bytes;
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zest_cache::Fetch;
use zest_data::block::block_ranges;
use zest_data::{BlockId, ChunkView, Piece};
use zest_metadata::{Key, Record, Scan};
use zest_types::limits::CHUNK_SIZE;
use zest_types::{Caller, Errno, Ino};

/// Blocks of one file brought at once.
const AT_ONCE: usize = 8;
/// Chunk lists looked up at once.
const LISTS: usize = 64;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// Bring what is missing.
    Fill,
    /// Only look.
    Check,
    /// Take out.
    Evict,
}

/// What there was to a file, in bytes of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Of all its blocks.
    pub bytes: u64,
    /// Of those that are cached now.
    pub cached: u64,
    /// Of those that were fetched.
    pub fetched: u64,
    /// Of those that were taken out.
    pub evicted: u64,
    /// Of those that could not be had.
    pub failed: u64,
}

impl Vfs {
    /// Does this with the committed blocks of a file.
    pub async fn warm(&self, ino: Ino, what: Warm) -> Result<Warmed, Errno> {
        let blocks = blocks(self.shared(), ino).await?;
        let shared = self.shared();
        let mut sum = Warmed { bytes: blocks.values().map(|len| u64::from(*len)).sum(), ..Warmed::default() };
        match what {
            Warm::Check => {}
            Warm::Evict => evict(shared, &blocks, &mut sum).await,
            Warm::Fill => {
                let missing: Vec<(BlockId, u32)> = blocks
                    .iter()
                    .map(|(block, len)| (*block, *len))
                    .filter(|(block, len)| !has(shared, *block, *len))
                    .collect();
                for some in missing.chunks(AT_ONCE) {
                    let brought = join_all(some.iter().map(|(block, len)| bring(shared, *block, *len))).await;
                    for (ok, (_, len)) in brought.into_iter().zip(some) {
                        let into = if ok { &mut sum.fetched } else { &mut sum.failed };
                        *into += u64::from(*len);
                    }
                }
            }
        }
        let here = blocks.iter().filter(|(block, len)| has(shared, **block, **len));
        sum.cached = here.map(|(_, len)| u64::from(*len)).sum();
        Ok(sum)
    }
}

fn has(shared: &Shared, block: BlockId, len: u32) -> bool {
    match &shared.disk {
        Some(disk) => disk.contains(block, len, 0..len),
        None => shared.tier.contains(&block),
    }
}

/// Fetches a block and has it kept; false when it could not be fetched.
async fn bring(shared: &Shared, block: BlockId, len: u32) -> bool {
    let Ok(links) = shared.links() else { return false };
    let key = shared.names.key(block, len);
    let data: Bytes = match links.cache.send(Fetch { block, len, key }).await {
        Ok(Ok(data)) => data,
        Ok(Err(error)) => {
            shared.world.trace.complain(&format!("warm-up: {error}"));
            return false;
        }
        Err(_) => return false,
    };
    if let Some(disk) = &shared.disk {
        disk.store(block, data).await;
    }
    true
}

async fn evict(shared: &Arc<Shared>, blocks: &BTreeMap<BlockId, u32>, sum: &mut Warmed) {
    let here = blocks.iter().filter(|(block, len)| has(shared, **block, **len));
    sum.evicted = here.map(|(_, len)| u64::from(*len)).sum();
    blocks.keys().for_each(|block| shared.tier.remove(block));
    if let Some(disk) = shared.disk.clone() {
        let slices: BTreeSet<_> = blocks.keys().map(|block| block.slice).collect();
        let job = move || {
            for slice in slices {
                disk.forget(slice);
            }
        };
        shared.world.offload.run("forget cache files", Box::new(job)).await;
    }
}

/// Every block that shows in the file, with its length.
async fn blocks(shared: &Arc<Shared>, ino: Ino) -> Result<BTreeMap<BlockId, u32>, Errno> {
    let task = Task { shared: Arc::clone(shared), caller: Caller::SYSTEM, interrupt: None };
    let (mut from, mut blocks) = (0, BTreeMap::new());
    loop {
        let lists = task.find(Scan::Chunks { ino, from, limit: LISTS }, false).await?;
        let last = lists.last().map(|(key, _)| key.clone());
        for (_, record) in &lists {
            let Record::Slices(list) = record else { continue };
            for piece in ChunkView::new(list).pieces(0, CHUNK_SIZE as u32) {
                let Piece::Stored { slice, size, off, len } = piece else { continue };
                for range in block_ranges(slice, size, shared.names.block_size, off, len) {
                    blocks.insert(range.block, range.block_len);
                }
            }
        }
        match last {
            Some(Key::Chunk(_, index)) if lists.len() >= LISTS => from = index + 1,
            _ => return Ok(blocks),
        }
    }
}
