//! An engine that keeps the bytes of all records in memory and nothing anywhere else: for tests, and as the
//! store inside simulated servers. Everything passes through the codec, so its content can be compared with a
//! volume's. `sync` promises nothing, since nothing survives.

use crate::kv::{Batch, Bytes, KeyRange, Pair, View};
use async_trait::async_trait;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use zest_metadata::apply::Records;
use zest_metadata::{Applied, ChangeSet, CommitError, Engine, EngineError, Key, Record, Scan, SlicePage};

/// All records of a volume as bytes.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;

impl Bytes for Content {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(BTreeMap::get(self, key).cloned())
    }

    fn range(&self, range: &KeyRange, limit: usize) -> Result<Vec<Pair>, EngineError> {
        if range.start >= range.end {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(&range.start), Bound::Excluded(&range.end));
        let found = BTreeMap::range::<Vec<u8>, _>(self, bounds);
        Ok(found.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Makes what a change set wants stored part of the content.
pub fn store(content: &mut Content, batch: Batch) {
    for (key, value) in batch {
        match value {
            Some(value) => content.insert(key, value),
            None => content.remove(&key),
        };
    }
}

/// The engine.
#[derive(Default)]
pub struct MemoryEngine {
    content: RwLock<Content>,
}

impl MemoryEngine {
    /// An engine that holds these records already.
    #[must_use]
    pub fn with_content(content: Content) -> MemoryEngine {
        MemoryEngine { content: RwLock::new(content) }
    }

    /// A copy of everything stored.
    #[must_use]
    pub fn content(&self) -> Content {
        self.content.read().clone()
    }

    /// [`Engine::read`], without waiting.
    pub fn read_now(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        View(&*self.content.read()).read(keys)
    }

    /// [`Engine::scan`], without waiting.
    pub fn scan_now(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        View(&*self.content.read()).scan(scan)
    }

    /// [`Engine::commit`], without waiting.
    pub fn commit_now(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        let mut content = self.content.write();
        let (applied, batch) = View(&*content).decide(changes)?;
        store(&mut content, batch);
        Ok(applied)
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.read_now(keys)
    }

    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.scan_now(scan)
    }

    async fn slices(&self, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
        View(&*self.content.read()).slices(from)
    }

    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.commit_now(changes)
    }

    async fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn exclusive(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::encode_record;
    use zest_types::{FileType, Ino, Name};

    fn entry(dir: u64, text: &str) -> (Key, Record) {
        let name = Name::new(text.as_bytes()).unwrap();
        (Key::Dentry(Ino(dir), name), Record::Dentry { kind: FileType::File, ino: Ino(9) })
    }

    fn engine(records: &[(Key, Record)]) -> MemoryEngine {
        let bytes =
            |(key, record): &(Key, Record)| (crate::kv::encode_key(key), encode_record(key, record).unwrap());
        MemoryEngine::with_content(records.iter().map(bytes).collect())
    }

    #[test]
    fn reads_answer_in_the_order_of_the_keys_asked_for() {
        let (a, b) = (entry(1, "a"), entry(1, "b"));
        let engine = engine(&[a.clone(), b.clone()]);
        let found = engine.read_now(&[b.0, Key::Setting, a.0]).unwrap();
        assert_eq!(found, [Some(b.1), None, Some(a.1)]);
    }

    #[test]
    fn scans_are_cut_at_the_limit_and_go_on_behind_it() {
        let all: Vec<_> = ["a", "b", "c", "d", "e"].map(|text| entry(1, text)).into();
        let engine = engine(&[&all[..], &[entry(2, "x")]].concat());
        let mut scan = Scan::Dentries { dir: Ino(1), after: None, limit: 2 };
        let mut seen = Vec::new();
        loop {
            let found = engine.scan_now(&scan).unwrap();
            seen.extend(found.clone());
            match crate::kv::next_scan(&scan, &found) {
                Some(next) => scan = next,
                None => break,
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn keys_of_other_lengths_do_not_use_up_the_limit() {
        let mut content = engine(&[(Key::Deleted { ino: Ino(5), length: 1 }, Record::Stamp(7))]).content();
        content.insert(b"D\0".to_vec(), Vec::new());
        let engine = MemoryEngine::with_content(content);
        let found = engine.scan_now(&Scan::Deleted { limit: 1 }).unwrap();
        assert_eq!(found, [(Key::Deleted { ino: Ino(5), length: 1 }, Record::Stamp(7))]);
    }

    #[test]
    fn a_damaged_record_is_named() {
        let engine = MemoryEngine::with_content(
            [(b"Ctypo".to_vec(), vec![]), (b"CusedSpace".to_vec(), vec![1])].into(),
        );
        let key = Key::Counter(zest_metadata::Counter::UsedSpace);
        let error = engine.read_now(&[key]).unwrap_err();
        assert!(matches!(&error, EngineError::Damaged { key, .. } if key.contains("UsedSpace")), "{error}");
    }
}
