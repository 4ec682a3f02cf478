//! What a chunk shows: slice records in write order become sorted pieces that do not overlap. The later record
//! wins, an id-0 record or no record at all shows zeros. Source: volume format, reading a chunk. Knows nothing
//! of blocks, of the file's length (which clips what is shown here), or of where bytes come from.

use crate::limits::CHUNK_SIZE;
use crate::slice::SliceRecord;
use std::collections::BTreeMap;

/// What a chunk shows from its first byte to the end of the last record: sorted, without gaps and overlaps.
/// Zeros next to each other are one piece, with `size` and `off` 0. Nothing is said of what lies behind the last
/// piece: it is zeros. Parts of a record behind the end of the chunk are ignored.
#[must_use]
pub fn visible(records: &[SliceRecord]) -> Vec<SliceRecord> {
    let end = records.iter().map(|r| r.end().min(CHUNK_SIZE)).max().unwrap_or(0);
    fill(&paint(records), 0, end)
}

/// What the range `[pos, pos + len)` of a chunk shows, all of it: like [`visible`], cut to the range and with
/// zeros up to its end.
#[must_use]
pub fn visible_in(records: &[SliceRecord], pos: u32, len: u32) -> Vec<SliceRecord> {
    let start = u64::from(pos);
    let end = (start + u64::from(len)).min(CHUNK_SIZE);
    fill(&paint(records), start, end)
}

/// The part of a record that lies in `[start, end)`, which must meet it.
fn cut(record: &SliceRecord, start: u64, end: u64) -> SliceRecord {
    let from = start.max(u64::from(record.pos));
    let to = end.min(record.end());
    // Both ends lie inside a chunk, so the numbers fit.
    let (pos, len) = (low32(from), low32(to.saturating_sub(from)));
    if record.id.is_zeros() {
        return SliceRecord::zeros(pos, len);
    }
    let off = record.off.saturating_add(pos.saturating_sub(record.pos));
    SliceRecord { pos, id: record.id, size: record.size, off, len }
}

#[allow(clippy::cast_possible_truncation)] // offsets in a chunk are at most 2^26
fn low32(n: u64) -> u32 {
    n as u32
}

/// Pieces by their start, without overlaps; gaps are left out.
fn paint(records: &[SliceRecord]) -> BTreeMap<u64, SliceRecord> {
    let mut pieces: BTreeMap<u64, SliceRecord> = BTreeMap::new();
    for record in records {
        let start = u64::from(record.pos);
        let end = record.end().min(CHUNK_SIZE);
        if start >= end {
            continue;
        }
        let covered: Vec<u64> = pieces
            .range(..end)
            .rev()
            .take_while(|(_, piece)| piece.end() > start)
            .map(|(at, _)| *at)
            .collect();
        for at in covered {
            let Some(old) = pieces.remove(&at) else { continue };
            if at < start {
                pieces.insert(at, cut(&old, at, start));
            }
            if old.end() > end {
                pieces.insert(end, cut(&old, end, old.end()));
            }
        }
        pieces.insert(start, cut(record, start, end));
    }
    pieces
}

/// The pieces inside `[start, end)`, gaps filled with zeros.
fn fill(pieces: &BTreeMap<u64, SliceRecord>, start: u64, end: u64) -> Vec<SliceRecord> {
    let mut shown = Vec::new();
    if start >= end {
        return shown;
    }
    let first = pieces.range(..=start).next_back().map_or(start, |(at, _)| *at);
    let mut at = start;
    for piece in pieces.range(first..end).map(|(_, piece)| piece).filter(|p| p.end() > start) {
        let piece = cut(piece, start, end);
        let gap = u64::from(piece.pos).saturating_sub(at);
        push(&mut shown, SliceRecord::zeros(low32(at), low32(gap)));
        at = piece.end();
        push(&mut shown, piece);
    }
    push(&mut shown, SliceRecord::zeros(low32(at), low32(end.saturating_sub(at))));
    shown
}

/// Adds a piece, joining zeros with zeros.
fn push(shown: &mut Vec<SliceRecord>, piece: SliceRecord) {
    if piece.len == 0 {
        return;
    }
    match shown.last_mut() {
        Some(last) if last.id.is_zeros() && piece.id.is_zeros() => last.len += piece.len,
        _ => shown.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SliceId;
    use proptest::prelude::*;

    /// Scale between the small numbers of a test and the chunk, so that its end is met too.
    const UNIT: u32 = 1 << 20;
    const UNITS: usize = (CHUNK_SIZE / UNIT as u64) as usize;

    fn record(pos: u32, id: u64, size: u32, off: u32, len: u32) -> SliceRecord {
        SliceRecord { pos, id: SliceId(id), size, off, len }
    }

    #[test]
    fn the_example_of_the_format() {
        let records = [record(0, 5, 100, 0, 100), record(40, 0, 0, 0, 20), record(50, 6, 10, 0, 10)];
        assert_eq!(
            visible(&records),
            [
                record(0, 5, 100, 0, 40),
                SliceRecord::zeros(40, 10),
                record(50, 6, 10, 0, 10),
                record(60, 5, 100, 60, 40)
            ]
        );
    }

    #[test]
    fn nothing_shows_nothing_and_a_range_of_nothing_shows_zeros() {
        assert_eq!(visible(&[]), []);
        assert_eq!(visible_in(&[], 7, 5), [SliceRecord::zeros(7, 5)]);
        assert_eq!(visible_in(&[], 7, 0), []);
    }

    #[test]
    fn a_record_that_leaves_the_chunk_is_cut_and_breaks_nothing() {
        let end = CHUNK_SIZE as u32;
        let shown =
            visible(&[record(end - 5, 1, u32::MAX, u32::MAX - 2, u32::MAX), record(u32::MAX, 2, 9, 0, 9)]);
        assert_eq!(shown.last().map(SliceRecord::end), Some(CHUNK_SIZE));
    }

    /// Which byte of which slice a unit of the chunk shows; (0, 0) for zeros.
    fn bytes(records: &[SliceRecord]) -> Vec<(u64, u32)> {
        let mut shown = vec![(0, 0); UNITS];
        for r in records {
            for i in 0..r.len / UNIT {
                let at = (r.pos / UNIT + i) as usize;
                shown[at] = if r.id.is_zeros() { (0, 0) } else { (r.id.0, r.off + i * UNIT) };
            }
        }
        shown
    }

    prop_compose! {
        fn any_record()(pos in 0..UNITS as u32, len in 0..UNITS as u32, off in 0..8u32, id in 0..6u64) -> SliceRecord {
            let len = len.min(UNITS as u32 - pos);
            let off = off.min(UNITS as u32 - len);
            record(pos * UNIT, id, (off + len) * UNIT, off * UNIT, len * UNIT)
        }
    }

    proptest! {
        #[test]
        fn shows_what_a_byte_array_shows(
            records in proptest::collection::vec(any_record(), 0..40),
            pos in 0..UNITS as u32, len in 0..UNITS as u32,
        ) {
            let shown = visible(&records);
            prop_assert_eq!(bytes(&shown), bytes(&records));
            let mut at = 0;
            for piece in &shown {
                prop_assert!(piece.is_sound() && piece.len > 0);
                prop_assert_eq!(u64::from(piece.pos), at);
                at = piece.end();
            }
            prop_assert!(shown.windows(2).all(|w| !(w[0].id.is_zeros() && w[1].id.is_zeros())));

            let len = len.min(UNITS as u32 - pos);
            let part = visible_in(&records, pos * UNIT, len * UNIT);
            prop_assert_eq!(part.iter().map(|p| p.len).sum::<u32>(), len * UNIT);
            let range = pos as usize..(pos + len) as usize;
            prop_assert_eq!(&bytes(&part)[range.clone()], &bytes(&records)[range]);
        }
    }
}
