//! Two mounts of one volume, on an engine that others may use, too, and that tells nobody of it: what one closed the
//! other sees when it opens, whatever its leases say; and what may change while a mount serves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zest_engines::MemoryEngine;
use zest_metadata::{Applied, ChangeSet, CommitError, Engine, EngineError, Key, Record, Scan, Write, format};
use zest_types::volume::Settings;
use zest_types::{Attr, Caller, Errno, Handle, Ino, Name, Request, Response, ServeResult, Time};
use zest_vfs::{Mount, Options, Role, Stage};
use zest_world::objects::ObjectMeta;
use zest_world::trace::Silent;
use zest_world::{BoxFuture, Chance, Clock, ObjectError, Objects, Offload, World};

/// An engine that others may use, too.
struct Shared(MemoryEngine);

thread_local! {
    /// What others do just before this key is read next.
    static BEFORE: RefCell<Option<(Key, ChangeSet)>> = const { RefCell::new(None) };
}

#[async_trait]
impl Engine for Shared {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        let due = BEFORE.with_borrow_mut(|before| before.take_if(|(key, _)| keys.contains(key)));
        if let Some((_, changes)) = due {
            self.0.commit(&changes).await.expect("others change it");
        }
        self.0.read(keys).await
    }
    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.0.scan(scan).await
    }
    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.0.commit(changes).await
    }
    async fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }
    fn exclusive(&self) -> bool {
        false
    }
}

/// The outside of both mounts. Time moves, but so little that no lease ends.
#[derive(Default)]
struct Outside {
    ticks: AtomicU64,
    objects: Mutex<BTreeMap<String, Bytes>>,
}

impl Clock for Outside {
    fn now(&self) -> Time {
        Time::new(1_700_000_000 + self.ticks.fetch_add(1, Ordering::Relaxed).cast_signed(), 7)
    }
    fn mono(&self) -> Duration {
        Duration::from_micros(self.ticks.fetch_add(1, Ordering::Relaxed))
    }
    #[allow(clippy::disallowed_methods)]
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

impl Chance for Outside {
    fn next_u64(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }
}

impl Offload for Outside {
    fn run(&self, _: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        job();
        Box::pin(async {})
    }
}

impl Objects for Outside {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.objects.lock().insert(key.into(), data);
        Box::pin(async { Ok(()) })
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

struct Here;

impl Stage for Here {
    fn start(&self, _: Role, begin: Box<dyn FnOnce() + Send>) {
        begin();
    }
}

const ME: Caller = Caller { uid: 0, gid: 0, pid: 1, check: false };
const RDWR: u32 = 2;

async fn ask(mount: &Mount, request: Request<'_>) -> ServeResult {
    let (reply, answer) = tokio::sync::oneshot::channel();
    mount.vfs.serve(&ME, request, move |result| drop(reply.send(result)));
    answer.await.unwrap()
}

async fn create(mount: &Mount, name: &str) -> (Ino, Handle) {
    let name = Name::new(name.as_bytes()).unwrap();
    let request = Request::Create { parent: Ino::ROOT, name, mode: 0o644, umask: 0, flags: RDWR | 0o100 };
    match ask(mount, request).await.unwrap() {
        Response::Created { ino, handle, .. } => (ino, handle),
        other => panic!("{other:?}"),
    }
}

/// An open, and whether the kernel keeps its pages.
async fn open(mount: &Mount, ino: Ino) -> (Handle, bool) {
    match ask(mount, Request::Open { ino, flags: RDWR }).await.unwrap() {
        Response::Opened { handle, keep_cache } => (handle, keep_cache),
        other => panic!("{other:?}"),
    }
}

async fn read(mount: &Mount, ino: Ino, handle: Handle) -> Vec<u8> {
    match ask(mount, Request::Read { ino, handle, offset: 0, size: 4096 }).await.unwrap() {
        Response::Data(pieces) => pieces.concat(),
        other => panic!("{other:?}"),
    }
}

async fn write(mount: &Mount, ino: Ino, handle: Handle, data: &[u8]) {
    ask(mount, Request::Write { ino, handle, offset: 0, data }).await.unwrap();
}

async fn close(mount: &Mount, ino: Ino, handle: Handle) {
    ask(mount, Request::Flush { ino, handle, lock_owner: 0 }).await.unwrap();
    ask(mount, Request::Release { ino, handle }).await.unwrap();
}

async fn attr(mount: &Mount, ino: Ino) -> Attr {
    match ask(mount, Request::GetAttr { ino }).await.unwrap() {
        Response::Attr { attr, .. } => attr,
        other => panic!("{other:?}"),
    }
}

/// Runs a test with two mounts; `options` are the second one's.
fn with_two<F: Future<Output = ()>>(options: Options, test: impl FnOnce(Mount, Mount) -> F) {
    actix::System::new().block_on(async move {
        let engine: Arc<dyn Engine> = Arc::new(Shared(MemoryEngine::default()));
        let mut settings = Settings::new("test-volume", "u", "mem", "mem");
        settings.trash_days = 0;
        settings.block_size_kib = 64;
        engine.commit(&format::new_volume(settings.to_json(), false, true, Time::new(1, 0))).await.unwrap();
        let outside = Arc::new(Outside::default());
        let world = World {
            clock: Arc::clone(&outside) as _,
            chance: Arc::clone(&outside) as _,
            offload: Arc::clone(&outside) as _,
            objects: outside,
            trace: Arc::new(Silent),
        };
        let first = Options::default();
        let one =
            zest_vfs::mount(world.clone(), Arc::clone(&engine), &settings, &first, &Here).await.unwrap();
        let two = zest_vfs::mount(world, engine, &settings, &options, &Here).await.unwrap();
        test(one, two).await;
    });
}

#[test]
fn an_open_sees_what_was_closed_elsewhere() {
    with_two(Options::default(), |one, two| async move {
        let (ino, handle) = create(&one, "f").await;
        write(&one, ino, handle, b"first").await;
        close(&one, ino, handle).await;
        for content in [&b"second"[..], b"thirds", b"4"] {
            let (here, _) = open(&two, ino).await;
            read(&two, ino, here).await;
            close(&two, ino, here).await;
            let (there, _) = open(&one, ino).await;
            ask(&one, Request::SetAttr { ino, set: size(0), handle: Some(there) }).await.unwrap();
            write(&one, ino, there, content).await;
            close(&one, ino, there).await;
            let (here, keep_cache) = open(&two, ino).await;
            assert!(!keep_cache, "the kernel must drop its pages");
            assert_eq!(read(&two, ino, here).await, content);
            close(&two, ino, here).await;
            let (here, keep_cache) = open(&two, ino).await;
            assert!(keep_cache, "nobody changed it: the kernel may keep its pages");
            close(&two, ino, here).await;
        }
    });
}

#[test]
fn what_others_replaced_is_stale_and_its_name_leads_to_the_new_file() {
    with_two(Options::default(), |one, two| async move {
        let (root, name) = (Ino::ROOT, |text: &str| Name::new(text.as_bytes()).unwrap());
        let lookup = |text: &str| Request::Lookup { parent: root, name: name(text) };
        let found = |answer: ServeResult| match answer {
            Ok(Response::Entry { ino, .. }) => ino,
            other => panic!("{other:?}"),
        };
        let (old, handle) = create(&one, "f").await;
        close(&one, old, handle).await;
        assert_eq!(found(ask(&two, lookup("f")).await), old);
        let (new, handle) = create(&one, "next").await;
        close(&one, new, handle).await;
        let mode = zest_types::request::RenameMode::Replace;
        let (parent, new_parent) = (root, root);
        let rename = Request::Rename { parent, name: name("next"), new_parent, new_name: name("f"), mode };
        ask(&one, rename).await.unwrap();
        // Whoever still has its number is told to look again, and then finds the other one.
        let requests = [
            Request::Open { ino: old, flags: 0 },
            Request::GetAttr { ino: old },
            Request::Access { ino: old, mask: 4 },
            Request::ListXattr { ino: old },
        ];
        for request in requests {
            assert_eq!(ask(&two, request.clone()).await, Err(Errno::ESTALE), "{request:?}");
        }
        assert_eq!(found(ask(&two, lookup("f")).await), new);
        assert_eq!(ask(&two, lookup("next")).await, Err(Errno::ENOENT), "just a name nobody has");
        // The same of a directory: its names were in it.
        let dir = Request::Mkdir { parent: root, name: name("d"), mode: 0o755, umask: 0 };
        let dir = found(ask(&one, dir).await);
        assert_eq!(found(ask(&two, lookup("d")).await), dir);
        ask(&one, Request::Rmdir { parent: root, name: name("d") }).await.unwrap();
        let (parent, umask, flags) = (dir, 0, 2);
        let create = Request::Create { parent, name: name("x"), mode: 0o644, umask, flags };
        assert_eq!(ask(&two, create).await, Err(Errno::ESTALE));
        assert_eq!(ask(&two, Request::Unlink { parent, name: name("x") }).await, Err(Errno::ESTALE));
        let unlink = Request::Unlink { parent: root, name: name("x") };
        assert_eq!(ask(&two, unlink).await, Err(Errno::ENOENT));
    });
}

#[test]
fn a_name_is_found_also_when_it_is_replaced_in_the_middle_of_a_lookup() {
    with_two(Options::default(), |one, two| async move {
        let (old, handle) = create(&one, "f").await;
        close(&one, old, handle).await;
        let (new, handle) = create(&one, "next").await;
        close(&one, new, handle).await;
        let name = Name::new(b"f").unwrap();
        let entry = Record::Dentry { kind: zest_types::FileType::File, ino: new };
        let key = Key::Dentry(Ino::ROOT, name.clone());
        let write = vec![Write::Delete(Key::Attr(old)), Write::Put(key, entry)];
        BEFORE.set(Some((Key::Attr(old), ChangeSet { expect: Vec::new(), write })));
        match ask(&two, Request::Lookup { parent: Ino::ROOT, name }).await {
            Ok(Response::Entry { ino, .. }) => assert_eq!(ino, new),
            other => panic!("{other:?}"),
        }
        assert!(BEFORE.take().is_none(), "others did it");
    });
}

fn size(size: u64) -> zest_types::request::SetAttr {
    zest_types::request::SetAttr { size: Some(size), ..Default::default() }
}

#[test]
fn attributes_are_asked_for_each_time_and_a_close_commits() {
    with_two(Options::default(), |one, two| async move {
        let (ino, handle) = create(&one, "f").await;
        assert_eq!(attr(&two, ino).await.length, 0);
        write(&one, ino, handle, b"12345").await;
        ask(&one, Request::Flush { ino, handle, lock_owner: 0 }).await.unwrap();
        assert_eq!(attr(&two, ino).await.length, 5, "flush returns when others can see it");
    });
}

#[test]
fn with_an_open_cache_opens_do_not_ask() {
    let options = Options { open_cache: Duration::from_secs(60), ..Options::default() };
    with_two(options, |one, two| async move {
        let (ino, handle) = create(&one, "f").await;
        write(&one, ino, handle, b"first").await;
        close(&one, ino, handle).await;
        let (here, _) = open(&two, ino).await;
        assert_eq!(read(&two, ino, here).await, b"first");
        close(&two, ino, here).await;
        let (there, _) = open(&one, ino).await;
        write(&one, ino, there, b"other").await;
        close(&one, ino, there).await;
        let (here, keep_cache) = open(&two, ino).await;
        assert!(keep_cache);
        assert_eq!(read(&two, ino, here).await, b"first", "believed for a minute");
    });
}

#[test]
fn a_frozen_mount_shows_and_takes_nothing_and_new_limits_hold_at_once() {
    with_two(Options::default(), |one, two| async move {
        let (ino, handle) = create(&one, "f").await;
        let live = &one.vfs.shared().live;
        assert!(live.freeze(true) && !live.freeze(true));
        let refused = ask(&one, Request::Write { ino, handle, offset: 0, data: b"x" }).await;
        assert_eq!(refused, Err(Errno::EROFS));
        assert_eq!(attr(&one, ino).await.length, 0);
        assert!(live.freeze(false));
        write(&one, ino, handle, b"x").await;
        close(&one, ino, handle).await;
        let mut settings = Settings::new("test-volume", "u", "mem", "mem");
        settings.inodes = 1;
        two.take_settings(&settings);
        let name = Name::new(b"g").unwrap();
        let request = Request::Create { parent: Ino::ROOT, name, mode: 0o644, umask: 0, flags: RDWR | 0o100 };
        assert_eq!(ask(&two, request).await, Err(Errno::ENOSPC));
        let (other, handle) = create(&one, "h").await;
        close(&one, other, handle).await;
    });
}

/// Names of the objects of a file's first chunk, as this mount knows them; its memory forgets their blocks.
fn objects_of(mount: &Mount, ino: Ino) -> Vec<String> {
    let shared = mount.vfs.shared();
    let list = shared.views.chunk(ino, 0, Duration::ZERO).unwrap();
    let all = list.iter().flat_map(|slice| shared.names.of_slice(slice.id, slice.size));
    all.map(|(block, key)| {
        shared.tier.remove(&block);
        key
    })
    .collect()
}

async fn read_all(mount: &Mount, ino: Ino, handle: Handle) -> Result<Vec<u8>, Errno> {
    match ask(mount, Request::Read { ino, handle, offset: 0, size: 1 << 20 }).await? {
        Response::Data(pieces) => Ok(pieces.concat()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_that_were_replaced_elsewhere_are_looked_for_in_a_fresh_list() {
    with_two(Options::default(), |one, two| async move {
        let content: Vec<u8> = (0..200_000u32).map(|n| (n / 3) as u8).collect();
        let (ino, handle) = create(&one, "f").await;
        write(&one, ino, handle, &content).await;
        close(&one, ino, handle).await;
        let (here, _) = open(&two, ino).await;
        assert_eq!(read_all(&two, ino, here).await.unwrap(), content);
        // The same bytes in another slice, as after a compaction, and the old objects are gone.
        let (there, _) = open(&one, ino).await;
        write(&one, ino, there, &content).await;
        close(&one, ino, there).await;
        let old = objects_of(&two, ino);
        assert_eq!(old.len(), 4);
        for key in &old {
            two.vfs.shared().world.objects.delete(key).await.unwrap();
        }
        assert_eq!(read_all(&two, ino, here).await.unwrap(), content, "the list was believed until now");
        let new = objects_of(&two, ino);
        assert!(new.iter().any(|key| !old.contains(key)));
    });
}

#[test]
fn a_block_that_another_client_stores_late_is_waited_for() {
    with_two(Options::default(), |one, two| async move {
        let (ino, handle) = create(&one, "f").await;
        write(&one, ino, handle, b"late").await;
        close(&one, ino, handle).await;
        let (here, _) = open(&two, ino).await;
        assert_eq!(read_all(&two, ino, here).await.unwrap(), b"late");
        let key = objects_of(&two, ino).remove(0);
        let objects = Arc::clone(&two.vfs.shared().world.objects);
        let data = objects.get(&key, None).await.unwrap();
        objects.delete(&key).await.unwrap();
        let stored = actix::spawn(async move {
            #[allow(clippy::disallowed_methods)]
            tokio::time::sleep(Duration::from_millis(150)).await;
            objects.put(&key, data).await.unwrap();
        });
        assert_eq!(read_all(&two, ino, here).await.unwrap(), b"late");
        stored.await.unwrap();
    });
}
