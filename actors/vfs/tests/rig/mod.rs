//! A mount in one process: requests through `Vfs`, actors, an engine in memory and objects in memory.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zest_engines::MemoryEngine;
use zest_metadata::{Engine, format};
use zest_types::volume::Settings;
use zest_types::{Attr, Caller, Errno, Handle, Ino, Name, Request, Response, ServeResult, Time};
use zest_vfs::{Mount, Options, Role, Stage, Vfs};
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, Chance, Clock, Event, ObjectError, Objects, Offload, Trace, World};

#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Time {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        Time::new(1_700_000_000 + i64::try_from(n).unwrap(), 7)
    }
    fn mono(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
    #[allow(clippy::disallowed_methods)]
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

#[derive(Default)]
pub struct Memory {
    pub objects: Mutex<BTreeMap<String, Bytes>>,
    pub refuse: Mutex<bool>,
    /// What was complained of.
    pub said: Mutex<Vec<String>>,
}

impl Trace for Memory {
    fn event(&self, _: Event) {}

    fn complain(&self, text: &str) {
        self.said.lock().push(text.into());
    }
}

impl Objects for Memory {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        let result = if *self.refuse.lock() {
            Err(ObjectError::Refused { key: key.into(), why: "test".into() })
        } else {
            self.objects.lock().insert(key.into(), data);
            Ok(())
        };
        Box::pin(async move { result })
    }
    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let found = self.objects.lock().get(key).cloned().ok_or_else(|| ObjectError::NotFound(key.into()));
        let found = found.map(|data| match range {
            Some(range) => data.slice(range.start as usize..(range.end as usize).min(data.len())),
            None => data,
        });
        Box::pin(async move { found })
    }
    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.objects.lock().remove(key);
        Box::pin(async { Ok(()) })
    }
    fn list(&self, _: &str, _: &str, _: usize) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

pub struct Here;

impl Stage for Here {
    fn start(&self, _: Role, begin: Box<dyn FnOnce() + Send>) {
        begin();
    }
}

pub struct Rig {
    pub mount: Mount,
    pub vfs: Vfs,
    pub store: Arc<Memory>,
    pub engine: Arc<dyn Engine>,
}

pub const ME: Caller = Caller { uid: 1000, gid: 1000, pid: 1, check: false };
pub const RDWR: u32 = 2;

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

impl Rig {
    pub async fn ask(&self, request: Request<'_>) -> ServeResult {
        self.ask_as(&ME, request).await
    }

    pub async fn ask_as(&self, caller: &Caller, request: Request<'_>) -> ServeResult {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.vfs.serve(caller, request, move |result| {
            let _gone = reply.send(result);
        });
        answer.await.unwrap()
    }

    pub async fn create(&self, parent: Ino, text: &str) -> (Ino, Handle) {
        let request =
            Request::Create { parent, name: name(text), mode: 0o644, umask: 0, flags: RDWR | 0o100 };
        match self.ask(request).await.unwrap() {
            Response::Created { ino, handle, .. } => (ino, handle),
            other => panic!("{other:?}"),
        }
    }

    pub async fn write(&self, (ino, handle): (Ino, Handle), offset: u64, data: &[u8]) {
        let written = self.ask(Request::Write { ino, handle, offset, data }).await;
        assert_eq!(written, Ok(Response::Written(data.len() as u32)));
    }

    pub async fn read(&self, (ino, handle): (Ino, Handle), offset: u64, size: u32) -> Vec<u8> {
        match self.ask(Request::Read { ino, handle, offset, size }).await.unwrap() {
            Response::Data(pieces) => pieces.concat(),
            other => panic!("{other:?}"),
        }
    }

    pub async fn attr(&self, ino: Ino) -> Attr {
        match self.ask(Request::GetAttr { ino }).await.unwrap() {
            Response::Attr { attr, .. } => attr,
            other => panic!("{other:?}"),
        }
    }

    pub async fn done(&self, request: Request<'_>) {
        let shown = format!("{request:?}");
        assert_eq!(self.ask(request).await, Ok(Response::Done), "{shown}");
    }
}

/// Runs a test on one thread with its own engine and store; afterwards the same engine is mounted again and
/// handed to `again`.
pub fn with_rig<F, G>(test: impl FnOnce(Arc<Rig>) -> F + 'static, again: impl FnOnce(Arc<Rig>) -> G + 'static)
where
    F: Future<Output = ()> + 'static,
    G: Future<Output = ()> + 'static,
{
    with_settings(|_| {}, test, again);
}

/// The same, on a volume with other settings.
pub fn with_settings<F, G>(
    change: impl FnOnce(&mut Settings) + 'static,
    test: impl FnOnce(Arc<Rig>) -> F + 'static,
    again: impl FnOnce(Arc<Rig>) -> G + 'static,
) where
    F: Future<Output = ()> + 'static,
    G: Future<Output = ()> + 'static,
{
    let system = actix::System::new();
    system.block_on(async move {
        let store = Arc::new(Memory::default());
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let mut settings = Settings::new("test-volume", "u", "mem", "mem");
        settings.block_size_kib = 64;
        settings.trash_days = 0;
        change(&mut settings);
        let first = format::new_volume(settings.to_json(), settings.trash_days > 0, true, Time::new(1, 0));
        engine.commit(&first).await.unwrap();
        let rig = open(&store, &engine, &settings).await;
        test(Arc::clone(&rig)).await;
        rig.mount.close().await.unwrap();
        again(open(&store, &engine, &settings).await).await;
    });
}

pub async fn open(store: &Arc<Memory>, engine: &Arc<dyn Engine>, settings: &Settings) -> Arc<Rig> {
    open_with(store, engine, settings, &Options::default()).await
}

pub async fn open_with(
    store: &Arc<Memory>,
    engine: &Arc<dyn Engine>,
    settings: &Settings,
    options: &Options,
) -> Arc<Rig> {
    let clock = Arc::new(Ticks::default());
    let world = World {
        clock: clock.clone(),
        chance: clock,
        offload: Arc::new(Inline),
        objects: Arc::clone(store) as _,
        trace: Arc::clone(store) as _,
    };
    let mount = zest_vfs::mount(world, Arc::clone(engine), settings, options, &Here).await.unwrap();
    Arc::new(Rig { vfs: mount.vfs.clone(), mount, store: Arc::clone(store), engine: Arc::clone(engine) })
}

pub async fn lookup(rig: &Rig, parent: Ino, text: &str) -> Result<(Ino, Attr), Errno> {
    match rig.ask(Request::Lookup { parent, name: name(text) }).await? {
        Response::Entry { ino, attr } => Ok((ino, attr)),
        other => panic!("{other:?}"),
    }
}

pub async fn reopen(rig: &Rig, text: &str) -> (Ino, Handle) {
    let (ino, _) = lookup(rig, Ino::ROOT, text).await.unwrap();
    match rig.ask(Request::Open { ino, flags: RDWR }).await.unwrap() {
        Response::Opened { handle, .. } => (ino, handle),
        other => panic!("{other:?}"),
    }
}
