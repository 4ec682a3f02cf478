//! A volume for a test: records in memory, objects in a map with times the test chooses, a clock that stands.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use zest_data::block::BlockNames;
use zest_engines::memory::MemoryEngine;
use zest_metadata::{
    Applied, ChangeSet, CommitError, Counter, Engine, EngineError, Key, Record, Scan, SlicePage, Write,
};
use zest_types::{Attr, FileType, Ino, Name, SliceId, SliceRecord, Time};
use zest_upkeep::whole::Whole;
use zest_world::objects::ObjectMeta;
use zest_world::trace::Silent;
use zest_world::{BoxFuture, Chance, Clock, ObjectError, Objects, Offload, World};

/// What our clock says.
pub const NOW: i64 = 1_900_000_000;
/// Bytes of a block.
pub const BLOCK: u32 = 1 << 16;

pub struct Standing;

impl Clock for Standing {
    fn now(&self) -> Time {
        Time::new(NOW, 0)
    }

    fn mono(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        // Waits between tries are over at once, time limits never.
        if time < Duration::from_secs(30) { Box::pin(async {}) } else { Box::pin(std::future::pending()) }
    }
}

struct Seven;

impl Chance for Seven {
    fn next_u64(&self) -> u64 {
        7
    }
}

struct AtOnce;

impl Offload for AtOnce {
    fn run(&self, _: &'static str, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        work();
        Box::pin(async {})
    }
}

/// Objects with the time at which they were written.
pub struct Shelf {
    pub objects: Mutex<BTreeMap<String, (Bytes, i64)>>,
    /// What the store's clock says.
    pub now: i64,
    /// Keys that listings leave out.
    pub hidden: Mutex<BTreeSet<String>>,
}

impl Objects for Shelf {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.objects.lock().insert(key.to_owned(), (data, self.now));
        Box::pin(async { Ok(()) })
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let found = self.objects.lock().get(key).map(|(data, _)| data.clone());
        let key = key.to_owned();
        Box::pin(async move {
            let data = found.ok_or(ObjectError::NotFound(key))?;
            let range = range.unwrap_or(0..u64::MAX);
            let end = range.end.min(data.len() as u64) as usize;
            Ok(data.slice((range.start as usize).min(end)..end))
        })
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.objects.lock().remove(key);
        Box::pin(async { Ok(()) })
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        let (objects, hidden) = (self.objects.lock(), self.hidden.lock());
        let found = objects
            .iter()
            .filter(|(key, _)| key.starts_with(prefix) && key.as_str() > after && !hidden.contains(*key))
            .take(limit)
            .map(|(key, (data, at))| ObjectMeta { key: key.clone(), size: data.len() as u64, modified: *at })
            .collect();
        Box::pin(async { Ok(found) })
    }
}

/// Records that others change, too: a chunk list is where nobody looks during the first sweep.
pub struct Others {
    pub inner: Arc<MemoryEngine>,
    pub missed_once: Mutex<Option<Key>>,
}

#[async_trait::async_trait]
impl Engine for Others {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.inner.read(keys).await
    }

    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.inner.scan(scan).await
    }

    async fn slices(&self, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
        let (mut found, next) = self.inner.slices(from).await?;
        if let Some(missed) = self.missed_once.lock().take() {
            found.retain(|(key, _)| *key != missed);
        }
        Ok((found, next))
    }

    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.inner.commit(changes).await
    }

    async fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn exclusive(&self) -> bool {
        false
    }
}

pub struct Rig {
    pub records: Arc<MemoryEngine>,
    pub shelf: Arc<Shelf>,
    pub whole: Whole,
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

impl Rig {
    /// A new volume; the store's clock is off by so many seconds.
    pub fn new(skew: i64) -> Rig {
        let records = Arc::new(MemoryEngine::default());
        let shelf = Arc::new(Shelf { objects: Mutex::default(), now: NOW + skew, hidden: Mutex::default() });
        let world = World {
            clock: Arc::new(Standing),
            chance: Arc::new(Seven),
            offload: Arc::new(AtOnce),
            objects: Arc::clone(&shelf) as _,
            trace: Arc::new(Silent),
        };
        let whole = Whole {
            engine: Arc::clone(&records) as _,
            world,
            names: BlockNames { volume: "vol".into(), hash_prefix: false, block_size: BLOCK },
            uuid: "00000000-0000-0000-0000-000000000001".into(),
            plain: true,
            user_quotas: true,
        };
        let rig = Rig { records, shelf, whole };
        let first = zest_metadata::format::new_volume(b"{}".to_vec(), true, true, Time::new(NOW, 0));
        rig.records.commit_now(&first).unwrap();
        rig.put(Key::Counter(Counter::NextSlice), Record::Count(1000));
        rig
    }

    /// The same volume, with others at work on it, who move this list at an unlucky moment.
    pub fn with_others(&self, missed_once: Key) -> Whole {
        let others = Others { inner: Arc::clone(&self.records), missed_once: Mutex::new(Some(missed_once)) };
        Whole { engine: Arc::new(others), ..self.whole.clone() }
    }

    pub fn put(&self, key: Key, record: Record) {
        let write = vec![Write::Put(key, record)];
        self.records.commit_now(&ChangeSet { expect: Vec::new(), write }).unwrap();
    }

    pub fn remove(&self, key: Key) {
        let write = vec![Write::Delete(key)];
        self.records.commit_now(&ChangeSet { expect: Vec::new(), write }).unwrap();
    }

    pub fn get(&self, key: &Key) -> Option<Record> {
        self.records.read_now(std::slice::from_ref(key)).unwrap().remove(0)
    }

    /// A slice of so many bytes in the store, written at this time.
    pub fn store(&self, slice: u64, size: u32, at: i64) {
        for (block, key) in self.whole.names.of_slice(SliceId(slice), size) {
            let len = zest_data::block::block_len(size, BLOCK, block.index);
            self.shelf.objects.lock().insert(key, (Bytes::from(vec![1; len as usize]), at));
        }
    }

    /// Objects of a slice that are in the store.
    pub fn stored(&self, slice: u64) -> usize {
        let named = |key: &&String| key.contains(&format!("/{slice}_"));
        self.shelf.objects.lock().keys().filter(named).count()
    }

    /// A chunk list that shows these slices whole.
    pub fn list(&self, ino: u64, index: u32, slices: &[(u64, u32)]) {
        let records = slices.iter().map(|(id, size)| SliceRecord::whole(0, SliceId(*id), *size)).collect();
        self.put(Key::Chunk(Ino(ino), index), Record::Slices(records));
    }

    /// A node with one name; numbers kept on the side follow.
    pub fn node(&self, dir: u64, name: &str, ino: u64, kind: FileType, length: u64) {
        let mut attr = Attr::new(kind, 0o755, 0, 0, Ino(dir), Time::new(NOW, 0));
        if kind == FileType::File {
            attr.length = length;
        }
        let space = if kind == FileType::File { zest_types::attr::align4k(length) as i64 } else { 4096 };
        self.put(Key::Attr(Ino(ino)), Record::Attr(attr));
        self.put(
            Key::Dentry(Ino(dir), Name::new(name.as_bytes()).unwrap()),
            Record::Dentry { kind, ino: Ino(ino) },
        );
        let mut write = vec![
            Write::Add(Key::Counter(Counter::UsedSpace), space),
            Write::Add(Key::Counter(Counter::TotalInodes), 1),
        ];
        if kind == FileType::Directory {
            let Some(Record::Attr(mut above)) = self.get(&Key::Attr(Ino(dir))) else { panic!("no {dir}") };
            above.nlink += 1;
            write.push(Write::Put(Key::Attr(Ino(dir)), Record::Attr(above)));
        }
        let (l, s, n) = match self.get(&Key::DirStat(Ino(dir))) {
            Some(Record::DirStat { length, space, inodes }) => (length, space, inodes),
            _ => (0, 0, 0),
        };
        let length = if kind == FileType::File { length as i64 } else { 0 };
        let stat = Record::DirStat { length: l + length, space: s + space, inodes: n + 1 };
        write.push(Write::Put(Key::DirStat(Ino(dir)), stat));
        self.records.commit_now(&ChangeSet { expect: Vec::new(), write }).unwrap();
    }
}
