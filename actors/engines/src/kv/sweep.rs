//! All records that name slices, in the order of key bytes: chunk lists, then counters, then replaced slices.
//! Knows no store: a page says where the next one begins.

use super::view::View;
use super::{KeyRange, decode_key, decode_record};
use zest_metadata::{EngineError, SlicePage};

/// Records looked at for a page.
const PAGE: usize = 4096;

impl View<'_> {
    /// See `zest_metadata::Engine::slices`.
    pub fn slices(&self, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
        let range = KeyRange { start: from.unwrap_or_else(|| b"A".to_vec()), end: b"M".to_vec() };
        let batch = self.0.range(&range, PAGE)?;
        let last = batch.last().filter(|_| batch.len() == PAGE);
        let next = last.map(|(key, _)| [key.as_slice(), &[0]].concat());
        let mut found = Vec::new();
        for (bytes, value) in batch.iter().filter(|(bytes, _)| names_slices(bytes)) {
            let key = decode_key(bytes)?;
            let record = decode_record(&key, value)?;
            found.push((key, record));
        }
        Ok((found, next))
    }
}

fn names_slices(key: &[u8]) -> bool {
    match key.first() {
        Some(b'A') => key.len() == 14 && key.get(9) == Some(&b'C'),
        Some(b'K') => key.len() == 13,
        Some(b'L') => key.len() == 17,
        _ => false,
    }
}
