//! Which records at the beginning of a chunk list are worth being written anew as one slice. Pure, and asked by
//! whoever reads the pieces and uploads the new slice; how the list changes then is a rule's business. Source:
//! volume format, compaction.

use std::collections::BTreeSet;
use zest_types::overlay::visible;
use zest_types::{SliceRecord, limits};

/// A record at the front is left alone from this length on, if the rest is not much larger.
const WORTH_SKIPPING: u32 = 1 << 20;
/// More records than this are compacted whatever it costs, once somebody asks for it.
const MANY: usize = 350;
/// A writer of more than this asks, however little they show.
const VERY_MANY: usize = 2500;
/// Few records that would be stored as this many times their bytes, since they lie far apart, stay as they are.
const SPARSE: u64 = 8;

/// What to compact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Records of the list that are concerned: those left alone in front, and those replaced.
    pub seen: Vec<SliceRecord>,
    /// How many of them are left alone.
    pub skipped: usize,
    /// Where the new slice begins in the chunk.
    pub pos: u32,
    /// Its length.
    pub size: u32,
    /// What it consists of, one behind the other; holes are written as zeros.
    pub pieces: Vec<SliceRecord>,
}

/// Whether a commit that leaves this list, the last records of it `added`, asks for it: now and then, as long as there
/// are few; of many records when as much was written as makes rewriting the chunk worth it.
#[must_use]
pub fn after_write(list: &[SliceRecord], added: usize) -> bool {
    let records = list.len();
    let again = (records + 1) / 100 > (records.saturating_sub(added) + 1) / 100;
    let written = || list.iter().skip(1).map(|record| u64::from(record.len)).sum::<u64>();
    before_going_on(records)
        || again && (records <= MANY || records >= VERY_MANY || written() >= limits::CHUNK_SIZE / 4)
}

/// Whether a write that leaves so many records waits for it: nobody reads a list for ever.
#[must_use]
pub fn before_going_on(records: usize) -> bool {
    records >= limits::COMPACT_RECORDS
}

/// Whether reading a list asks for it.
#[must_use]
pub fn after_read(records: usize) -> bool {
    records >= 5
}

/// Chooses from a list; `None` when there is nothing to gain.
#[must_use]
pub fn choose(list: &[SliceRecord]) -> Option<Choice> {
    let seen = list.get(..at_once(list))?;
    let mut skipped = 0;
    loop {
        let rest = seen.get(skipped..)?;
        let (first, later) = rest.split_first()?;
        if later.is_empty() {
            return None;
        }
        let (pieces, size) = result(rest);
        if size > 0 && may_skip(first, later, pieces.first()?, size) {
            skipped += 1;
            continue;
        }
        if seen.len() <= MANY && is_sparse(&pieces, size) {
            return None;
        }
        let pos = pieces.first()?.pos;
        return (size > 0).then(|| Choice { seen: seen.to_vec(), skipped, pos, size, pieces });
    }
}

/// How many records one compaction looks at.
fn at_once(list: &[SliceRecord]) -> usize {
    let mut slices = BTreeSet::new();
    let fits = |record: &&SliceRecord| {
        slices.insert(record.id);
        slices.len() <= limits::COMPACT_SLICES
    };
    list.iter().take(limits::COMPACT_RECORDS).take_while(fits).count()
}

/// Whether most of what would be written are zeros, and not few.
fn is_sparse(pieces: &[SliceRecord], size: u32) -> bool {
    let shown = pieces.iter().filter(|piece| !piece.id.is_zeros()).map(|piece| u64::from(piece.len));
    size > WORTH_SKIPPING && shown.sum::<u64>() * SPARSE < u64::from(size)
}

/// A long record that shows whole in front of all others, and is no small part of what would be written.
fn may_skip(first: &SliceRecord, later: &[SliceRecord], shown: &SliceRecord, size: u32) -> bool {
    let whole = (shown.pos, shown.id, shown.off, shown.len) == (first.pos, first.id, first.off, first.len);
    let long = first.len >= WORTH_SKIPPING && u64::from(first.len) * 5 >= u64::from(size);
    whole && long && !later.contains(first)
}

/// What records show together, without holes at both ends, and its length.
fn result(records: &[SliceRecord]) -> (Vec<SliceRecord>, u32) {
    let mut pieces = visible(records);
    while pieces.len() > 1 && pieces.first().is_some_and(|piece| piece.id.is_zeros()) {
        pieces.remove(0);
    }
    while pieces.len() > 1 && pieces.last().is_some_and(|piece| piece.id.is_zeros()) {
        pieces.pop();
    }
    // Nothing but zeros: one of them, where a record has it. In front of all records may be what was left alone.
    if let ([only], Some(first)) = (pieces.as_mut_slice(), records.first())
        && only.id.is_zeros()
    {
        only.pos = only.pos.max(first.pos);
        only.len = only.len.min(1);
    }
    let size = pieces.iter().map(|piece| piece.len).sum();
    (pieces, size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zest_types::SliceId;

    fn slice(pos: u32, id: u64, len: u32) -> SliceRecord {
        SliceRecord::whole(pos, SliceId(id), len)
    }

    #[test]
    fn small_records_become_one_and_a_long_one_stays() {
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[slice(0, 1, 100)]), None);
        let two = [slice(0, 1, 100), slice(50, 2, 100)];
        let choice = choose(&two).unwrap();
        assert_eq!((choice.skipped, choice.pos, choice.size, choice.pieces.len()), (0, 0, 150, 2));

        let long = slice(0, 1, 2 << 20);
        let behind = [long, slice(2 << 20, 2, 10), slice((2 << 20) + 20, 3, 10)];
        let choice = choose(&behind).unwrap();
        assert_eq!((choice.skipped, choice.pos, choice.size), (1, 2 << 20, 30));
        assert_eq!(choice.pieces.len(), 3, "the hole between is written as zeros");
        // Painted over, or few among many: it is written anew.
        assert_eq!(choose(&[long, slice(5, 2, 10)]).unwrap().skipped, 0);
        assert_eq!(choose(&[long, slice(2 << 20, 2, 20 << 20), slice(22 << 20, 3, 9)]).unwrap().skipped, 0);
        // Twice the same record: one of the two must go.
        assert_eq!(choose(&[long, slice(2 << 20, 2, 9), long]).unwrap().skipped, 0);
        assert_eq!(choose(&[long, slice(2 << 20, 2, 10)]), None, "one record is left");
    }

    #[test]
    fn few_records_far_apart_stay_as_they_are() {
        let apart =
            |n: u32| (0..n).map(|at| slice(at * 150_000, u64::from(at) + 1, 4096)).collect::<Vec<_>>();
        assert_eq!(choose(&apart(5)).map(|choice| choice.size), Some(4 * 150_000 + 4096), "less than 1 MiB");
        assert_eq!(choose(&apart(40)), None);
        assert!(choose(&apart(351)).is_some(), "too many to be looked through");
    }

    #[test]
    fn zeros_behind_a_long_record_do_not_paint_over_it() {
        let long = slice(0, 1, 2 << 20);
        let zeros = |pos| SliceRecord::zeros(pos, 1000);
        for rest in [[zeros(2 << 20), zeros(3 << 20)], [zeros(3 << 20), zeros(2 << 20)]] {
            let choice = choose(&[&[long][..], &rest].concat()).unwrap();
            assert_eq!((choice.skipped, choice.size), (1, 1));
            assert!(choice.pos >= 2 << 20, "{choice:?}");
        }
    }

    #[test]
    fn writers_ask_now_and_then_and_readers_soon() {
        let asks = |len: u32, added: usize| {
            let list: Vec<SliceRecord> = (0..9000).map(|at| slice(at, u64::from(at) + 1, len)).collect();
            let asks = (0..list.len()).step_by(added).filter(|n| after_write(&list[..*n], added));
            asks.map(|n| n / 100 * 100).collect::<BTreeSet<_>>()
        };
        let small = asks(10, 1);
        assert_eq!(small.iter().take(5).copied().collect::<Vec<_>>(), [0, 100, 200, 2500, 2600]);
        assert_eq!(asks(10, 1000).into_iter().collect::<Vec<_>>(), [3000, 4000, 5000, 6000, 7000, 8000]);
        assert_eq!(asks(128 << 10, 1).into_iter().take(5).collect::<Vec<_>>(), [0, 100, 200, 300, 400]);
        let list = vec![slice(0, 1, 10); limits::COMPACT_RECORDS];
        assert!(after_write(&list, 1) && before_going_on(list.len()) && !before_going_on(list.len() - 1));
        assert!(!after_read(4) && after_read(5));
    }

    #[test]
    fn one_compaction_looks_at_so_many_records_and_slices() {
        let packed = |n: u64| slice(0, n / 100 + 1, 10);
        let list: Vec<SliceRecord> = (0..10_000).map(packed).collect();
        assert_eq!(choose(&list).unwrap().seen.len(), limits::COMPACT_RECORDS);
        let list: Vec<SliceRecord> = (1..3000).map(|id| slice(0, id, 10)).collect();
        assert_eq!(choose(&list).unwrap().seen.len(), limits::COMPACT_SLICES);
    }

    #[test]
    fn holes_at_both_ends_are_left_out() {
        let list = [SliceRecord::zeros(0, 1000), slice(100, 1, 10), SliceRecord::zeros(300, 50)];
        let choice = choose(&list).unwrap();
        assert_eq!((choice.pos, choice.size, choice.pieces.len()), (100, 10, 1));
        let only = [SliceRecord::zeros(7, 100), SliceRecord::zeros(0, 50)];
        assert_eq!(choose(&only).unwrap().size, 1);
    }

    proptest! {
        /// Whatever is chosen shows the same afterwards, and skipped records are not touched by it.
        #[test]
        fn the_chunk_shows_the_same(
            parts in prop::collection::vec((0..200u32, 0..4u64, 1..120u32, any::<bool>()), 0..12),
            front in prop::option::of(1..20u32),
            only_zeros in any::<bool>(),
        ) {
            let mega = |long: bool| if long { 1 << 17 } else { 1 };
            // Perhaps a long record in front of all others.
            let begin = front.map_or(0, |len| len << 20);
            let front = front.map(|len| slice(0, 7777, len << 20));
            let rest = parts.iter().map(|(pos, id, len, long)| {
                let (pos, len) = (begin + pos * 1000, len * mega(*long));
                let zeros = *id == 0 || only_zeros;
                if zeros { SliceRecord::zeros(pos, len) } else { slice(pos, *id * 1000 + u64::from(len), len) }
            });
            let list: Vec<SliceRecord> = front.into_iter().chain(rest).collect();
            let Some(choice) = choose(&list) else { return Ok(()) };
            prop_assert!(choice.seen.len() - choice.skipped >= 2);
            let new = slice(choice.pos, 9999, choice.size);
            let mut after = choice.seen[..choice.skipped].to_vec();
            after.push(new);
            after.extend_from_slice(&list[choice.seen.len()..]);
            // Each byte: which slice, and which of its bytes; the new one's are looked up in its pieces.
            let byte = |records: &[SliceRecord], at: u32| {
                zest_types::overlay::visible_in(records, at, 1).first().map(|p| (p.id.0, p.off))
            };
            let end = list.iter().map(|r| r.pos + r.len).max().unwrap_or(0);
            let step = (end as usize / 400).max(499);
            for at in (0..end + 5).step_by(step).chain(list.iter().flat_map(|r| [r.pos, r.pos + r.len - 1, r.pos + r.len])) {
                let expected = byte(&list, at).filter(|(id, _)| *id != 0);
                let found = match byte(&after, at) {
                    Some((9999, off)) => {
                        let mut left = off;
                        choice.pieces.iter().find_map(|piece| {
                            if left < piece.len { return Some((piece.id.0, piece.off + left)); }
                            left -= piece.len;
                            None
                        })
                    }
                    other => other,
                };
                prop_assert_eq!(found.filter(|(id, _)| *id != 0), expected, "byte {}", at);
            }
        }
    }
}
