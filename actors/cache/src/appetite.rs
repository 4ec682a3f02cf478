//! How much of a block to fetch when part of it is wanted: pure policy. Little is fetched of a block of which little is
//! wanted; a stream, a large part, or many parts after each other get the whole block, the last only where the caller
//! has room for it. Knows nothing of what is kept.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use zest_data::BlockId;
use zest_types::limits::{APPETITES, PART_SHARE, PART_SIZE};

/// How much to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helping {
    /// The bytes, within the block.
    pub span: Range<u32>,
    /// All of it, only because parts of it were wanted again and again.
    pub grown: bool,
}

/// What was fetched in parts lately.
#[derive(Debug, Default)]
pub struct Appetite {
    fetched: BTreeMap<BlockId, u32>,
    order: VecDeque<BlockId>,
}

impl Appetite {
    /// The bytes to fetch so that `range` of a block of `len` bytes is there: all, or whole parts around it. Without
    /// `may_grow` many parts stay parts.
    pub fn span(
        &mut self,
        block: BlockId,
        len: u32,
        range: &Range<u32>,
        stream: bool,
        may_grow: bool,
    ) -> Helping {
        let start = range.start.min(len) / PART_SIZE * PART_SIZE;
        let end = range.end.div_ceil(PART_SIZE).saturating_mul(PART_SIZE).min(len);
        let most = len / PART_SHARE;
        let size = end.saturating_sub(start);
        if stream || size == 0 || size > most {
            self.forget(block);
            return Helping { span: 0..len, grown: false };
        }
        let before = self.fetched.get(&block).copied().unwrap_or(0);
        // The last parts that fit into the share are still parts, so that what is fetched twice is bounded by it.
        if before + size > most && may_grow {
            self.forget(block);
            return Helping { span: 0..len, grown: true };
        }
        if self.fetched.insert(block, before.saturating_add(size)).is_none() {
            self.order.push_back(block);
        }
        while self.order.len() > APPETITES {
            if let Some(oldest) = self.order.pop_front() {
                self.fetched.remove(&oldest);
            }
        }
        Helping { span: start..end, grown: false }
    }

    fn forget(&mut self, block: BlockId) {
        if self.fetched.remove(&block).is_some() {
            self.order.retain(|known| *known != block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zest_types::SliceId;

    const BS: u32 = 4 << 20;

    fn span(appetite: &mut Appetite, n: u64, len: u32, range: Range<u32>, stream: bool) -> Range<u32> {
        appetite.span(block(n), len, &range, stream, true).span
    }

    fn block(n: u64) -> BlockId {
        BlockId { slice: SliceId(n), index: 0 }
    }

    #[test]
    fn little_is_fetched_where_little_is_wanted() {
        let mut appetite = Appetite::default();
        assert_eq!(span(&mut appetite, 1, BS, 5000..5001, false), 0..PART_SIZE);
        assert_eq!(span(&mut appetite, 1, BS, PART_SIZE - 1..PART_SIZE + 1, false), 0..2 * PART_SIZE);
        assert_eq!(span(&mut appetite, 1, BS - 7, BS - 9..BS - 8, false), BS - PART_SIZE..BS - 7);
        assert_eq!(span(&mut appetite, 2, BS, 0..BS / 4, false), 0..BS / 4);
        assert_eq!(span(&mut appetite, 3, BS, 0..BS / 4 + 1, false), 0..BS, "a large part");
        assert_eq!(span(&mut appetite, 4, BS, 0..1, true), 0..BS, "a stream");
        assert_eq!(span(&mut appetite, 5, 100, 0..1, false), 0..100, "a short block is one part");
    }

    #[test]
    fn a_block_wanted_again_and_again_is_fetched_whole_and_then_begins_anew() {
        let mut appetite = Appetite::default();
        let most = BS / PART_SHARE / PART_SIZE;
        for n in 0..most {
            let at = n * PART_SIZE * 2;
            assert_eq!(span(&mut appetite, 1, BS, at..at + 4096, false), at..at + PART_SIZE);
        }
        assert_eq!(span(&mut appetite, 1, BS, 0..4096, false), 0..BS);
        assert_eq!(span(&mut appetite, 1, BS, 0..4096, false), 0..PART_SIZE);
    }

    #[test]
    fn where_nothing_may_grow_parts_stay_parts() {
        let mut appetite = Appetite::default();
        for n in 0..BS / PART_SIZE {
            let at = n * PART_SIZE;
            let helping = appetite.span(block(1), BS, &(at..at + 1), false, false);
            assert_eq!(helping, Helping { span: at..at + PART_SIZE, grown: false });
        }
        assert_eq!(appetite.span(block(1), BS, &(0..1), false, true), Helping { span: 0..BS, grown: true });
        assert_eq!(span(&mut appetite, 2, BS, 0..BS, false), 0..BS, "what was asked for is no growth");
    }

    #[test]
    fn memory_is_bounded() {
        let mut appetite = Appetite::default();
        for n in 0..APPETITES as u64 + 100 {
            span(&mut appetite, n, BS, 0..1, false);
        }
        assert_eq!((appetite.fetched.len(), appetite.order.len()), (APPETITES, APPETITES));
    }

    proptest! {
        #[test]
        fn what_is_fetched_covers_what_is_wanted_and_little_twice(
            len in 1u32..(1 << 20),
            wants in prop::collection::vec((any::<prop::sample::Index>(), 1u32..70_000, any::<bool>()), 1..60),
        ) {
            let mut appetite = Appetite::default();
            let mut in_parts = 0;
            for (at, size, stream) in wants {
                let start = at.index(len as usize) as u32;
                let range = start..start.saturating_add(size).min(len);
                let span = span(&mut appetite, 1, len, range.clone(), stream);
                prop_assert!(span.start <= range.start && range.end <= span.end && span.end <= len);
                if span == (0..len) {
                    in_parts = 0;
                } else {
                    in_parts += span.end - span.start;
                    prop_assert!(in_parts <= len / PART_SHARE);
                }
            }
        }
    }
}
