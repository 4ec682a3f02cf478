//! How far to read ahead for one open file: pure policy. Reads that follow each other open a window that doubles
//! up to a bound; reads that jump about close it. Knows offsets only, not what is cached.

use std::ops::Range;

/// What one handle's reads looked like so far.
#[derive(Clone, Debug, Default)]
pub struct Readahead {
    /// Where the next read begins if the stream goes on.
    next: u64,
    /// Reads in a row that followed each other.
    run: u32,
    /// Window in blocks; 0 means the reads look random.
    window: u64,
    /// The window doubles when the stream gets here: half a window further.
    grow_at: u64,
    /// First byte not asked for yet.
    asked: u64,
}

impl Readahead {
    /// A read of `[offset, offset + len)` was asked. Answers which blocks of the file (numbers of `block_size`
    /// windows) are worth fetching now, besides those of the read itself; never one twice in a stream, and never
    /// further ahead than `most` blocks.
    ///
    /// The kernel splits a stream over threads, so reads may come a little out of order: one that begins within
    /// the window, or one block before its place, still belongs to the stream.
    pub fn observe(
        &mut self,
        offset: u64,
        len: u64,
        file_len: u64,
        block_size: u32,
        most: u64,
    ) -> Range<u64> {
        let block = u64::from(block_size.max(1));
        let end = offset.saturating_add(len);
        let slack = self.window.max(1) * block;
        let follows = offset <= self.next.saturating_add(slack) && offset.saturating_add(block) >= self.next;
        if !follows {
            *self = Readahead { next: end, run: 1, window: 0, grow_at: end, asked: end };
            return 0..0;
        }
        let grew = end > self.next;
        self.next = self.next.max(end);
        self.run = self.run.saturating_add(1);
        // One read alone, even at the file's start, is no stream: many programs look at a file's head only.
        if self.run < 2 {
            return 0..0;
        }
        if grew && self.next >= self.grow_at {
            self.window = (self.window * 2).max(1).min(most);
            self.grow_at = self.next.saturating_add(self.window * block / 2);
        }
        let want_end = self.next.saturating_add(self.window * block).min(file_len);
        let first = self.asked.max(self.next).div_ceil(block);
        let last = want_end.div_ceil(block);
        if first >= last {
            return 0..0;
        }
        self.asked = last * block;
        first..last
    }

    /// Whether the reads follow each other, so that the rest of a block will be wanted.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.run > 1
    }

    /// Blocks the window has now.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::limits::READAHEAD_BLOCKS;

    const BS: u32 = 4 << 20;
    const LONG: u64 = 1 << 40;

    #[test]
    fn a_stream_asks_for_every_block_once_and_stays_within_the_window() {
        let mut ahead = Readahead::default();
        let mut asked = Vec::new();
        let step = 128 << 10;
        for n in 0..2000u64 {
            let wanted = ahead.observe(n * step, step, LONG, BS, READAHEAD_BLOCKS);
            for block in wanted {
                assert!(block * u64::from(BS) < (n + 1) * step + (READAHEAD_BLOCKS + 1) * u64::from(BS));
                asked.push(block);
            }
        }
        assert_eq!(asked, (1..1 + asked.len() as u64).collect::<Vec<_>>());
        assert_eq!(ahead.window(), READAHEAD_BLOCKS);
    }

    #[test]
    fn nothing_is_read_ahead_where_nothing_may_be() {
        let mut ahead = Readahead::default();
        for n in 0..100u64 {
            assert!(ahead.observe(n << 20, 1 << 20, LONG, BS, 0).is_empty());
        }
        assert!(ahead.is_stream(), "but it is seen what it is");
    }

    #[test]
    fn random_reads_ask_for_nothing() {
        let mut ahead = Readahead::default();
        for n in 1..100u64 {
            let offset = (n * 7_919) % 97 * (1 << 30);
            assert!(ahead.observe(offset, 4096, LONG, BS, READAHEAD_BLOCKS).is_empty(), "{n}");
        }
    }

    #[test]
    fn the_end_of_the_file_bounds_the_window() {
        let mut ahead = Readahead::default();
        let len = u64::from(BS) * 2 + 1;
        let asked: Vec<u64> =
            (0..20).flat_map(|n| ahead.observe(n << 19, 1 << 19, len, BS, READAHEAD_BLOCKS)).collect();
        assert_eq!(asked, [1, 2]);
    }

    #[test]
    fn a_stream_out_of_order_is_still_one() {
        let mut ahead = Readahead::default();
        let step = 128 << 10;
        let order = [1u64, 0, 3, 2, 5, 4, 7, 6, 9, 8];
        let asked: u64 = order
            .iter()
            .map(|n| ahead.observe(n * step, step, LONG, BS, READAHEAD_BLOCKS))
            .map(|r| r.end - r.start)
            .sum();
        assert!(asked >= 1);
        assert!(ahead.window() >= 1);
    }

    #[test]
    fn huge_offsets_break_nothing() {
        let mut ahead = Readahead::default();
        ahead.observe(u64::MAX - 3, 10, u64::MAX, BS, READAHEAD_BLOCKS);
        ahead.observe(u64::MAX - 3, 10, u64::MAX, 0, READAHEAD_BLOCKS);
        ahead.observe(0, u64::MAX, u64::MAX, BS, READAHEAD_BLOCKS);
    }
}
