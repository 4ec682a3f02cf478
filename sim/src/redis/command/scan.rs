//! Cursors: SCAN, HSCAN, SSCAN and ZSCAN walk ordered keys by their place. What is there from the beginning to the end
//! of a walk is seen, as a server promises; what comes and goes meanwhile may be missed or seen twice.

use super::{Fail, integer_at};
use crate::redis::pattern::matches;
use crate::redis::resp::Frame;
use crate::redis::value::Text;

/// Keys up to this many come back whole, as small collections do.
const SMALL: usize = 128;

/// What a scan asks for.
pub(super) struct Window {
    cursor: u64,
    count: usize,
    pattern: Option<Text>,
    /// Only keys of this type.
    pub kind: Option<String>,
    whole: bool,
}

/// The cursor of a scan: what is checked first.
pub(super) fn cursor(args: &[Text], at: usize) -> Result<u64, Fail> {
    let cursor = std::str::from_utf8(&args[at]).ok().and_then(|text| text.parse().ok());
    cursor.ok_or_else(|| "ERR invalid cursor".into())
}

/// The answer to a scan of nothing.
pub(super) fn nothing() -> Frame {
    answer(0, Vec::new())
}

/// What the arguments from `at` on ask for: the cursor and its options.
pub(super) fn window(args: &[Text], at: usize) -> Result<Window, Fail> {
    let cursor = cursor(args, at)?;
    let mut window = Window { cursor, count: 10, pattern: None, kind: None, whole: at == 2 };
    let mut rest = args[at + 1..].iter();
    while let Some(option) = rest.next() {
        let Some(value) = rest.next() else { return Err("ERR syntax error".into()) };
        match option.to_ascii_lowercase().as_slice() {
            b"count" => {
                let count = integer_at(std::slice::from_ref(value), 0)?;
                window.count =
                    usize::try_from(count).ok().filter(|count| *count > 0).ok_or("ERR syntax error")?;
            }
            b"match" => window.pattern = Some(value.clone()),
            b"type" if at == 1 => window.kind = Some(String::from_utf8_lossy(value).to_ascii_lowercase()),
            _ => return Err("ERR syntax error".into()),
        }
    }
    Ok(window)
}

impl Window {
    /// The next cursor, and what of some keys in order lies in this window.
    pub(super) fn over<'a>(&self, keys: impl Iterator<Item = &'a Text>) -> (u64, Vec<Text>) {
        let all: Vec<&Text> = keys.collect();
        let whole = self.whole && all.len() <= SMALL;
        let mut buckets: Vec<(u64, &Text)> = all.into_iter().map(|key| (place(key), key)).collect();
        buckets.sort();
        let fits = |key: &Text| self.pattern.as_ref().is_none_or(|pattern| matches(pattern, key));
        let mut found = Vec::new();
        for (number, (at, key)) in buckets.iter().filter(|(at, _)| *at >= self.cursor).enumerate() {
            if number >= self.count && !whole && starts(&buckets, *at, key) {
                return (*at, found);
            }
            if fits(key) {
                found.push((*key).clone());
            }
        }
        (0, found)
    }
}

/// Whether this key is the first at its place: a window never ends inside a place.
fn starts(buckets: &[(u64, &Text)], at: u64, key: &Text) -> bool {
    buckets.iter().find(|(place, _)| *place == at).is_some_and(|(_, first)| *first == key)
}

/// A place for a key that does not depend on the other keys, so that cursors survive changes.
fn place(key: &[u8]) -> u64 {
    let hash = key.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    crate::devices::chance::mix(hash) >> 16 | 1
}

/// The answer of a scan.
pub(super) fn answer(cursor: u64, found: Vec<Frame>) -> Frame {
    Frame::Array(vec![Frame::bulk(cursor.to_string()), Frame::Array(found)])
}
