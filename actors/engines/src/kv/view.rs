//! Records seen through the codec: any store of ordered bytes becomes something that change sets can be applied
//! to. Holds no state of its own.

use super::range::{KeyRange, has_length};
use super::{decode_key, decode_record, encode_key, encode_record, limit_of, scan_range};
use std::collections::BTreeMap;
use zest_metadata::apply::{Records, Refused, apply};
use zest_metadata::{Applied, ChangeSet, CommitError, EngineError, Key, Record, Scan};

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// An ordered store of bytes, as it is at one moment.
pub trait Bytes {
    /// The value under a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;
    /// Up to `limit` keys and values of a range, in the order of the keys.
    fn range(&self, range: &KeyRange, limit: usize) -> Result<Vec<Pair>, EngineError>;
}

/// What a change set stores: a value for each key, `None` to remove it. In the order of the keys.
pub type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A store of bytes, seen as records.
pub struct View<'a>(pub &'a dyn Bytes);

impl Records for View<'_> {
    fn get(&self, key: &Key) -> Result<Option<Record>, EngineError> {
        match self.0.get(&encode_key(key))? {
            Some(bytes) => Ok(Some(decode_record(key, &bytes)?)),
            None => Ok(None),
        }
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        let (mut range, limit) = (scan_range(scan), limit_of(scan));
        let mut found = Vec::new();
        while found.len() < limit {
            let want = limit - found.len();
            let batch = self.0.range(&range, want)?;
            let complete = batch.len() < want;
            if let Some((last, _)) = batch.last() {
                range.start = last.clone();
                range.start.push(0);
            }
            for (bytes, value) in batch.iter().filter(|(bytes, _)| has_length(scan, bytes)) {
                let key = decode_key(bytes)?;
                let record = decode_record(&key, value)?;
                found.push((key, record));
            }
            if complete {
                break;
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }
}

impl View<'_> {
    /// Records under these keys, in their order.
    pub fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Meets a change set with the store: what it wants stored, as records and as bytes.
    pub fn decide(&self, changes: &ChangeSet) -> Result<(Applied, Batch), CommitError> {
        let records = apply(changes, self).map_err(|refused| match refused {
            Refused::Conflict(found) => CommitError::Conflict(found),
            Refused::Engine(error) => CommitError::Engine(error),
        })?;
        let mut batch = Batch::new();
        for (key, record) in &records {
            let value = match record {
                Some(record) => Some(encode_record(key, record).map_err(EngineError::from)?),
                None => None,
            };
            batch.insert(encode_key(key), value);
        }
        Ok((Applied { records: records.into_iter().collect(), grown: Vec::new() }, batch))
    }
}
