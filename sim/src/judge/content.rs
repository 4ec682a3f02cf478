//! The bytes of one file at one moment: a length and pieces that are not zero. Cheap to copy, so that every
//! moment of a run can be kept.

use bytes::Bytes;
use std::collections::BTreeMap;

/// Length and bytes. What no piece covers is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Bytes of the file.
    pub len: u64,
    pieces: BTreeMap<u64, Bytes>,
}

impl Content {
    /// Writes `data` at `offset`; the file grows as needed.
    pub fn write(&mut self, offset: u64, data: Bytes) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        self.clear(offset, end);
        self.pieces.insert(offset, data);
        self.len = self.len.max(end);
    }

    /// Makes `[start, end)` zero; the length stays.
    pub fn clear(&mut self, start: u64, end: u64) {
        let first = self.pieces.range(..start).next_back().map_or(start, |(at, _)| *at);
        let hit: Vec<u64> = self.pieces.range(first..end.max(first)).map(|(at, _)| *at).collect();
        for at in hit {
            let Some(piece) = self.pieces.remove(&at) else { continue };
            let stop = at + piece.len() as u64;
            if at < start {
                self.pieces.insert(at, piece.slice(..((start - at) as usize).min(piece.len())));
            }
            if stop > end {
                self.pieces.insert(end, piece.slice((end - at) as usize..));
            }
        }
    }

    /// Cuts the file or extends it with zeros.
    pub fn truncate(&mut self, len: u64) {
        if len < self.len {
            self.clear(len, self.len);
        }
        self.len = len;
    }

    /// The file is at least this long.
    pub fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    /// The bytes of a range, as far as the file goes.
    #[must_use]
    pub fn read(&self, offset: u64, size: u64) -> Vec<u8> {
        let end = offset.saturating_add(size).min(self.len);
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        let first = self.pieces.range(..offset).next_back().map_or(offset, |(at, _)| *at);
        for (at, piece) in self.pieces.range(first..end.max(first)) {
            let (from, to) = ((*at).max(offset), (at + piece.len() as u64).min(end));
            if from < to {
                out[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&piece[(from - at) as usize..(to - at) as usize]);
            }
        }
        out
    }

    /// Whether a range shows nothing but zeros; it may be as long as it likes.
    #[must_use]
    pub fn is_zero(&self, start: u64, end: u64) -> bool {
        let first = self.pieces.range(..start).next_back().map_or(start, |(at, _)| *at);
        let hit = self.pieces.range(first..end.max(first));
        !hit.into_iter().any(|(at, piece)| {
            let from = start.saturating_sub(*at).min(piece.len() as u64) as usize;
            let to = (end - at).min(piece.len() as u64) as usize;
            piece[from..to.max(from)].iter().any(|byte| *byte != 0)
        })
    }

    /// Copies a range of `source` to `offset` here.
    pub fn copy(&mut self, source: &Content, from: u64, offset: u64, len: u64) {
        let bytes = source.read(from, len);
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        self.clear(offset, end);
        self.grow(end);
        if bytes.iter().any(|byte| *byte != 0) {
            self.write(offset, bytes.into());
        }
    }

    /// Where anything but zeros may be, and the end of the file.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.pieces.iter().map(|(at, piece)| (*at, at + piece.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Do {
        Write(u64, usize, u64),
        Clear(u64, u64),
        Truncate(u64),
        Copy(u64, u64, u64),
    }

    fn doing() -> impl Strategy<Value = Do> {
        prop_oneof![
            (0u64..300, 1usize..80, 0u64..99).prop_map(|(o, l, n)| Do::Write(o, l, n)),
            (0u64..300, 0u64..80).prop_map(|(o, l)| Do::Clear(o, o + l)),
            (0u64..300).prop_map(Do::Truncate),
            (0u64..300, 0u64..300, 0u64..80).prop_map(|(f, t, l)| Do::Copy(f, t, l)),
        ]
    }

    fn plainly(bytes: &mut Vec<u8>, what: &Do) {
        match *what {
            Do::Write(offset, len, number) => {
                let end = offset as usize + len;
                bytes.resize(bytes.len().max(end), 0);
                bytes[offset as usize..end].copy_from_slice(super::super::noise::noise(number, len));
            }
            Do::Clear(start, end) => {
                let len = bytes.len();
                bytes[(start as usize).min(len)..(end as usize).min(len)].fill(0);
            }
            Do::Truncate(len) => bytes.resize(len as usize, 0),
            Do::Copy(from, to, len) => {
                let from = (from as usize).min(bytes.len());
                let source = bytes[from..(from + len as usize).min(bytes.len())].to_vec();
                if source.is_empty() {
                    return;
                }
                let end = to as usize + source.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[to as usize..end].copy_from_slice(&source);
            }
        }
    }

    proptest! {
        #[test]
        fn content_equals_a_plain_array(steps in proptest::collection::vec(doing(), 0..40)) {
            let (mut content, mut plain) = (Content::default(), Vec::new());
            for step in &steps {
                plainly(&mut plain, step);
                match *step {
                    Do::Write(o, l, n) => content.write(o, Bytes::from_static(super::super::noise::noise(n, l))),
                    Do::Clear(s, e) => content.clear(s, e),
                    Do::Truncate(l) => content.truncate(l),
                    Do::Copy(f, t, l) => { let old = content.clone(); content.copy(&old, f, t, l) }
                }
                prop_assert_eq!(content.len, plain.len() as u64);
                prop_assert_eq!(&content.read(0, 1000), &plain);
            }
            prop_assert_eq!(content.is_zero(30, 90), content.read(30, 60).iter().all(|byte| *byte == 0));
            let tail: Vec<u8> = plain.iter().skip(17).take(60).copied().collect();
            prop_assert_eq!(content.read(17, 60), tail);
        }
    }
}
