//! A door without a kernel: a socket in the place of the device, a volume in memory, and a clock that stands still.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair, sockopt};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use zest_codec::kernel::{Origin, request};
use zest_codec::{Dialect, Operation};
use zest_engines::MemoryEngine;
use zest_fuse::door::DoorOptions;
use zest_fuse::native::{self, Device, NativeDoor};
use zest_metadata::{Engine, format};
use zest_types::Time;
use zest_types::volume::Settings;
use zest_vfs::{Mount, Options, Role, Stage, Vfs};
use zest_world::objects::ObjectMeta;
use zest_world::trace::Silent;
use zest_world::{BoxFuture, Chance, Clock, ObjectError, Objects, Offload, World};

#[derive(Default)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Time {
        Time::new(1_700_000_000, 7)
    }
    fn mono(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

impl Chance for Still {
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

/// Objects in memory; a store that is `dead` answers nothing, not even an error.
#[derive(Default)]
pub struct Store {
    objects: Mutex<BTreeMap<String, Bytes>>,
    pub dead: AtomicBool,
}

impl Store {
    fn answer<T: Send + 'static>(
        &self,
        result: Result<T, ObjectError>,
    ) -> BoxFuture<'static, Result<T, ObjectError>> {
        if self.dead.load(Ordering::Acquire) {
            return Box::pin(std::future::pending());
        }
        Box::pin(async move { result })
    }
}

impl Objects for Store {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        if !self.dead.load(Ordering::Acquire) {
            self.objects.lock().insert(key.into(), data);
        }
        self.answer(Ok(()))
    }
    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let found = self.objects.lock().get(key).cloned().ok_or_else(|| ObjectError::NotFound(key.into()));
        self.answer(found.map(|data| match range {
            Some(range) => data.slice(range.start as usize..(range.end as usize).min(data.len())),
            None => data,
        }))
    }
    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.objects.lock().remove(key);
        self.answer(Ok(()))
    }
    fn list(&self, _: &str, _: &str, _: usize) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        self.answer(Ok(Vec::new()))
    }
}

struct Here;

impl Stage for Here {
    fn start(&self, _: Role, begin: Box<dyn FnOnce() + Send>) {
        begin();
    }
}

/// A mounted volume; its actors run in a thread of their own.
pub struct Volume {
    pub vfs: Vfs,
    pub store: Arc<Store>,
    system: actix::System,
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.system.stop();
    }
}

pub fn volume(options: Options) -> Volume {
    let store = Arc::new(Store::default());
    let (ready, mounted) = mpsc::channel();
    let objects = Arc::clone(&store);
    std::thread::spawn(move || {
        let runner = actix::System::new();
        let mount: Mount = runner.block_on(async move {
            let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
            let mut settings = Settings::new("wire", "u", "mem", "mem");
            settings.trash_days = 0;
            let first = format::new_volume(settings.to_json(), false, true, Time::new(1, 0));
            engine.commit(&first).await.unwrap();
            let clock = Arc::new(Still::default());
            let world = World {
                clock: clock.clone(),
                chance: clock,
                offload: Arc::new(Inline),
                objects,
                trace: Arc::new(Silent),
            };
            zest_vfs::mount(world, engine, &settings, &options, &Here).await.unwrap()
        });
        ready.send((mount.vfs.clone(), actix::System::current())).unwrap();
        runner.run().unwrap();
        drop(mount);
    });
    let (vfs, system) = mounted.recv().unwrap();
    Volume { vfs, store, system }
}

/// The two ends in the place of the kernel's device.
pub fn pair() -> (OwnedFd, OwnedFd) {
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    for end in [&pair.0, &pair.1] {
        sockopt::set_socket_send_buffer_size(end, 4 << 20).unwrap();
    }
    // Nothing takes this long, and a test that waits for ever tells nobody why.
    sockopt::set_socket_timeout(&pair.0, sockopt::Timeout::Recv, Some(Duration::from_secs(60))).unwrap();
    pair
}

/// The kernel's end.
pub struct Wire {
    socket: OwnedFd,
    unique: u64,
    buffer: Vec<u8>,
}

impl Wire {
    pub fn new(socket: OwnedFd) -> Wire {
        Wire { socket, unique: 0, buffer: vec![0; 4 << 20] }
    }

    pub fn send(&self, bytes: &[u8]) {
        assert_eq!(rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL).unwrap(), bytes.len());
    }

    pub fn receive(&mut self) -> Vec<u8> {
        let (_, len) = rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()).unwrap();
        assert!(len > 0, "the door is closed");
        self.buffer[..len].to_vec()
    }

    /// Sends a request; its number.
    pub fn begin(&mut self, nodeid: u64, operation: &Operation<'_>) -> u64 {
        self.unique += 2;
        let origin = Origin { unique: self.unique, nodeid, uid: 0, gid: 0, pid: 0 };
        self.send(&request(&origin, operation, Dialect::default()));
        self.unique
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, nodeid: u64, operation: &Operation<'_>) -> Vec<u8> {
        self.begin(nodeid, operation);
        self.receive()
    }
}

/// What a kernel of today says first.
pub fn init() -> Operation<'static> {
    Operation::Init(zest_codec::abi::InitIn {
        major: 7,
        minor: 45,
        max_readahead: 131_072,
        flags: u32::MAX,
        flags2: u32::MAX,
        ..Default::default()
    })
}

/// Our own door of a volume; INIT must be on its way already.
pub fn native(vfs: Vfs, door: DoorOptions, locks: bool, fd: OwnedFd) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let handler = Arc::new(NativeDoor::new(vfs, native::Options { door, locks }).unwrap());
        let wish = native::wish(door.shared, false, locks, true);
        let session = native::Session::begin(handler, Device::new(fd, None), None, &wish, 1).unwrap();
        session.run().unwrap();
    })
}
