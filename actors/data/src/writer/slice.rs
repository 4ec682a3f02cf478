//! One slice on its way from writes to the store: full blocks that never change again and a tail that grows.
//! Payload is copied once, into the tail; the tail's memory itself becomes the block that is uploaded and cached.
//! A stream of writes is one place in the file. Small writes here and there share a slice of one block: it shows in as
//! many places, the later ones on top, and only the newest place grows.

use crate::budget::Charge;
use bytes::Bytes;
use std::time::Duration;
use zest_types::limits::{CHUNK_SIZE, PACKED_WRITE, SLICE_PARTS};
use zest_types::slice::ChunkRange;
use zest_types::{Placed, SliceId, SliceRecord, Time};

/// Smallest tail, bytes.
const FIRST: usize = 4096;
/// A tail grows by this factor.
const GROWTH: usize = 4;

/// A place in the file where bytes of a slice show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Number of the chunk.
    pub chunk: u32,
    /// First byte in the chunk.
    pub pos: u32,
    /// First byte in the slice.
    pub off: u32,
    pub len: u32,
}

impl Part {
    /// One past the last byte in the chunk.
    pub fn end(&self) -> u32 {
        self.pos + self.len
    }

    /// Whether it shows any of `[pos, pos + len)` of its chunk.
    pub fn meets(&self, pos: u32, len: u32) -> bool {
        self.pos < pos.saturating_add(len) && pos < self.end()
    }
}

/// A slice that was not committed yet.
#[derive(Debug)]
pub(super) struct PendingSlice {
    pub id: SliceId,
    /// Where it shows, in the order in which that was written; at least one place.
    pub parts: Vec<Part>,
    pub len: u32,
    /// One past the last byte in the file.
    pub file_end: u64,
    /// Full blocks, and the last one too once the slice is sealed.
    pub blocks: Vec<Bytes>,
    /// Bytes of the block that is not full.
    pub tail: Vec<u8>,
    /// Bytes the tail is charged for.
    tail_room: usize,
    pub sealed: bool,
    /// Time of the last write.
    pub mtime: Time,
    /// When the first and the last write came, on the monotonic clock.
    pub born: Duration,
    pub touched: Duration,
    pub charge: Charge,
}

impl PendingSlice {
    /// An empty slice.
    pub fn new(id: SliceId, mono: Duration, charge: Charge) -> PendingSlice {
        PendingSlice {
            id,
            parts: Vec::new(),
            len: 0,
            file_end: 0,
            blocks: Vec::new(),
            tail: Vec::new(),
            tail_room: 0,
            sealed: false,
            mtime: Time::default(),
            born: mono,
            touched: mono,
            charge,
        }
    }

    /// Where in the slice a write at this place of the file goes, if it goes on with the newest part: it begins in the
    /// tail or right behind it. One that shares its slice with others ends with the block.
    pub fn takes(&self, range: ChunkRange, block_size: u32) -> Option<u32> {
        let last = self.parts.last().filter(|last| !self.sealed && last.chunk == range.index)?;
        let tail = self.len - low32(self.tail.len());
        let begin = last.pos + tail.saturating_sub(last.off);
        let at = last.off + (range.pos.checked_sub(last.pos)?);
        let fits = self.parts.len() == 1 || at + range.len <= block_size;
        (fits && (begin..=last.end()).contains(&range.pos)).then_some(at)
    }

    /// Whether a write elsewhere may share the slice, which then has one block.
    pub fn shares(&self, range: ChunkRange, block_size: u32) -> bool {
        let room = self.blocks.is_empty() && self.len + range.len <= block_size;
        !self.sealed && room && range.len <= PACKED_WRITE && self.parts.len() < SLICE_PARTS
    }

    /// Whether nothing more can be written to it.
    pub fn is_complete(&self, block_size: u32) -> bool {
        match self.parts.as_slice() {
            [] => false,
            [only] => u64::from(only.end()) == CHUNK_SIZE,
            parts => self.len >= block_size || parts.len() >= SLICE_PARTS,
        }
    }

    /// Bytes of memory a write of `len` bytes at `at` of the slice adds.
    pub fn growth(&self, at: u32, len: u32, block_size: u32) -> u64 {
        let start = self.len - low32(self.tail.len());
        let need = (at + len).saturating_sub(start);
        growth(self.tail_room, self.blocks.is_empty(), need, block_size)
    }

    /// Copies a write that [`PendingSlice::takes`] at `at`, or one that begins a new part at the slice's end; answers
    /// which blocks became full, as a range of `blocks`.
    pub fn write(
        &mut self,
        at: u32,
        range: ChunkRange,
        mut data: &[u8],
        block_size: u32,
    ) -> std::ops::Range<usize> {
        let full_before = self.blocks.len();
        self.place(at, range);
        let at = (at - (self.len - low32(self.tail.len()))) as usize;
        let over = data.len().min(self.tail.len() - at);
        let (inside, behind) = data.split_at(over);
        self.tail[at..at + over].copy_from_slice(inside);
        data = behind;
        self.len += low32(data.len());
        while !data.is_empty() {
            let room = block_size as usize - self.tail.len();
            let (now, later) = data.split_at(room.min(data.len()));
            let need = self.tail.len() + now.len();
            self.make_room(need, block_size as usize);
            self.tail.extend_from_slice(now);
            data = later;
            if self.tail.len() == block_size as usize {
                self.close_tail(block_size);
            }
        }
        full_before..self.blocks.len()
    }

    /// Gives the tail the memory it was charged for. Whole blocks are buffers from the pool.
    fn make_room(&mut self, need: usize, block_size: usize) {
        let room = room_for(self.tail_room, self.blocks.is_empty(), need, block_size);
        if room == self.tail_room {
            return;
        }
        self.tail_room = room;
        if room < block_size {
            self.tail.reserve_exact(room - self.tail.len());
        } else {
            let mut buffer = self.charge.pool().take(block_size);
            buffer.extend_from_slice(&self.tail);
            self.tail = buffer;
        }
    }

    /// Nothing is added from here on: what was the tail is the last, short block.
    pub fn seal(&mut self, block_size: u32) {
        self.sealed = true;
        let (len, room) = (self.tail.len(), self.tail_room);
        if len == 0 {
            return;
        }
        if room < block_size as usize {
            self.tail.shrink_to_fit();
        } else if len < room - room / 4 {
            // Caches count a block by its length: a buffer that is not nearly full does not stay with it.
            let exact = self.tail.as_slice().to_vec();
            self.charge.pool().give_back(std::mem::replace(&mut self.tail, exact));
        }
        let surplus = room.saturating_sub(self.tail.capacity()) as u64;
        self.charge.shrink_to(self.charge.bytes().saturating_sub(surplus));
        self.close_tail(block_size);
    }

    fn close_tail(&mut self, block_size: u32) {
        let data = std::mem::take(&mut self.tail);
        let pooled = data.capacity() == block_size as usize;
        self.blocks.push(if pooled { self.charge.pool().block(data) } else { Bytes::from(data) });
        self.tail_room = 0;
    }

    /// The newest part grows, or another begins.
    fn place(&mut self, at: u32, range: ChunkRange) {
        let ChunkRange { index: chunk, pos, len } = range;
        let goes_on =
            |last: &&mut Part| last.chunk == chunk && last.off.checked_add(pos) == at.checked_add(last.pos);
        match self.parts.last_mut().filter(goes_on) {
            Some(last) => last.len = last.len.max(pos + len - last.pos),
            None => self.parts.push(Part { chunk, pos, off: at, len }),
        }
        self.file_end = self.file_end.max(u64::from(chunk) * CHUNK_SIZE + u64::from(pos + len));
    }

    /// The records to commit.
    pub fn records(&self) -> Vec<Placed> {
        let record = |part: &Part| {
            let (id, size) = (self.id, self.len);
            Placed {
                index: part.chunk,
                record: SliceRecord { pos: part.pos, id, size, off: part.off, len: part.len },
            }
        };
        self.parts.iter().map(record).collect()
    }
}

/// Bytes of memory a new slice needs for a write of `len` bytes.
pub(super) fn new_growth(len: u32, block_size: u32) -> u64 {
    growth(0, true, len, block_size)
}

/// Bytes to add for blocks that begin with a tail of `room` bytes and shall hold `need` bytes.
fn growth(room: usize, first: bool, need: u32, block_size: u32) -> u64 {
    let (mut first, mut room, mut need, mut sum) = (first, room, need as usize, 0);
    let block_size = block_size as usize;
    while need > 0 {
        let here = need.min(block_size);
        sum += room_for(room, first, here, block_size) - room;
        need -= here;
        (room, first) = (0, false);
    }
    sum as u64
}

/// Bytes a tail gets that has `room` and needs `need`: little at first, since many slices stay small; a whole
/// block at once where a block went before, since that is a stream.
fn room_for(room: usize, first: bool, need: usize, block_size: usize) -> usize {
    if need <= room {
        room
    } else if first {
        need.next_power_of_two().max(room * GROWTH).max(FIRST).min(block_size)
    } else {
        block_size
    }
}

#[allow(clippy::cast_possible_truncation)] // lengths inside a chunk are at most 2^26
fn low32(n: usize) -> u32 {
    n as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;

    const BS: u32 = 64 << 10;

    #[test]
    fn memory_charged_is_memory_used() {
        let budget = Budget::new(1 << 30);
        let charge = budget.try_take(new_growth(100, BS)).unwrap();
        let mut slice = PendingSlice::new(SliceId(1), Duration::ZERO, charge);
        let range = |pos, len| ChunkRange { index: 0, pos, len };
        assert!(slice.write(0, range(0, 100), &[1; 100], BS).is_empty());
        assert_eq!(budget.used(), 4096);
        for (pos, len) in [(100, 4000), (50, 10), (4100, 3 * BS), (4100 + 3 * BS, 5)] {
            let more = budget.try_take(slice.growth(pos, len, BS)).unwrap();
            slice.charge.absorb(more);
            slice.write(pos, range(pos, len), &vec![2; len as usize], BS);
            let held = slice.blocks.len() * BS as usize + slice.tail.capacity();
            assert_eq!(budget.used(), held as u64, "after a write at {pos}");
        }
        slice.seal(BS);
        assert_eq!(budget.used(), u64::from(slice.len));
        assert_eq!(slice.blocks.iter().map(Bytes::len).sum::<usize>(), slice.len as usize);
        drop(slice);
        assert_eq!(budget.used(), 0);
    }
}
