//! Blocks in memory, bounded in bytes, asked from every thread. A hit costs one short lock of one shard and a
//! reference; nothing is copied.

use crate::policy::{MixState, Policy};
use bytes::Bytes;
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use zest_data::{BlockId, BlockSink};
use zest_types::limits::BLOCK_SIZE_RANGE;

const SHARDS_MAX: u64 = 16;
/// A shard holds at least this many of the largest blocks, or there are fewer shards.
const BLOCKS_PER_SHARD: u64 = 16;

/// A shard and its counters have a cache line of their own.
#[repr(align(128))]
struct Shard {
    blocks: Mutex<Policy<BlockId, Bytes>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What a tier did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierStats {
    /// Questions that were answered.
    pub hits: u64,
    /// Questions that were not.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Blocks held now.
    pub blocks: u64,
}

/// The memory tier. Share it by `Arc`.
pub struct MemoryTier {
    shards: Vec<Shard>,
    hasher: MixState,
}

impl MemoryTier {
    /// A tier of at most `capacity` bytes; 0 keeps nothing.
    #[must_use]
    pub fn new(capacity: u64) -> MemoryTier {
        let per_shard = u64::from(BLOCK_SIZE_RANGE.1) * BLOCKS_PER_SHARD;
        let count = (capacity / per_shard).clamp(1, SHARDS_MAX);
        let shard = |_| Shard {
            blocks: Mutex::new(Policy::new(capacity / count)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        MemoryTier { shards: (0..count).map(shard).collect(), hasher: MixState::default() }
    }

    /// The whole block, when it is here.
    #[must_use]
    pub fn get(&self, block: &BlockId) -> Option<Bytes> {
        let shard = self.shard(block);
        let found = shard.blocks.lock().get(block).cloned();
        let counter = if found.is_some() { &shard.hits } else { &shard.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether the block is here; does not count as use.
    #[must_use]
    pub fn contains(&self, block: &BlockId) -> bool {
        self.shard(block).blocks.lock().contains(block)
    }

    /// Keeps a whole block, at the cost of others.
    pub fn insert(&self, block: BlockId, data: Bytes) {
        let weight = data.len() as u64;
        // Freeing megabytes takes a while: the lock is gone by then.
        let gone = self.shard(&block).blocks.lock().insert(block, data, weight);
        drop(gone);
    }

    /// Forgets a block.
    pub fn remove(&self, block: &BlockId) {
        let gone = self.shard(block).blocks.lock().remove(block);
        drop(gone);
    }

    /// Counters and sizes, summed up.
    #[must_use]
    pub fn stats(&self) -> TierStats {
        self.shards.iter().fold(TierStats::default(), |sum, shard| {
            let blocks = shard.blocks.lock();
            TierStats {
                hits: sum.hits + shard.hits.load(Ordering::Relaxed),
                misses: sum.misses + shard.misses.load(Ordering::Relaxed),
                bytes: sum.bytes + blocks.weight(),
                blocks: sum.blocks + blocks.len() as u64,
            }
        })
    }

    fn shard(&self, block: &BlockId) -> &Shard {
        let hash = self.hasher.hash_one(block);
        let at = (hash >> 7) % self.shards.len() as u64;
        // `at` is below the number of shards, and there is at least one.
        &self.shards[usize::try_from(at).unwrap_or(0)]
    }
}

impl BlockSink for MemoryTier {
    fn keep(&self, block: BlockId, data: Bytes) {
        self.insert(block, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::SliceId;

    fn block(slice: u64, index: u32) -> BlockId {
        BlockId { slice: SliceId(slice), index }
    }

    #[test]
    fn hits_share_memory_and_are_counted() {
        let tier = MemoryTier::new(1 << 30);
        let data = Bytes::from(vec![7; 1000]);
        tier.keep(block(1, 0), data.clone());
        assert_eq!(tier.get(&block(1, 0)).unwrap().as_ptr(), data.as_ptr());
        assert_eq!(tier.get(&block(1, 1)), None);
        assert!(tier.contains(&block(1, 0)));
        assert_eq!(tier.stats(), TierStats { hits: 1, misses: 1, bytes: 1000, blocks: 1 });
        tier.remove(&block(1, 0));
        assert!(!tier.contains(&block(1, 0)));
        assert_eq!(tier.stats().bytes, 0);
    }

    #[test]
    fn the_bound_holds_over_all_shards() {
        let capacity = 4 << 30;
        let tier = MemoryTier::new(capacity);
        assert_eq!(tier.shards.len(), 16);
        let data = Bytes::from(vec![0; 4 << 20]);
        for n in 0..3000 {
            tier.insert(block(n / 16, (n % 16) as u32), data.clone());
            assert!(tier.stats().bytes <= capacity);
        }
        assert!(tier.stats().bytes > capacity / 2, "blocks spread over the shards");
        assert_eq!(MemoryTier::new(0).shards.len(), 1);
        assert!(MemoryTier::new(100 << 20).shards.len() == 1);
    }
}
