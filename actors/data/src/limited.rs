//! In front of an object store: requests keep within a bandwidth, each way its own, and are given up when there is no
//! answer in time; time in the line is no time of the request. Knows nothing of what the bytes are.

use crate::bandwidth::Bandwidth;
use crate::retry::within;
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use zest_types::limits::{BLOCK_SIZE_RANGE, OBJECT_RETRIES, OBJECT_TIMEOUT_MS};
use zest_world::objects::{Manners, ObjectMeta};
use zest_world::{BoxFuture, Clock, ObjectError, Objects};

/// What a user asks of the traffic with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// A get, or a listing, is given up after this long.
    pub get_timeout: Duration,
    /// A put, or a removal, is given up after this long.
    pub put_timeout: Duration,
    /// How often a request that failed for now is tried again.
    pub retries: u32,
    /// Bytes a second upwards; 0 is no limit.
    pub upload: u64,
    /// Bytes a second downwards; 0 is no limit.
    pub download: u64,
}

impl Default for Traffic {
    fn default() -> Traffic {
        let timeout = Duration::from_millis(OBJECT_TIMEOUT_MS);
        let (upload, download) = (0, 0);
        Traffic { get_timeout: timeout, put_timeout: timeout, retries: OBJECT_RETRIES, upload, download }
    }
}

/// A store behind the limits.
pub struct LimitedObjects {
    store: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    traffic: Traffic,
    up: Arc<Mutex<Bandwidth>>,
    down: Arc<Mutex<Bandwidth>>,
}

impl LimitedObjects {
    /// This store, with these limits.
    #[must_use]
    pub fn new(store: Arc<dyn Objects>, clock: Arc<dyn Clock>, traffic: Traffic) -> LimitedObjects {
        let line = |rate| Arc::new(Mutex::new(Bandwidth::new(rate)));
        LimitedObjects { store, clock, up: line(traffic.upload), down: line(traffic.download), traffic }
    }

    /// From now on so many bytes a second may move up and down; 0 is no limit.
    pub fn set_limits(&self, upload: u64, download: u64) {
        let now = self.clock.mono();
        self.up.lock().set_rate(upload, now);
        self.down.lock().set_rate(download, now);
    }

    /// Bytes a second up and down; 0 is no limit.
    #[must_use]
    pub fn limits(&self) -> (u64, u64) {
        (self.up.lock().rate(), self.down.lock().rate())
    }

    /// One try, in time.
    fn within<T: Send + 'static>(
        &self,
        limit: Duration,
        key: &str,
        request: BoxFuture<'static, Result<T, ObjectError>>,
    ) -> BoxFuture<'static, Result<T, ObjectError>> {
        let (clock, key) = (Arc::clone(&self.clock), key.to_owned());
        Box::pin(async move { within(&*clock, limit, &key, request).await })
    }
}

/// Bytes that stand in a line; those that did not move when this is dropped are for others.
struct Place {
    line: Arc<Mutex<Bandwidth>>,
    bytes: u64,
}

impl Place {
    /// Takes a place, and waits for the turn.
    async fn take(line: &Arc<Mutex<Bandwidth>>, clock: &Arc<dyn Clock>, bytes: u64) -> Place {
        let turn = line.lock().queue(bytes, clock.mono());
        let place = Place { line: Arc::clone(line), bytes };
        loop {
            let wait = line.lock().wait(turn, clock.mono());
            let Some(wait) = wait else { return place };
            clock.sleep(wait).await;
        }
    }

    /// So many bytes moved.
    fn moved(mut self, bytes: u64) {
        self.line.lock().charge(bytes.saturating_sub(self.bytes));
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.line.lock().give_back(self.bytes);
    }
}

/// How many bytes an object will bring: names of blocks end with a number of bytes. What is wrong with it is put right
/// when they are here.
fn expected(key: &str, range: Option<&Range<u64>>) -> u64 {
    let named = || key.rsplit('_').next().and_then(|size| size.parse().ok()).unwrap_or(0);
    let bytes = range.map_or_else(named, |range| range.end.saturating_sub(range.start));
    bytes.min(u64::from(BLOCK_SIZE_RANGE.1))
}

impl Objects for LimitedObjects {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        let (store, clock, line) = (Arc::clone(&self.store), Arc::clone(&self.clock), Arc::clone(&self.up));
        let (limit, key) = (self.traffic.put_timeout, key.to_owned());
        Box::pin(async move {
            let bytes = data.len() as u64;
            let place = Place::take(&line, &clock, bytes).await;
            // Whatever comes of it, the bytes were sent.
            place.moved(bytes);
            let request = store.put(&key, data);
            within(&*clock, limit, &key, request).await
        })
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let (store, clock, line) = (Arc::clone(&self.store), Arc::clone(&self.clock), Arc::clone(&self.down));
        let (limit, key) = (self.traffic.get_timeout, key.to_owned());
        Box::pin(async move {
            let place = Place::take(&line, &clock, expected(&key, range.as_ref())).await;
            let request = store.get(&key, range);
            let answer = within(&*clock, limit, &key, request).await;
            place.moved(answer.as_ref().map_or(0, |data| data.len() as u64));
            answer
        })
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.within(self.traffic.put_timeout, key, self.store.delete(key))
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        self.within(self.traffic.get_timeout, prefix, self.store.list(prefix, after, limit))
    }

    fn manners(&self) -> Manners {
        let Traffic { get_timeout, put_timeout, retries, .. } = self.traffic;
        // Asking twice would spend what there is little of.
        let hedge = self.down.lock().rate() == 0;
        Manners { timeout: get_timeout.max(put_timeout), keeps_time: true, retries, hedge }
    }
}
