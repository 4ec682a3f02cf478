//! One slice on its way from writes to the store: full blocks that never change again and a tail that grows.
//! Payload is copied once, into the tail; the tail's memory itself becomes the block that is uploaded and cached.

use crate::budget::Charge;
use bytes::Bytes;
use std::time::Duration;
use zest_types::limits::CHUNK_SIZE;
use zest_types::{SliceId, SliceRecord, Time};

/// Smallest tail, bytes.
const FIRST: usize = 4096;
/// A tail grows by this factor.
const GROWTH: usize = 4;

/// A slice that was not committed yet.
#[derive(Debug)]
pub(super) struct PendingSlice {
    pub id: SliceId,
    /// Number of the chunk.
    pub chunk: u32,
    /// First byte in the chunk.
    pub pos: u32,
    pub len: u32,
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
    /// An empty slice at `pos` of a chunk.
    pub fn new(id: SliceId, chunk: u32, pos: u32, mono: Duration, charge: Charge) -> PendingSlice {
        PendingSlice {
            id,
            chunk,
            pos,
            len: 0,
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

    /// One past the last byte in the chunk.
    pub fn end(&self) -> u32 {
        self.pos + self.len
    }

    /// One past the last byte in the file.
    pub fn file_end(&self) -> u64 {
        u64::from(self.chunk) * CHUNK_SIZE + u64::from(self.end())
    }

    /// Whether a write at `pos` of this chunk can go into the slice: it begins in the tail or right behind it.
    pub fn takes(&self, pos: u32) -> bool {
        let tail = self.end() - low32(self.tail.len());
        !self.sealed && (tail..=self.end()).contains(&pos)
    }

    /// Whether the slice shows any of `[pos, pos + len)` of its chunk.
    pub fn meets(&self, pos: u32, len: u32) -> bool {
        self.pos < pos.saturating_add(len) && pos < self.end()
    }

    /// Bytes of memory a write of `len` bytes at `pos` adds.
    pub fn growth(&self, pos: u32, len: u32, block_size: u32) -> u64 {
        let start = self.end() - low32(self.tail.len());
        let need = (pos + len).saturating_sub(start);
        growth(self.tail_room, self.blocks.is_empty(), need, block_size)
    }

    /// Copies a write that [`PendingSlice::takes`]; answers which blocks became full, as a range of `blocks`.
    pub fn write(&mut self, pos: u32, mut data: &[u8], block_size: u32) -> std::ops::Range<usize> {
        let full_before = self.blocks.len();
        let tail_start = self.end() - low32(self.tail.len());
        let at = (pos - tail_start) as usize;
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

    /// The record to commit.
    pub fn record(&self) -> SliceRecord {
        SliceRecord::whole(self.pos, self.id, self.len)
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
        let mut slice = PendingSlice::new(SliceId(1), 0, 0, Duration::ZERO, charge);
        assert!(slice.write(0, &[1; 100], BS).is_empty());
        assert_eq!(budget.used(), 4096);
        for (pos, len) in [(100, 4000), (50, 10), (4100, 3 * BS), (4100 + 3 * BS, 5)] {
            let more = budget.try_take(slice.growth(pos, len, BS)).unwrap();
            slice.charge.absorb(more);
            slice.write(pos, &vec![2; len as usize], BS);
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
