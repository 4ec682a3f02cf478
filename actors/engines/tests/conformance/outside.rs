//! The outside for engines under test: a real clock, work done at once, a disk in a temporary folder, sockets.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use zest_engines::EmbeddedEngine;
use zest_types::Time;
use zest_world::trace::Silent;
use zest_world::{BoxFuture, Chance, Clock, Dial, Disk, DiskFile, Objects, Offload, Stream, Target, World};

struct Now(Instant);

impl Clock for Now {
    fn now(&self) -> Time {
        Time::new(1_700_000_000, 0)
    }

    fn mono(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move { tokio::time::sleep(time).await })
    }
}

struct Counting(Mutex<u64>);

impl Chance for Counting {
    fn next_u64(&self) -> u64 {
        let mut n = self.0.lock().unwrap();
        *n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *n
    }
}

struct AtOnce;

impl Offload for AtOnce {
    fn run(&self, _: &'static str, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        work();
        Box::pin(async {})
    }
}

struct NoObjects;

impl Objects for NoObjects {
    fn put(&self, key: &str, _: bytes::Bytes) -> BoxFuture<'static, Result<(), zest_world::ObjectError>> {
        let key = key.to_owned();
        Box::pin(async move { Err(zest_world::ObjectError::NotFound(key)) })
    }

    fn get(
        &self,
        key: &str,
        _: Option<std::ops::Range<u64>>,
    ) -> BoxFuture<'static, Result<bytes::Bytes, zest_world::ObjectError>> {
        let key = key.to_owned();
        Box::pin(async move { Err(zest_world::ObjectError::NotFound(key)) })
    }

    fn delete(&self, _: &str) -> BoxFuture<'static, Result<(), zest_world::ObjectError>> {
        Box::pin(async { Ok(()) })
    }

    fn list(
        &self,
        _: &str,
        _: &str,
        _: usize,
    ) -> BoxFuture<'static, Result<Vec<zest_world::objects::ObjectMeta>, zest_world::ObjectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

pub fn world() -> World {
    World {
        clock: Arc::new(Now(Instant::now())),
        chance: Arc::new(Counting(Mutex::new(1))),
        offload: Arc::new(AtOnce),
        objects: Arc::new(NoObjects),
        trace: Arc::new(Silent),
    }
}

/// Files in memory.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, Arc<File>>>);

#[derive(Default)]
struct File(Mutex<Vec<u8>>);

impl Disk for Memory {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = self.0.lock().unwrap();
        if !create && !files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(files.entry(name.to_owned()).or_default().clone())
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.0.lock().unwrap().contains_key(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let data = self.0.lock().unwrap();
        let from = usize::try_from(offset).unwrap();
        let part = data.get(from..from + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut data = self.0.lock().unwrap();
        let from = usize::try_from(offset).unwrap();
        let end = data.len().max(from + bytes.len());
        data.resize(end, 0);
        data[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
}

pub fn embedded() -> EmbeddedEngine {
    EmbeddedEngine::open(Arc::new(Memory::default()), &world()).unwrap()
}

/// Connections of this machine.
pub struct Sockets;

impl Dial for Sockets {
    fn dial(&self, target: &Target) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let target = target.to_string();
        Box::pin(async move { Ok(Box::new(TcpStream::connect(target).await?) as Box<dyn Stream>) })
    }
}
