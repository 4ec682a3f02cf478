//! What a read shows: committed slices, with unflushed writes on top, up to the file's length. Everything at hand
//! is put together on the spot; what is missing is named, so that the slow way can fetch it and ask again.

use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;
use zest_data::block::{BlockRange, block_ranges};
use zest_data::{BlockId, PendingPiece, Piece};
use zest_types::limits::MAX_IO;
use zest_types::slice::chunk_ranges;
use zest_types::{Ino, SliceId};

static ZEROS: [u8; MAX_IO as usize] = [0; MAX_IO as usize];

/// What must be fetched before a read can be answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// Attributes of the file.
    Attr,
    /// Slice list of a chunk.
    Chunk(u32),
    /// Bytes of blocks.
    Blocks(Vec<Want>),
}

/// Bytes of a block that are not at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Chunk of the file whose list names the block.
    pub chunk: u32,
    /// The block.
    pub block: BlockId,
    /// Bytes of the whole block.
    pub block_len: u32,
    /// The bytes, within the block.
    pub range: Range<u32>,
}

/// What was fetched for this read: blocks, in case the cache does not keep them, and when it began.
#[derive(Default)]
pub struct Fetched {
    /// By block and place of the first byte in it.
    blocks: BTreeMap<(BlockId, u32), Bytes>,
    /// When the read began: records that were asked for since then will do for it, whether or not a lease holds.
    since: Option<Duration>,
    /// Where the file ended when the read began: a longer one, seen beside an older list, would show zeros.
    end: OnceLock<u64>,
}

impl Fetched {
    /// Nothing yet, for a read that begins now.
    #[must_use]
    pub fn since(mono: Duration) -> Fetched {
        Fetched { since: Some(mono), ..Fetched::default() }
    }

    /// Takes bytes of a block, from `start` on.
    pub fn insert(&mut self, block: BlockId, start: u32, data: Bytes) {
        self.blocks.insert((block, start), data);
    }

    /// Bytes of a block, as far as they were fetched in one piece.
    fn get(&self, block: BlockId, range: &Range<u32>) -> Option<Bytes> {
        self.blocks.range((block, 0)..=(block, range.start)).find_map(|((_, start), data)| {
            let from = (range.start - start) as usize;
            let to = (range.end - start) as usize;
            (to <= data.len()).then(|| data.slice(from..to))
        })
    }
}

/// What is looked for.
#[derive(Clone, Copy)]
enum Look {
    /// Bytes; a run of so many is all there is to the answer.
    Bytes {
        /// See above.
        alone: u64,
    },
    /// Only what is missing.
    Presence,
}

impl Shared {
    /// The bytes `[offset, offset + size)` of a file, fewer at its end, in pieces.
    pub fn read(&self, ino: Ino, offset: u64, size: u32, fetched: &Fetched) -> Result<Vec<Bytes>, Missing> {
        let file = self.files.get(ino);
        let (pending_end, pending) = match file.as_ref().and_then(|f| f.dirty_writer()) {
            Some(writer) => (writer.length().unwrap_or(0), writer.pending_pieces(offset, u64::from(size))),
            None => (0, Vec::new()),
        };
        let attr = self.views.attr(ino, self.mono());
        let attr = attr.or_else(|| self.views.attr_since(ino, fetched.since?)).ok_or(Missing::Attr)?;
        let length = attr.length.max(pending_end);
        let length = length.min(*fetched.end.get_or_init(|| length));
        if offset >= length {
            return Ok(Vec::new());
        }
        let len = u64::from(size).min(length - offset);
        if let [piece] = pending.as_slice()
            && piece.offset == offset
            && piece.data.len() as u64 >= len
        {
            return Ok(vec![piece.data.slice(..usize::try_from(len).unwrap_or(0))]);
        }
        // A run that is all of the answer goes to the kernel as it is.
        let alone = if pending.is_empty() { len } else { 0 };
        let stored = self.stored(ino, offset, len, fetched, Look::Bytes { alone })?;
        Ok(if pending.is_empty() { stored } else { vec![painted(&stored, offset, len, &pending)] })
    }

    /// What the committed slices show.
    fn stored(
        &self,
        ino: Ino,
        offset: u64,
        len: u64,
        fetched: &Fetched,
        look: Look,
    ) -> Result<Vec<Bytes>, Missing> {
        let mono = self.mono();
        let mut pieces = Vec::new();
        let mut missing = Vec::new();
        for range in chunk_ranges(offset, len) {
            let list = self.views.chunk(ino, range.index, mono);
            let list = list.or_else(|| self.views.chunk_since(ino, range.index, fetched.since?));
            let list = list.ok_or(Missing::Chunk(range.index))?;
            let view = self.chunk_views.flat(ino, range.index, &list);
            for piece in view.pieces(range.pos, range.len) {
                match piece {
                    Piece::Zeros { len } => zeros(len, &mut pieces),
                    Piece::Stored { slice, size, off, len } => {
                        let place = (range.index, slice, size);
                        self.stored_piece(place, (off, len), (fetched, look), &mut pieces, &mut missing);
                    }
                }
            }
        }
        if missing.is_empty() { Ok(pieces) } else { Err(Missing::Blocks(missing)) }
    }

    /// `place`: number of the chunk, the slice, and its size.
    fn stored_piece(
        &self,
        (chunk, slice, size): (u32, SliceId, u32),
        (off, len): (u32, u32),
        (fetched, look): (&Fetched, Look),
        pieces: &mut Vec<Bytes>,
        missing: &mut Vec<Want>,
    ) {
        for BlockRange { block, block_len, range } in
            block_ranges(slice, size, self.names.block_size, off, len)
        {
            if let Some(data) = fetched.get(block, &range) {
                pieces.push(data);
            } else if !self.tier.read(&block, &range, pieces)
                && !self.on_disk(block, block_len, &range, look, pieces)
            {
                missing.push(Want { chunk, block, block_len, range });
            }
        }
    }

    /// Bytes of a block in cache files, added to the pieces; or whether they are there.
    fn on_disk(
        &self,
        block: BlockId,
        block_len: u32,
        range: &Range<u32>,
        look: Look,
        pieces: &mut Vec<Bytes>,
    ) -> bool {
        let Some(disk) = &self.disk else { return false };
        match look {
            Look::Presence => disk.contains(block, block_len, range.clone()),
            Look::Bytes { alone } => {
                let alone = u64::from(range.end - range.start) == alone;
                let found = disk.read(block, block_len, range.clone(), alone);
                found.map(|bytes| pieces.push(bytes)).is_some()
            }
        }
    }

    /// Bytes of blocks that a range of a file shows and that are neither in memory nor in cache files; holes and unknown lists have none.
    pub fn missing_blocks(&self, ino: Ino, offset: u64, len: u64) -> Vec<Want> {
        match self.stored(ino, offset, len, &Fetched::default(), Look::Presence) {
            Err(Missing::Blocks(blocks)) => blocks,
            _ => Vec::new(),
        }
    }
}

fn zeros(len: u32, pieces: &mut Vec<Bytes>) {
    let mut left = len as usize;
    while left > 0 {
        let take = left.min(ZEROS.len());
        pieces.push(Bytes::from_static(ZEROS.split_at(take).0));
        left -= take;
    }
}

/// Stored pieces as one run, with unflushed pieces painted over it.
fn painted(stored: &[Bytes], offset: u64, len: u64, pending: &[PendingPiece]) -> Bytes {
    let mut out = BytesMut::with_capacity(usize::try_from(len).unwrap_or(0));
    stored.iter().for_each(|piece| out.extend_from_slice(piece));
    for piece in pending {
        let from = usize::try_from(piece.offset.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let take = piece.data.len().min(out.len() - from);
        out[from..from + take].copy_from_slice(&piece.data[..take]);
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unflushed_bytes_hide_stored_ones() {
        let stored = [Bytes::from_static(b"aaaa"), Bytes::from_static(b"bbbb")];
        let piece = |offset, data: &'static [u8]| PendingPiece { offset, data: Bytes::from_static(data) };
        let out = painted(&stored, 100, 8, &[piece(102, b"XYZ"), piece(107, b"!!")]);
        assert_eq!(&out[..], b"aaXYZbb!");
    }

    #[test]
    fn long_holes_are_cut_into_pieces() {
        let mut pieces = Vec::new();
        zeros(MAX_IO + 3, &mut pieces);
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [MAX_IO as usize, 3]);
        assert!(pieces.iter().flatten().all(|b| *b == 0));
    }
}
