//! The outside of a volume in memory, for tests: a clock that stands still for records, and a store and an engine that
//! can be made to wait.

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use zest_engines::MemoryEngine;
use zest_metadata::{Applied, ChangeSet, CommitError, Engine, EngineError, Key, Record, Scan};
use zest_types::Time;
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, Chance, Clock, Event, ObjectError, Objects, Offload, Trace, World};

/// Lets everybody through, or nobody.
pub struct Gate(Semaphore);

const OPEN: usize = 1 << 20;

impl Default for Gate {
    fn default() -> Gate {
        Gate(Semaphore::new(OPEN))
    }
}

impl Gate {
    /// From now on everybody waits who has not passed.
    pub fn shut(&self) {
        self.0.forget_permits(OPEN);
    }

    /// Everybody goes on.
    pub fn open(&self) {
        self.0.add_permits(OPEN);
    }

    async fn pass(&self) {
        let _passed = self.0.acquire().await;
    }
}

struct Still(Instant);

impl Clock for Still {
    fn now(&self) -> Time {
        Time::new(1_700_000_000, 7)
    }
    fn mono(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

#[derive(Default)]
struct Count(AtomicU64);

impl Chance for Count {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

struct Inline;

impl Offload for Inline {
    fn run(&self, _: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        job();
        Box::pin(async {})
    }
}

struct Aloud;

impl Trace for Aloud {
    fn event(&self, _: Event) {}
    fn complain(&self, text: &str) {
        eprintln!("{text}");
    }
}

/// Blocks in memory behind a gate.
struct Blocks {
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
    gate: Arc<Gate>,
}

impl Objects for Blocks {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        let (gate, objects, key) = (Arc::clone(&self.gate), Arc::clone(&self.objects), key.to_owned());
        Box::pin(async move {
            gate.pass().await;
            objects.lock().insert(key, data);
            Ok(())
        })
    }
    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let (gate, objects, key) = (Arc::clone(&self.gate), Arc::clone(&self.objects), key.to_owned());
        Box::pin(async move {
            gate.pass().await;
            let data = objects.lock().get(&key).cloned().ok_or(ObjectError::NotFound(key))?;
            Ok(match range {
                Some(range) => data.slice(range.start as usize..(range.end as usize).min(data.len())),
                None => data,
            })
        })
    }
    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.objects.lock().remove(key);
        Box::pin(async { Ok(()) })
    }
    fn list(&self, _: &str, _: &str, _: usize) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Records in memory behind a gate.
pub struct Records {
    pub inner: MemoryEngine,
    pub gate: Arc<Gate>,
}

#[async_trait]
impl Engine for Records {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.gate.pass().await;
        self.inner.read(keys).await
    }
    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.gate.pass().await;
        self.inner.scan(scan).await
    }
    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.gate.pass().await;
        self.inner.commit(changes).await
    }
    async fn sync(&self) -> Result<(), EngineError> {
        self.gate.pass().await;
        self.inner.sync().await
    }
    fn exclusive(&self) -> bool {
        self.inner.exclusive()
    }
}

/// A world whose store waits at this gate.
pub fn world(blocks: &Arc<Gate>) -> World {
    World {
        clock: Arc::new(Still(Instant::now())),
        chance: Arc::new(Count::default()),
        offload: Arc::new(Inline),
        objects: Arc::new(Blocks { objects: Arc::default(), gate: Arc::clone(blocks) }),
        trace: Arc::new(Aloud),
    }
}
