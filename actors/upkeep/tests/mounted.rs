//! Upkeep behind a mount: small writes leave a short chunk list, and what they wrote is read as it was written.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::cast_possible_truncation, clippy::disallowed_methods)]

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zest_engines::memory::MemoryEngine;
use zest_metadata::{Engine, Key, Record, Scan, format};
use zest_types::volume::Settings;
use zest_types::{Caller, Handle, Ino, Name, Request, Response, ServeResult, SliceRecord, Time};
use zest_vfs::{Mount, Options, Role, Stage};
use zest_world::objects::ObjectMeta;
use zest_world::trace::Silent;
use zest_world::{BoxFuture, Chance, Clock, ObjectError, Objects, Offload, World};

#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Time {
        Time::new(1_700_000_000 + self.0.fetch_add(1, Ordering::Relaxed) as i64, 7)
    }

    fn mono(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

impl Chance for Ticks {
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

/// Objects, and how many milliseconds a change takes.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, Bytes>>, AtomicU64);

impl Memory {
    fn wait(&self) -> BoxFuture<'static, Result<(), ObjectError>> {
        let time = Duration::from_millis(self.1.load(Ordering::Relaxed));
        Box::pin(async move {
            if !time.is_zero() {
                tokio::time::sleep(time).await;
            }
            Ok(())
        })
    }
}

impl Objects for Memory {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.0.lock().insert(key.into(), data);
        self.wait()
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let found = self.0.lock().get(key).cloned().ok_or_else(|| ObjectError::NotFound(key.into()));
        let part = move |data: Bytes| match range {
            Some(range) => data.slice(range.start as usize..(range.end as usize).min(data.len())),
            None => data,
        };
        Box::pin(async move { found.map(part) })
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.0.lock().remove(key);
        self.wait()
    }

    fn list(&self, _: &str, _: &str, _: usize) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

struct Here;

impl Stage for Here {
    fn start(&self, _: Role, begin: Box<dyn FnOnce() + Send>) {
        begin();
    }
}

struct Rig {
    mount: Mount,
    store: Arc<Memory>,
    engine: Arc<dyn Engine>,
    settings: Settings,
}

impl Rig {
    async fn new(trash_days: u32) -> Rig {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let mut settings = Settings::new("test-volume", "u", "mem", "mem");
        (settings.block_size_kib, settings.trash_days) = (64, trash_days);
        let first = format::new_volume(settings.to_json(), trash_days > 0, true, Time::new(1, 0));
        engine.commit(&first).await.unwrap();
        Rig::open(Arc::default(), engine, settings).await
    }

    async fn open(store: Arc<Memory>, engine: Arc<dyn Engine>, settings: Settings) -> Rig {
        let clock = Arc::new(Ticks::default());
        let world = World {
            clock: clock.clone(),
            chance: clock,
            offload: Arc::new(Inline),
            objects: Arc::clone(&store) as _,
            trace: Arc::new(Silent),
        };
        let options = Options::default();
        let mount = zest_vfs::mount(world, Arc::clone(&engine), &settings, &options, &Here).await.unwrap();
        zest_upkeep::attach(&mount, &Here).await.unwrap();
        Rig { mount, store, engine, settings }
    }

    async fn again(self) -> Rig {
        self.mount.close().await.unwrap();
        Rig::open(self.store, self.engine, self.settings).await
    }

    async fn ask(&self, request: Request<'_>) -> ServeResult {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.mount.vfs.serve(&Caller::SYSTEM, request, move |result| drop(reply.send(result)));
        answer.await.unwrap()
    }

    async fn create(&self) -> (Ino, Handle) {
        let name = Name::new(b"f").unwrap();
        let create = Request::Create { parent: Ino::ROOT, name, mode: 0o644, umask: 0, flags: 2 | 0o100 };
        match self.ask(create).await.unwrap() {
            Response::Created { ino, handle, .. } => (ino, handle),
            other => panic!("{other:?}"),
        }
    }

    async fn reopen(&self, ino: Ino) -> (Ino, Handle) {
        match self.ask(Request::Open { ino, flags: 2 }).await.unwrap() {
            Response::Opened { handle, .. } => (ino, handle),
            other => panic!("{other:?}"),
        }
    }

    async fn write(&self, (ino, handle): (Ino, Handle), offset: u64, data: &[u8]) {
        let written = self.ask(Request::Write { ino, handle, offset, data }).await;
        assert_eq!(written, Ok(Response::Written(data.len() as u32)));
        assert_eq!(self.ask(Request::Fsync { ino, handle }).await, Ok(Response::Done));
    }

    async fn read(&self, (ino, handle): (Ino, Handle), size: usize) -> Vec<u8> {
        match self.ask(Request::Read { ino, handle, offset: 0, size: size as u32 }).await.unwrap() {
            Response::Data(pieces) => pieces.concat(),
            other => panic!("{other:?}"),
        }
    }

    async fn list(&self, ino: Ino) -> Vec<SliceRecord> {
        match self.engine.read(&[Key::Chunk(ino, 0)]).await.unwrap().remove(0) {
            Some(Record::Slices(list)) => list,
            _ => Vec::new(),
        }
    }

    /// What the store holds, once nothing moves any more.
    async fn settled(&self) -> usize {
        let (mut seen, mut quiet) = (usize::MAX, 0);
        while quiet < 50 {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            let now = self.store.0.lock().len();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
        }
        seen
    }
}

/// Appends and overwrites, each synced, with the bytes the file must show.
async fn many_writes(rig: &Rig, file: (Ino, Handle), writes: usize, content: &mut Vec<u8>) {
    for n in 0..writes {
        let at = if n % 3 == 0 { content.len() } else { n * 7919 % content.len().max(1) };
        let data = vec![(n % 251) as u8 + 1; 90 + n % 200];
        let end = at + data.len();
        content.resize(content.len().max(end), 0);
        content[at..end].copy_from_slice(&data);
        rig.write(file, at as u64, &data).await;
    }
}

#[test]
fn three_hundred_small_writes_leave_a_short_list() {
    for trash_days in [0, 1] {
        actix::System::new().block_on(async move {
            let rig = Rig::new(trash_days).await;
            let (file, mut content) = (rig.create().await, Vec::new());
            many_writes(&rig, file, 300, &mut content).await;
            rig.settled().await;
            let list = rig.list(file.0).await;
            assert!(list.len() < 110, "{} records after 300 writes", list.len());
            assert_eq!(rig.read(file, content.len() + 1).await, content);
            // Whoever reads has the rest shortened.
            let objects = rig.settled().await;
            assert!(rig.list(file.0).await.len() < 5, "{:?}", rig.list(file.0).await);
            assert_eq!(rig.read(file, content.len() + 1).await, content);
            if trash_days == 0 {
                assert_eq!(objects, rig.list(file.0).await.len(), "what was replaced is still there");
            } else {
                let kept = rig.engine.scan(&Scan::Delayed { limit: 1000 }).await.unwrap();
                assert!(kept.len() > 2 && objects > 300, "what was replaced is gone: {objects} objects");
            }
            let rig = rig.again().await;
            let file = rig.reopen(file.0).await;
            assert_eq!(rig.read(file, content.len() + 1).await, content);
        });
    }
}

#[test]
fn readers_and_writers_go_on_while_a_chunk_is_compacted() {
    actix::System::new().block_on(async {
        let rig = Rig::new(0).await;
        let (file, mut content) = (rig.create().await, Vec::new());
        for _ in 0..40 {
            many_writes(&rig, file, 9, &mut content).await;
            assert_eq!(rig.read(file, content.len() + 1).await, content);
        }
        rig.settled().await;
        assert_eq!(rig.read(file, content.len() + 1).await, content);
        assert!(rig.list(file.0).await.len() < 20);
    });
}

#[test]
fn an_unmount_leaves_nothing_of_a_compaction_that_it_ends() {
    actix::System::new().block_on(async {
        let rig = Rig::new(0).await;
        let file = rig.create().await;
        for n in 0..6u64 {
            rig.write(file, n * (5 << 20), &vec![n as u8 + 1; 700 << 10]).await;
        }
        let before = rig.store.0.lock().len();
        // Each of some hundred blocks takes a while to be stored and to be removed.
        rig.store.1.store(4, Ordering::Relaxed);
        rig.read(file, 100).await;
        while rig.store.0.lock().len() < before + 54 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        rig.store.1.store(20, Ordering::Relaxed);
        rig.mount.close().await.unwrap();
        assert_eq!(rig.list(file.0).await.len(), 6, "the test wants it to be ended");
        assert_eq!(rig.store.0.lock().len(), before, "blocks of it are left");
    });
}
