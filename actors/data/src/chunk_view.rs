//! What one chunk shows, ready to be asked often: the flattened list of its slice records, searched by position.
//! Knows nothing of the file's length, which clips what is shown here.

use zest_types::limits::CHUNK_SIZE;
use zest_types::overlay::visible;
use zest_types::{SliceId, SliceRecord};

#[allow(clippy::cast_possible_truncation)] // 2^26 fits
const CHUNK_END: u32 = CHUNK_SIZE as u32;

/// The next bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Nothing is stored here.
    Zeros {
        /// How many bytes.
        len: u32,
    },
    /// Stored bytes `[off, off + len)` of a slice that has `size` bytes.
    Stored {
        /// The slice.
        slice: SliceId,
        /// Bytes of the whole slice.
        size: u32,
        /// First byte of the slice that shows.
        off: u32,
        /// How many bytes.
        len: u32,
    },
}

impl Piece {
    /// How many bytes; at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // pieces are never empty
    pub fn len(&self) -> u32 {
        match *self {
            Piece::Zeros { len } | Piece::Stored { len, .. } => len,
        }
    }
}

/// Visible pieces of a chunk, in order, without gaps from its start to the last record's end; zeros behind that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkView {
    pieces: Vec<SliceRecord>,
}

impl ChunkView {
    /// Flattens records, oldest first.
    #[must_use]
    pub fn new(records: &[SliceRecord]) -> ChunkView {
        ChunkView { pieces: visible(records) }
    }

    /// How many pieces there are: a measure of how much the chunk wants to be compacted, and of memory.
    #[must_use]
    pub fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// What `[pos, pos + len)` of the chunk shows: pieces in order that together have exactly `len` bytes, or
    /// fewer where the chunk ends before.
    pub fn pieces(&self, pos: u32, len: u32) -> impl Iterator<Item = Piece> + '_ {
        let end = pos.saturating_add(len).min(CHUNK_END);
        let mut rest = self.pieces.get(self.first_behind(pos)..).unwrap_or_default().iter();
        let mut at = pos;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let Some(record) = rest.next() else {
                let len = end - at;
                at = end;
                return Some(Piece::Zeros { len });
            };
            let skipped = at - record.pos;
            let len = (record.len - skipped).min(end - at);
            at += len;
            Some(if record.id.is_zeros() {
                Piece::Zeros { len }
            } else {
                Piece::Stored { slice: record.id, size: record.size, off: record.off + skipped, len }
            })
        })
    }

    /// First position at or behind `pos` where stored bytes show.
    #[must_use]
    pub fn next_data(&self, pos: u32) -> Option<u32> {
        let rest = self.pieces.get(self.first_behind(pos)..).unwrap_or_default();
        rest.iter().find(|piece| !piece.id.is_zeros()).map(|piece| piece.pos.max(pos))
    }

    /// First position at or behind `pos` where zeros show that are not stored; the chunk's end when there is
    /// none in it.
    #[must_use]
    pub fn next_hole(&self, pos: u32) -> u32 {
        let rest = self.pieces.get(self.first_behind(pos)..).unwrap_or_default();
        let behind_all = self.pieces.last().map_or(0, |last| last.pos + last.len);
        let hole = rest.iter().find(|piece| piece.id.is_zeros()).map_or(behind_all, |piece| piece.pos);
        hole.max(pos)
    }

    /// Index of the first piece that ends behind `pos`.
    fn first_behind(&self, pos: u32) -> usize {
        self.pieces.partition_point(|piece| piece.end() <= u64::from(pos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(pos: u32, id: u64, len: u32) -> SliceRecord {
        SliceRecord { pos, id: SliceId(id), size: len + 7, off: 7, len }
    }

    #[test]
    fn data_and_holes_are_found() {
        let view = ChunkView::new(&[record(10, 1, 10), SliceRecord::zeros(12, 3), record(100, 2, 5)]);
        assert_eq!(view.next_data(0), Some(10));
        assert_eq!(view.next_data(12), Some(15));
        assert_eq!(view.next_data(104), Some(104));
        assert_eq!(view.next_data(105), None);
        assert_eq!([view.next_hole(0), view.next_hole(10), view.next_hole(15)], [0, 12, 20]);
        assert_eq!(
            [view.next_hole(102), view.next_hole(105), view.next_hole(CHUNK_END)],
            [105, 105, CHUNK_END]
        );
        let full = ChunkView::new(&[SliceRecord::whole(0, SliceId(1), CHUNK_END)]);
        assert_eq!((full.next_hole(3), full.next_data(CHUNK_END)), (CHUNK_END, None));
    }

    #[test]
    fn an_empty_chunk_shows_zeros_and_nothing_lies_behind_its_end() {
        let view = ChunkView::new(&[]);
        assert_eq!(view.pieces(5, 9).collect::<Vec<_>>(), [Piece::Zeros { len: 9 }]);
        assert_eq!(view.pieces(CHUNK_END - 2, 9).collect::<Vec<_>>(), [Piece::Zeros { len: 2 }]);
        assert_eq!(view.pieces(u32::MAX, 9).count(), 0);
        assert_eq!((view.next_data(0), view.next_hole(0)), (None, 0));
    }

    /// One byte of a chunk: slice and offset in it.
    fn paint(records: &[SliceRecord]) -> Vec<(u64, u32)> {
        let mut bytes = vec![(0, 0); 400];
        for r in records {
            for i in 0..r.len {
                bytes[(r.pos + i) as usize] = if r.id.is_zeros() { (0, 0) } else { (r.id.0, r.off + i) };
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn pieces_show_what_was_painted(
            raw in prop::collection::vec((0u32..200, 0u64..6, 1u32..100), 0..12),
            pos in 0u32..300,
            len in 0u32..100,
        ) {
            let records: Vec<_> = raw.iter().map(|&(pos, id, len)| record(pos, id, len)).collect();
            let painted = paint(&records);
            let view = ChunkView::new(&records);
            let mut shown = Vec::new();
            for piece in view.pieces(pos, len) {
                prop_assert!(piece.len() > 0);
                match piece {
                    Piece::Zeros { len } => shown.extend((0..len).map(|_| (0, 0))),
                    Piece::Stored { slice, off, len, .. } => shown.extend((0..len).map(|i| (slice.0, off + i))),
                }
            }
            prop_assert_eq!(&shown[..], &painted[pos as usize..(pos + len) as usize]);
            let from = |data: bool| {
                (pos..400).find(|at| (painted[*at as usize].0 != 0) == data)
            };
            prop_assert_eq!(view.next_data(pos), from(true));
            prop_assert_eq!(Some(view.next_hole(pos)), from(false));
        }
    }
}
