//! A world for tests of single actors: tokio's paused time, chance by counting, a store in memory whose answers
//! the test chooses, and a list of what happened. Shared by the tests of uploader and cache.
#![allow(dead_code)] // each test file uses its part

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use zest_data::codec::{BlockCodec, KeyPair};
use zest_types::Time;
use zest_types::encoding::{Cipher, Compression};
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, Chance, Clock, Event, NoSecrets, ObjectError, Objects, Offload, Trace, World};

/// What a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Fails before anything happens.
    Transient,
    /// Happens, but the answer is lost.
    LostAnswer,
    Refused,
    Full,
    /// One byte less than there is.
    Short,
    /// No answer, ever.
    Never,
    /// The store's own code panics.
    Panic,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub verb: &'static str,
    pub key: String,
}

type Choose = Box<dyn FnMut(&Call, usize) -> (Duration, Fault) + Send>;

#[derive(Default)]
pub struct State {
    pub objects: BTreeMap<String, Bytes>,
    pub calls: Vec<Call>,
    pub under_way: usize,
    pub most_under_way: usize,
    choose: Option<Choose>,
}

/// The store.
#[derive(Clone, Default)]
pub struct Store(pub Arc<Mutex<State>>);

impl Store {
    /// `choose` is told the request and how often the same one came before.
    pub fn choose(&self, choose: impl FnMut(&Call, usize) -> (Duration, Fault) + Send + 'static) {
        self.0.lock().choose = Some(Box::new(choose));
    }

    pub fn count(&self, verb: &str) -> usize {
        self.0.lock().calls.iter().filter(|call| call.verb == verb).count()
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.lock().objects.contains_key(key)
    }

    fn request<T: Send + 'static>(
        &self,
        verb: &'static str,
        key: &str,
        act: impl FnOnce(&mut State, &str, Fault) -> Result<T, ObjectError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ObjectError>> {
        let (store, call) = (self.0.clone(), Call { verb, key: key.to_owned() });
        Box::pin(async move {
            let (delay, fault) = {
                let mut state = store.lock();
                let before = state.calls.iter().filter(|old| **old == call).count();
                state.calls.push(call.clone());
                state.under_way += 1;
                state.most_under_way = state.most_under_way.max(state.under_way);
                state.choose.as_mut().map_or((Duration::ZERO, Fault::None), |choose| choose(&call, before))
            };
            let _leaves = Leaves(store.clone());
            tokio::time::sleep(delay).await;
            let key = call.key;
            let lost = || ObjectError::Transient { key: key.clone(), why: "made to fail".into() };
            match fault {
                Fault::None | Fault::Short => act(&mut store.lock(), &key, fault),
                Fault::Transient => Err(lost()),
                Fault::LostAnswer => {
                    act(&mut store.lock(), &key, fault)?;
                    Err(lost())
                }
                Fault::Refused => Err(ObjectError::Refused { key, why: "made to".into() }),
                Fault::Full => Err(ObjectError::Full(key)),
                Fault::Panic => panic!("made to panic"),
                Fault::Never => std::future::pending().await,
            }
        })
    }
}

struct Leaves(Arc<Mutex<State>>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

impl Objects for Store {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.request("put", key, move |state, key, _| {
            state.objects.insert(key.to_owned(), data);
            Ok(())
        })
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let verb = if range.is_some() { "get part" } else { "get" };
        self.request(verb, key, move |state, key, fault| {
            let found =
                state.objects.get(key).cloned().ok_or_else(|| ObjectError::NotFound(key.to_owned()))?;
            let found = match range {
                Some(range) => found.slice(range.start as usize..(range.end as usize).min(found.len())),
                None => found,
            };
            Ok(if fault == Fault::Short { found.slice(..found.len() - 1) } else { found })
        })
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.request("delete", key, |state, key, _| {
            state.objects.remove(key);
            Ok(())
        })
    }

    fn list(&self, _: &str, _: &str, _: usize) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now(&self) -> Time {
        Time::default()
    }
    fn mono(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

struct Counting(std::sync::atomic::AtomicU64);

impl Chance for Counting {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(12_345_678_901, std::sync::atomic::Ordering::Relaxed)
    }

    fn secret(&self, bytes: &mut [u8]) -> Result<(), NoSecrets> {
        bytes.iter_mut().for_each(|byte| *byte = (self.next_u64() >> 7) as u8);
        Ok(())
    }
}

struct Nowhere;

impl Offload for Nowhere {
    fn run(&self, _: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        job();
        Box::pin(async {})
    }
}

/// Events in order.
#[derive(Clone, Default)]
pub struct Heard(pub Arc<Mutex<Vec<Event>>>);

impl Trace for Heard {
    fn event(&self, event: Event) {
        self.0.lock().push(event);
    }
}

/// A codec that compresses and encrypts.
pub fn codec() -> Arc<BlockCodec> {
    let key = include_str!("../../../data/tests/keys/pkcs1.pem");
    let pair = KeyPair::from_pem(key, None).unwrap();
    Arc::new(BlockCodec::new(Compression::Zstd, Some((Cipher::Aes256Gcm, pair))))
}

/// A world over this store.
pub fn world(store: &Store, heard: &Heard) -> World {
    World {
        clock: Arc::new(PausedClock(tokio::time::Instant::now())),
        chance: Arc::new(Counting(1.into())),
        offload: Arc::new(Nowhere),
        objects: Arc::new(store.clone()),
        trace: Arc::new(heard.clone()),
    }
}

/// Runs a test on one thread in time that passes only while everyone waits.
pub fn on_one_thread<F: Future<Output = ()> + 'static>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}
