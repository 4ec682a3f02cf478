//! Which run of stored bytes shows where in a chunk, and where file offsets fall. Source of the record:
//! volume format, slice records (24 bytes).

use crate::ids::SliceId;
use crate::limits::CHUNK_SIZE;
use serde::{Deserialize, Serialize};

/// One entry of a chunk's list: bytes `[off, off + len)` of slice `id`, which has `size` bytes in all, show at
/// `[pos, pos + len)` of the chunk. For `id` 0 the range shows zeros, and `size` and `off` mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SliceRecord {
    /// First byte in the chunk.
    pub pos: u32,
    /// The slice, or 0 for zeros.
    pub id: SliceId,
    /// All bytes of the slice.
    pub size: u32,
    /// First byte of the slice that shows.
    pub off: u32,
    /// How many bytes show.
    pub len: u32,
}

impl SliceRecord {
    /// A record that shows a whole slice.
    #[must_use]
    pub fn whole(pos: u32, id: SliceId, size: u32) -> SliceRecord {
        SliceRecord { pos, id, size, off: 0, len: size }
    }

    /// A record that shows zeros.
    #[must_use]
    pub fn zeros(pos: u32, len: u32) -> SliceRecord {
        SliceRecord { pos, len, ..SliceRecord::default() }
    }

    /// One past the last byte in the chunk.
    #[must_use]
    pub fn end(&self) -> u64 {
        u64::from(self.pos) + u64::from(self.len)
    }

    /// Whether the record keeps the format's bounds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let slice_ok = self.id.is_zeros()
            || u64::from(self.off) + u64::from(self.len) <= u64::from(self.size)
                && u64::from(self.size) <= CHUNK_SIZE;
        slice_ok && self.end() <= CHUNK_SIZE
    }
}

/// A record, and the chunk in whose list it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placed {
    /// Number of the chunk.
    pub index: u32,
    /// The record.
    pub record: SliceRecord,
}

/// The part of a file range that lies in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    /// Number of the chunk.
    pub index: u32,
    /// First byte in the chunk.
    pub pos: u32,
    /// How many bytes, at least one.
    pub len: u32,
}

/// Cuts the file range `[offset, offset + len)` at chunk borders. The range must end below 2^57.
pub fn chunk_ranges(offset: u64, len: u64) -> impl Iterator<Item = ChunkRange> {
    let end = offset.saturating_add(len);
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let pos = at % CHUNK_SIZE;
        let take = (CHUNK_SIZE - pos).min(end - at);
        #[allow(clippy::cast_possible_truncation)] // pos and take are at most 2^26, the index below 2^31
        let range = ChunkRange { index: (at / CHUNK_SIZE) as u32, pos: pos as u32, len: take as u32 };
        at += take;
        Some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_chunk_borders() {
        let all: Vec<_> = chunk_ranges(CHUNK_SIZE - 10, CHUNK_SIZE + 20).collect();
        assert_eq!(all.iter().map(|r| u64::from(r.len)).sum::<u64>(), CHUNK_SIZE + 20);
        assert_eq!(all[0], ChunkRange { index: 0, pos: (CHUNK_SIZE - 10) as u32, len: 10 });
        assert_eq!(all[2], ChunkRange { index: 2, pos: 0, len: 10 });
        assert_eq!(chunk_ranges(5, 0).count(), 0);
    }
}
