//! Blocks of a slice: how long each is, what its object is called, and which of them a run of bytes touches.
//! Source: volume format, object keys. A key names the length of the plain block, so a record with a wrong size
//! leads to an object that does not exist, never to wrong bytes.

use bytes::Bytes;
use std::ops::Range;
use zest_types::SliceId;
use zest_types::limits::CHUNK_SIZE;

/// One block of one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The slice.
    pub slice: SliceId,
    /// Number of the block in it, from 0.
    pub index: u32,
}

/// Takes whole blocks that are durable elsewhere, to keep a copy or not.
pub trait BlockSink: Send + Sync {
    /// Here is a block; it never changes again.
    fn keep(&self, block: BlockId, data: Bytes);
}

/// Bytes of block `index` of a slice of `slice_size` bytes; 0 for a block behind the end.
#[must_use]
pub fn block_len(slice_size: u32, block_size: u32, index: u32) -> u32 {
    let start = u64::from(index) * u64::from(block_size);
    let rest = u64::from(slice_size).saturating_sub(start).min(u64::from(block_size));
    u32::try_from(rest).unwrap_or(block_size)
}

/// How many blocks a slice of `slice_size` bytes has.
#[must_use]
pub fn block_count(slice_size: u32, block_size: u32) -> u32 {
    slice_size.div_ceil(block_size.max(1))
}

/// A run of bytes inside one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Which block.
    pub block: BlockId,
    /// Bytes of the whole block.
    pub block_len: u32,
    /// The run, in bytes of the block.
    pub range: Range<u32>,
}

/// Cuts bytes `[off, off + len)` of a slice at block borders. What lies behind the slice's end is left out.
pub fn block_ranges(
    slice: SliceId,
    slice_size: u32,
    block_size: u32,
    off: u32,
    len: u32,
) -> impl Iterator<Item = BlockRange> {
    let end = off.saturating_add(len).min(slice_size);
    let block_size = block_size.max(1);
    let mut at = off;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let index = at / block_size;
        let start = at % block_size;
        let take = (block_size - start).min(end - at);
        at += take;
        Some(BlockRange {
            block: BlockId { slice, index },
            block_len: block_len(slice_size, block_size, index),
            range: start..start + take,
        })
    })
}

/// The key of a block's object, volume name included.
#[must_use]
pub fn block_key(volume: &str, hash_prefix: bool, id: SliceId, index: u32, len: u32) -> String {
    let (id, millions) = (id.0, id.0 / 1_000_000);
    if hash_prefix {
        format!("{volume}/chunks/{:02X}/{millions}/{id}_{index}_{len}", id % 256)
    } else {
        format!("{volume}/chunks/{millions}/{}/{id}_{index}_{len}", id / 1000)
    }
}

/// What a block's key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockName {
    /// Which block.
    pub block: BlockId,
    /// Bytes of the plain block.
    pub len: u32,
}

/// Reads a key that came out of a listing. Anything [`block_key`] would not have written is `None`: other numbers
/// of components, signs, leading zeros, directories that do not fit the id, lengths no block has.
#[must_use]
pub fn parse_block_key(volume: &str, hash_prefix: bool, key: &str) -> Option<BlockName> {
    let name = key.strip_prefix(volume)?.strip_prefix("/chunks/")?.rsplit('/').next()?;
    let mut parts = name.split('_');
    let id = SliceId(parts.next()?.parse().ok()?);
    let index: u32 = parts.next()?.parse().ok()?;
    let len: u32 = parts.next()?.parse().ok()?;
    let sound = parts.next().is_none()
        && !id.is_zeros()
        && len > 0
        && u64::from(len) <= CHUNK_SIZE
        && block_key(volume, hash_prefix, id, index, len) == key;
    sound.then_some(BlockName { block: BlockId { slice: id, index }, len })
}

/// How the blocks of one volume are cut and called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockNames {
    /// Name of the volume.
    pub volume: String,
    /// Whether keys begin with a hash.
    pub hash_prefix: bool,
    /// Bytes of a full block.
    pub block_size: u32,
}

impl BlockNames {
    /// Key of a block of `len` bytes.
    #[must_use]
    pub fn key(&self, block: BlockId, len: u32) -> String {
        block_key(&self.volume, self.hash_prefix, block.slice, block.index, len)
    }

    /// Every block of a slice with its key.
    pub fn of_slice(&self, slice: SliceId, size: u32) -> impl Iterator<Item = (BlockId, String)> {
        (0..block_count(size, self.block_size)).map(move |index| {
            let block = BlockId { slice, index };
            (block, self.key(block, block_len(size, self.block_size, index)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BS: u32 = 4 << 20;

    #[test]
    fn keys_are_those_of_the_format() {
        let vectors = [
            (1, 0, 4_194_304, "chunks/0/0/1_0_4194304", "chunks/01/0/1_0_4194304"),
            (1, 2, 2_097_152, "chunks/0/0/1_2_2097152", "chunks/01/0/1_2_2097152"),
            (1_234_567, 15, 4_194_304, "chunks/1/1234/1234567_15_4194304", "chunks/87/1/1234567_15_4194304"),
            (4_987_654_321, 3, 17, "chunks/4987/4987654/4987654321_3_17", "chunks/B1/4987/4987654321_3_17"),
        ];
        for (id, index, len, plain, hashed) in vectors {
            assert_eq!(block_key("jfstest", false, SliceId(id), index, len), format!("jfstest/{plain}"));
            assert_eq!(block_key("jfstest", true, SliceId(id), index, len), format!("jfstest/{hashed}"));
        }
    }

    #[test]
    fn foreign_keys_are_refused() {
        let bad = [
            "v/chunks/0/0/0_0_1",
            "v/chunks/0/0/1_0_0",
            "v/chunks/0/0/1_0_4194304_9",
            "v/chunks/0/0/1_0",
            "v/chunks/0/0/+1_0_4",
            "v/chunks/0/0/01_0_4",
            "v/chunks/0/1/1_0_4",
            "v/chunks/0/0/0/1_0_4",
            "v/chunks/0/0/1_0_99999999",
            "v/chunks/0/0/18446744073709551616_0_4",
            "w/chunks/0/0/1_0_4",
            "v/juicefs_uuid",
            "v",
            "",
            "v/chunks/0/0/é_0_4",
        ];
        for key in bad {
            assert_eq!(parse_block_key("v", false, key), None, "{key:?}");
        }
        assert_eq!(parse_block_key("v", true, "v/chunks/0/0/1_0_4"), None);
    }

    #[test]
    fn the_last_block_is_short() {
        assert_eq!(block_len(BS + 1, BS, 0), BS);
        assert_eq!(block_len(BS + 1, BS, 1), 1);
        assert_eq!(block_len(BS + 1, BS, 2), 0);
        assert_eq!((block_count(BS, BS), block_count(BS + 1, BS), block_count(0, BS)), (1, 2, 0));
    }

    proptest! {
        #[test]
        fn keys_read_back(id in 1u64.., index in 0u32..1024, len in 1u32..=(1 << 26), hash: bool) {
            let key = block_key("vol", hash, SliceId(id), index, len);
            let block = BlockId { slice: SliceId(id), index };
            prop_assert_eq!(parse_block_key("vol", hash, &key), Some(BlockName { block, len }));
        }

        #[test]
        fn parsing_garbage_never_panics(key in "\\PC{0,40}", hash: bool) {
            let parsed = parse_block_key("v", hash, &format!("v/chunks/{key}"));
            prop_assert!(parsed.is_none_or(|name| name.len > 0));
        }

        #[test]
        fn ranges_cover_exactly(size in 1u32..1000, bs in 1u32..100, off in 0u32..1000, len in 0u32..1000) {
            let mut at = off;
            for piece in block_ranges(SliceId(1), size, bs, off, len) {
                prop_assert_eq!(piece.block.index * bs + piece.range.start, at);
                prop_assert!(piece.range.end <= piece.block_len);
                at += piece.range.end - piece.range.start;
            }
            prop_assert_eq!(at, (off + len).min(size).max(off));
        }
    }
}
