//! What reads see of writes that are not committed yet: the newest of them wins, byte by byte.

use super::slice::{Part, PendingSlice};
use bytes::Bytes;
use zest_types::limits::CHUNK_SIZE;
use zest_types::slice::{ChunkRange, chunk_ranges};
use zest_world::planted::{Bug, active};

/// Unflushed bytes that hide what is stored below them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPiece {
    /// First byte in the file.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
}

/// Unflushed bytes in `[offset, offset + len)`, sorted, without overlaps. `slices` are in the order they began.
///
/// A later slice wins over an earlier one, and in a slice a later part: the writer never puts a write into one that
/// another overlaps since.
pub(super) fn pieces<'a, I>(slices: I, offset: u64, len: u64) -> Vec<PendingPiece>
where
    I: DoubleEndedIterator<Item = &'a PendingSlice> + Clone,
{
    let mut found = Vec::new();
    if active(Bug::UnflushedReadMissed) {
        return found;
    }
    for range in chunk_ranges(offset, len) {
        pieces_of_chunk(slices.clone(), range, &mut found);
    }
    found.sort_unstable_by_key(|piece| piece.offset);
    found
}

fn pieces_of_chunk<'a>(
    slices: impl DoubleEndedIterator<Item = &'a PendingSlice>,
    range: ChunkRange,
    found: &mut Vec<PendingPiece>,
) {
    let mut gaps = vec![(range.pos, range.pos + range.len)];
    let parts = slices.rev().flat_map(|slice| slice.parts.iter().rev().map(move |part| (slice, part)));
    for (slice, part) in
        parts.filter(|(_, part)| part.chunk == range.index && part.meets(range.pos, range.len))
    {
        let mut left = Vec::with_capacity(gaps.len() + 1);
        for (from, to) in gaps {
            let (start, end) = (from.max(part.pos), to.min(part.end()));
            if start >= end {
                left.push((from, to));
                continue;
            }
            copy_out(slice, part, (start, end), found);
            left.extend([(from, start), (end, to)].into_iter().filter(|(from, to)| from < to));
        }
        gaps = left;
        if gaps.is_empty() {
            return;
        }
    }
}

/// Bytes `[start, end)` of the chunk, which the part shows: full blocks by reference, the tail by copy.
fn copy_out(slice: &PendingSlice, part: &Part, (start, end): (u32, u32), found: &mut Vec<PendingPiece>) {
    let base = u64::from(part.chunk) * CHUNK_SIZE + u64::from(start);
    // From here on places in the slice.
    let (start, end) = ((part.off + (start - part.pos)) as usize, (part.off + (end - part.pos)) as usize);
    let mut at = 0;
    let mut emit = |at: usize, len: usize, cut: &dyn Fn(usize, usize) -> Bytes| {
        let (from, to) = (start.max(at), end.min(at + len));
        if from < to {
            found.push(PendingPiece { offset: base + (from - start) as u64, data: cut(from - at, to - at) });
        }
    };
    for block in &slice.blocks {
        emit(at, block.len(), &|from, to| block.slice(from..to));
        at += block.len();
    }
    emit(at, slice.tail.len(), &|from, to| Bytes::copy_from_slice(&slice.tail[from..to]));
}
