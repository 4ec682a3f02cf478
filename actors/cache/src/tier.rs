//! Blocks, and parts of blocks, in memory, bounded in bytes, asked from every thread. A hit costs one short lock of one
//! shard and a reference; nothing is copied.

use crate::policy::{MixState, Policy};
use bytes::Bytes;
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use zest_data::{BlockId, BlockSink};
use zest_types::limits::{BLOCK_SIZE_RANGE, PART_SIZE};

const SHARDS_MAX: u64 = 16;
/// A shard holds at least this many of the largest blocks, or there are fewer shards.
const BLOCKS_PER_SHARD: u64 = 16;

/// What is kept under one name: a block (`part` 0), or one part of it, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Slot {
    block: BlockId,
    part: u32,
}

impl Slot {
    fn whole(block: &BlockId) -> Slot {
        Slot { block: *block, part: 0 }
    }
}

/// A shard and its counters have a cache line of their own.
#[repr(align(128))]
struct Shard {
    slots: Mutex<Policy<Slot, Bytes>>,
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
    /// Blocks and parts of blocks held now.
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
            slots: Mutex::new(Policy::new(capacity / count)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        MemoryTier { shards: (0..count).map(shard).collect(), hasher: MixState::default() }
    }

    /// The whole block, when it is here.
    #[must_use]
    pub fn get(&self, block: &BlockId) -> Option<Bytes> {
        let shard = self.shard(block);
        let found = shard.slots.lock().get(&Slot::whole(block)).cloned();
        shard.count(found.is_some());
        found
    }

    /// Adds bytes of a block to `pieces`, when all of them are here; else adds nothing.
    #[must_use]
    pub fn read(&self, block: &BlockId, range: &Range<u32>, pieces: &mut Vec<Bytes>) -> bool {
        let shard = self.shard(block);
        let before = pieces.len();
        let found = {
            let mut slots = shard.slots.lock();
            match slots.get(&Slot::whole(block)) {
                Some(data) => cut(data, range.start, range.end, pieces),
                None => parts_of(range).all(|part| {
                    let start = part * PART_SIZE;
                    let from = range.start.saturating_sub(start);
                    let to = range.end.saturating_sub(start).min(PART_SIZE);
                    let data = slots.get(&Slot { block: *block, part: part + 1 });
                    data.is_some_and(|data| cut(data, from, to, pieces))
                }),
            }
        };
        if !found {
            pieces.truncate(before);
        }
        shard.count(found);
        found
    }

    /// Whether the block is here; does not count as use.
    #[must_use]
    pub fn contains(&self, block: &BlockId) -> bool {
        self.shard(block).slots.lock().contains(&Slot::whole(block))
    }

    /// Keeps a whole block, at the cost of others.
    pub fn insert(&self, block: BlockId, data: Bytes) {
        self.put(Slot::whole(&block), data);
    }

    /// Keeps a whole block that a stream of reads is about to come to.
    pub fn insert_awaited(&self, block: BlockId, data: Bytes) {
        let weight = data.len() as u64;
        let gone = self.shard(&block).slots.lock().insert_awaited(Slot::whole(&block), data, weight);
        drop(gone);
    }

    /// Keeps bytes of a block that begin at `start`, the beginning of a part; the last one may be short where the
    /// block ends with it. Bytes of one part are kept as they are, more are copied, so that each can go by itself.
    pub fn insert_part(&self, block: BlockId, start: u32, data: &Bytes) {
        debug_assert!(start.is_multiple_of(PART_SIZE));
        let several = data.len() > PART_SIZE as usize;
        for (n, piece) in (start / PART_SIZE + 1..).zip(data.chunks(PART_SIZE as usize)) {
            let piece = if several { Bytes::copy_from_slice(piece) } else { data.clone() };
            self.put(Slot { block, part: n }, piece);
        }
    }

    fn put(&self, slot: Slot, data: Bytes) {
        let weight = data.len() as u64;
        // Freeing megabytes takes a while: the lock is gone by then.
        let gone = self.shard(&slot.block).slots.lock().insert(slot, data, weight);
        drop(gone);
    }

    /// Forgets a block; parts of it go when their turn comes.
    pub fn remove(&self, block: &BlockId) {
        let gone = self.shard(block).slots.lock().remove(&Slot::whole(block));
        drop(gone);
    }

    /// Counters and sizes, summed up.
    #[must_use]
    pub fn stats(&self) -> TierStats {
        self.shards.iter().fold(TierStats::default(), |sum, shard| {
            let slots = shard.slots.lock();
            TierStats {
                hits: sum.hits + shard.hits.load(Ordering::Relaxed),
                misses: sum.misses + shard.misses.load(Ordering::Relaxed),
                bytes: sum.bytes + slots.weight(),
                blocks: sum.blocks + slots.len() as u64,
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

impl Shard {
    fn count(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Numbers of the parts that hold a range.
fn parts_of(range: &Range<u32>) -> Range<u32> {
    range.start / PART_SIZE..range.end.div_ceil(PART_SIZE)
}

/// Adds a piece of `data`; `false` when it ends too early.
fn cut(data: &Bytes, from: u32, to: u32, pieces: &mut Vec<Bytes>) -> bool {
    let (from, to) = (from as usize, to as usize);
    let fits = from <= to && to <= data.len();
    if fits {
        pieces.push(data.slice(from..to));
    }
    fits
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

    fn read(tier: &MemoryTier, range: Range<u32>) -> Option<Vec<u8>> {
        let mut pieces = vec![Bytes::from_static(b"before")];
        let found = tier.read(&block(1, 0), &range, &mut pieces);
        assert_eq!(&pieces[0][..], b"before");
        assert!(found || pieces.len() == 1);
        found.then(|| pieces[1..].concat())
    }

    #[test]
    fn parts_are_found_where_all_of_a_range_is_there() {
        let tier = MemoryTier::new(1 << 30);
        let len = PART_SIZE * 5 + 100;
        let all: Vec<u8> = (0..len).map(|n| (n / 7) as u8).collect();
        let bytes = |range: Range<u32>| all[range.start as usize..range.end as usize].to_vec();
        let put = |range: Range<u32>| tier.insert_part(block(1, 0), range.start, &bytes(range).into());
        let inside = PART_SIZE + 5..PART_SIZE * 3;
        assert_eq!(read(&tier, inside.clone()), None);
        put(PART_SIZE..PART_SIZE * 2);
        assert_eq!(read(&tier, PART_SIZE + 5..PART_SIZE + 9), Some(bytes(PART_SIZE + 5..PART_SIZE + 9)));
        assert_eq!(read(&tier, inside.clone()), None, "half of it is missing");
        put(PART_SIZE * 2..PART_SIZE * 4);
        assert_eq!(read(&tier, inside.clone()), Some(bytes(inside)));
        assert_eq!(read(&tier, 0..10), None);
        put(0..PART_SIZE);
        assert_eq!(read(&tier, 5..PART_SIZE * 4), Some(bytes(5..PART_SIZE * 4)));
        put(PART_SIZE * 5..len);
        assert_eq!(read(&tier, len - 50..len), Some(bytes(len - 50..len)));
        assert_eq!(read(&tier, len - 50..len + 1), None, "nothing is made up");
        assert!(!tier.contains(&block(1, 0)) && tier.get(&block(1, 0)).is_none());
        assert_eq!(tier.stats().bytes, u64::from(PART_SIZE * 4 + 100));
        tier.insert(block(1, 0), all.clone().into());
        assert_eq!(read(&tier, 3..len), Some(bytes(3..len)));
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
