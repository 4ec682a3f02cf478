//! What a read shows: committed slices, with unflushed writes on top, up to the file's length. Everything at hand
//! is put together on the spot; what is missing is named, so that the slow way can fetch it and ask again.

use crate::shared::Shared;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
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
    /// Blocks, each with its length.
    Blocks(Vec<(BlockId, u32)>),
}

/// What was fetched for this read: blocks, in case the cache does not keep them, and when it began.
#[derive(Default)]
pub struct Fetched {
    blocks: BTreeMap<BlockId, Bytes>,
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

    /// Takes a block.
    pub fn insert(&mut self, block: BlockId, data: Bytes) {
        self.blocks.insert(block, data);
    }
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
        let stored = self.stored(ino, offset, len, fetched)?;
        Ok(if pending.is_empty() { stored } else { vec![painted(&stored, offset, len, &pending)] })
    }

    /// What the committed slices show.
    fn stored(&self, ino: Ino, offset: u64, len: u64, fetched: &Fetched) -> Result<Vec<Bytes>, Missing> {
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
                        self.stored_piece(slice, size, off, len, fetched, &mut pieces, &mut missing);
                    }
                }
            }
        }
        if missing.is_empty() { Ok(pieces) } else { Err(Missing::Blocks(missing)) }
    }

    #[allow(clippy::too_many_arguments)]
    fn stored_piece(
        &self,
        slice: SliceId,
        size: u32,
        off: u32,
        len: u32,
        fetched: &Fetched,
        pieces: &mut Vec<Bytes>,
        missing: &mut Vec<(BlockId, u32)>,
    ) {
        for BlockRange { block, block_len, range } in
            block_ranges(slice, size, self.names.block_size, off, len)
        {
            let data = fetched.blocks.get(&block).cloned().or_else(|| self.tier.get(&block));
            match data {
                Some(data) if data.len() >= range.end as usize => {
                    pieces.push(data.slice(range.start as usize..range.end as usize));
                }
                _ => missing.push((block, block_len)),
            }
        }
    }

    /// Blocks that hold the stored bytes of a range and are not in memory; holes and unknown lists have none.
    pub fn missing_blocks(&self, ino: Ino, offset: u64, len: u64) -> Vec<(BlockId, u32)> {
        match self.stored(ino, offset, len, &Fetched::default()) {
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
