//! Ranges of a file that shall show zeros, as writes to its chunk lists. A range may span more chunks than a
//! change set may touch, most of them without a list and thus zeros already: then a scan tells which have one.

use super::draft::Draft;
use crate::change::Write;
use crate::key::{Key, Scan};
use crate::snapshot::{Snapshot, Stop};
use zest_types::limits::CHUNK_SIZE;
use zest_types::{Errno, Ino, SliceRecord, limits};

/// Chunk lists one change set zeroes at most.
pub const STEP: usize = limits::CHANGE_SET_MAX / 4;

/// The chunk a file offset lies in.
pub fn index_of(offset: u64) -> Result<u32, Errno> {
    u32::try_from(offset / CHUNK_SIZE).map_err(|_| Errno::EFBIG)
}

/// The file offset a chunk begins at.
pub fn start_of(index: u32) -> u64 {
    u64::from(index) * CHUNK_SIZE
}

/// Chunks that may have a list.
pub struct Lists {
    /// Their numbers, rising.
    pub indices: Vec<u32>,
    /// Whether these are all in the range; otherwise more follow behind the last one.
    pub complete: bool,
    /// Whether they come from a scan, so that one made meanwhile may be missing.
    pub scanned: bool,
}

/// Chunks in `[from, below)` that may have a list, at most [`STEP`].
pub fn lists(ino: Ino, from: u32, below: u32, snapshot: &Snapshot) -> Result<Lists, Stop> {
    let width = below.saturating_sub(from) as usize;
    if width <= STEP {
        return Ok(Lists { indices: (from..below).collect(), complete: true, scanned: false });
    }
    let found = snapshot.scan(&Scan::Chunks { ino, from, limit: STEP })?;
    let index = |key: &Key| match key {
        Key::Chunk(_, index) => Some(*index),
        _ => None,
    };
    let mut indices: Vec<u32> = found.iter().filter_map(|(key, _)| index(key)).collect();
    let all = indices.len();
    indices.retain(|index| *index < below);
    let complete = all < STEP || indices.len() < all;
    Ok(Lists { indices, complete, scanned: true })
}

/// Zeros over the part of `[start, end)` that lies in these chunks, where they have a list.
pub fn zero_lists(draft: &mut Draft, ino: Ino, indices: &[u32], start: u64, end: u64) {
    for index in indices {
        if let Some(record) = zeros_in(*index, start, end) {
            draft.write(Write::AppendIfPresent(ino, *index, vec![record]));
        }
    }
}

/// The record that zeroes the part of `[start, end)` in one chunk, if there is a part.
pub fn zeros_in(index: u32, start: u64, end: u64) -> Option<SliceRecord> {
    let base = start_of(index);
    let from = start.max(base) - base;
    let to = end.min(base + CHUNK_SIZE).checked_sub(base)?;
    let len = to.checked_sub(from).filter(|len| *len > 0)?;
    Some(SliceRecord::zeros(u32::try_from(from).ok()?, u32::try_from(len).ok()?))
}
