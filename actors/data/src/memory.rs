//! One number for the memory of a mount, and what each part gets of it: unflushed writes, writes that wait for room,
//! blocks, what is on its way, what is about to be written into cache files, idle buffers, records. Pure. A part never
//! gets more than it has use for, so that a large machine is not filled.

use zest_types::limits::{
    BLOCK_SIZE_RANGE, CACHE_QUEUE, FETCHING, MAX_IO, MEMORY_BLOCKS, POOLED_BYTES, VIEWS_MAX, WRITE_BUDGET,
    WRITE_BUDGET_MIN, WRITE_RESERVE,
};

/// Parts the whole is cut into.
const ALL: u64 = 32;
/// What a record in memory takes, about.
const RECORD: u64 = 256;

/// What each part may take, bytes where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// All together.
    pub total: u64,
    /// Unflushed writes.
    pub writes: u64,
    /// Writes that wait for room.
    pub waiting: u64,
    /// Blocks that are kept; half of it may be read ahead.
    pub blocks: u64,
    /// Blocks on their way from the store.
    pub fetching: u64,
    /// What is about to be written into the files of each cache directory.
    pub files: u64,
    /// Block buffers kept for the next use.
    pub idle: u64,
    /// Attributes, entries and chunk lists that are believed; a number.
    pub records: u64,
}

impl Shares {
    /// The shares of so many bytes. The rest, an eighth, is for what is counted elsewhere: the metadata engine, threads,
    /// handles.
    #[must_use]
    pub fn of(total: u64) -> Shares {
        let part = |parts: u64, least: u64, most: u64| (total / ALL * parts).clamp(least, most);
        let io = u64::from(MAX_IO);
        Shares {
            total,
            writes: part(10, WRITE_BUDGET_MIN, WRITE_BUDGET),
            waiting: part(2, 2 * io, WRITE_RESERVE),
            blocks: part(8, 0, MEMORY_BLOCKS),
            fetching: part(4, u64::from(BLOCK_SIZE_RANGE.0), FETCHING),
            files: part(1, u64::from(BLOCK_SIZE_RANGE.0), CACHE_QUEUE),
            idle: part(1, 0, POOLED_BYTES as u64),
            records: part(2, 64 * RECORD, VIEWS_MAX as u64 * RECORD) / RECORD,
        }
    }

    /// What the parts take together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let bytes = [self.writes, self.waiting, self.blocks, self.fetching, self.files, self.idle];
        bytes.iter().fold(self.records.saturating_mul(RECORD), |sum, part| sum.saturating_add(*part))
    }

    /// With other numbers for unflushed writes and for blocks, where the user said some. Writes wait in less than what
    /// they wait for.
    #[must_use]
    pub fn with(self, writes: Option<u64>, blocks: Option<u64>) -> Shares {
        let writes = writes.unwrap_or(self.writes).max(WRITE_BUDGET_MIN);
        let least = 2 * u64::from(MAX_IO);
        let waiting = self.waiting.min((writes / 5 * 4).max(least));
        Shares { writes, waiting, blocks: blocks.unwrap_or(self.blocks), ..self }
    }
}

impl Default for Shares {
    /// As much as there is use for.
    fn default() -> Shares {
        Shares::of(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn enough_is_what_each_part_has_use_for() {
        let all = Shares::of(16 << 30);
        assert_eq!((all.writes, all.waiting, all.blocks), (WRITE_BUDGET, WRITE_RESERVE, MEMORY_BLOCKS));
        assert_eq!((all.fetching, all.records), (FETCHING, VIEWS_MAX as u64));
        assert_eq!(Shares::default(), Shares { total: u64::MAX, ..all });
    }

    #[test]
    fn what_the_user_says_holds_and_fewer_writes_wait_where_few_may_be_unflushed() {
        let shares = Shares::of(1 << 30).with(Some(10 << 20), Some(0));
        assert_eq!((shares.writes, shares.waiting, shares.blocks), (10 << 20, 8 << 20, 0));
        assert_eq!(Shares::of(1 << 30).with(None, None), Shares::of(1 << 30));
    }

    proptest! {
        #[test]
        fn the_parts_are_never_more_than_the_whole(total in (64u64 << 20)..(64 << 30)) {
            let shares = Shares::of(total);
            prop_assert!(shares.sum() <= total / 8 * 7, "{} of {}", shares.sum(), total);
            let less = Shares::of(total / 2);
            prop_assert!(less.writes <= shares.writes && less.blocks <= shares.blocks);
            prop_assert!(shares.waiting >= 2 * u64::from(MAX_IO) && shares.writes >= WRITE_BUDGET_MIN);
        }
    }
}
