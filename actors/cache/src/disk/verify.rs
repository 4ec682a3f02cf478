//! How much of what a cache file holds is checked before it is given out. The names are JuiceFS's, and what they
//! mean for a range too. There each read checks anew; here what was found right stays right until the file changes,
//! except with `always`.

use std::ops::Range;
use std::str::FromStr;

/// How much is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Nothing.
    None,
    /// What is read as a whole block.
    Full,
    /// Parts that lie in the range as a whole, and the last one of a block.
    Shrink,
    /// Each part that holds a byte of the range.
    #[default]
    Extend,
    /// The same, with each read.
    Always,
}

/// There is no level of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no way to check: none, full, shrink, extend and always are")]
pub struct UnknownLevel(String);

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        match text {
            "none" => Ok(Level::None),
            "full" => Ok(Level::Full),
            "shrink" => Ok(Level::Shrink),
            "extend" => Ok(Level::Extend),
            "always" => Ok(Level::Always),
            other => Err(UnknownLevel(other.into())),
        }
    }
}

impl Level {
    /// Whether a part, at its place in a file where the block begins at `base`, is checked when this range of the
    /// block is read.
    pub(super) fn asks(self, range: &Range<u32>, block_len: u32, part: Range<u64>, base: u64) -> bool {
        match self {
            Level::None => false,
            Level::Full => *range == (0..block_len),
            Level::Shrink => {
                let (start, end) = (base + u64::from(range.start), base + u64::from(range.end));
                start <= part.start && part.end <= end || part.end == base + u64::from(block_len)
            }
            Level::Extend | Level::Always => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_ask_for_what_their_names_say() {
        let part = 32 << 10;
        let asks = |level: &str, range: Range<u32>| {
            let level: Level = level.parse().unwrap();
            let place = |n: u64| 1_000_000 + n * part..1_000_000 + ((n + 1) * part).min(100_000);
            (0..4).filter(|n| level.asks(&range, 100_000, place(*n), 1_000_000)).collect::<Vec<u64>>()
        };
        assert_eq!(asks("none", 0..100_000), [0u64; 0]);
        assert_eq!(asks("full", 0..99_999), [0u64; 0]);
        assert_eq!(asks("full", 0..100_000), [0, 1, 2, 3]);
        assert_eq!(asks("shrink", 1..70_000), [1, 3]);
        assert_eq!(asks("extend", 1..2), [0, 1, 2, 3]);
        assert!("Full".parse::<Level>().unwrap_err().to_string().contains("always"));
    }
}
