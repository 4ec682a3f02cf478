//! A simulated object store: a map of keys to bytes that survives the client, behind requests that take virtual
//! time and go wrong as the world's fault plan says. An object is there whole or not at all.

use super::chance::SimChance;
use super::clock::{DAWN, SimClock};
use super::faults::{Fates, Fault};
use super::life::{Life, silence};
use super::tape::Tape;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, Clock, Event, ObjectError, Objects, Trace};

/// What is stored. Outlives every client.
#[derive(Default)]
pub struct ObjectMedia {
    objects: Mutex<BTreeMap<String, (Bytes, i64)>>,
}

impl ObjectMedia {
    /// Every key with the size of its object.
    #[must_use]
    pub fn sizes(&self) -> BTreeMap<String, u64> {
        self.objects.lock().iter().map(|(key, (data, _))| (key.clone(), data.len() as u64)).collect()
    }
}

/// The store as one incarnation of the client reaches it.
#[derive(Clone)]
pub struct SimObjects {
    /// What is stored.
    pub media: Arc<ObjectMedia>,
    /// The incarnation.
    pub life: Arc<Life>,
    /// The store's clock, which is right.
    pub clock: Arc<SimClock>,
    /// Draws delays and lengths.
    pub chance: Arc<SimChance>,
    /// Draws faults.
    pub fates: Arc<Fates>,
    /// Where effects are told.
    pub tape: Arc<Tape>,
}

fn transient(key: &str, why: &str) -> ObjectError {
    ObjectError::Transient { key: key.into(), why: why.into() }
}

fn key_number(key: &str) -> u64 {
    key.bytes().fold(0, |hash, byte| super::chance::mix(hash ^ u64::from(byte)))
}

impl SimObjects {
    fn tell(&self, kind: &'static str, key: &str, detail: u64) {
        self.tape.say(|| format!("    object store: {kind} {key} ({detail})"));
        self.tape.event(Event { actor: "objects", kind, subject: key_number(key), detail });
    }

    /// The way to the store: virtual time, and refusal before any effect. Never returns to a dead client.
    async fn reach(&self, kind: &'static str, key: &str) -> Result<(), ObjectError> {
        let slow = self.fates.strikes(Fault::SlowObject);
        let delay = if slow { self.chance.between(500, 8_000) } else { self.chance.between(1, 12) };
        tokio::time::sleep(Duration::from_millis(delay)).await;
        if !self.life.effect("objects", kind) {
            return silence().await;
        }
        if self.fates.strikes(Fault::RefusedObject) {
            self.tell("refused", key, 0);
            return Err(transient(key, "the store asks to slow down"));
        }
        Ok(())
    }

    /// The way back: the answer may be lost, and a dead client hears nothing.
    async fn answer<T>(&self, key: &str, answer: T) -> Result<T, ObjectError> {
        tokio::time::sleep(Duration::from_millis(self.chance.between(0, 2))).await;
        if self.life.is_dead() {
            return silence().await;
        }
        if self.fates.strikes(Fault::LostObjectReply) {
            self.tell("reply lost", key, 0);
            return Err(transient(key, "the connection broke before the answer"));
        }
        Ok(answer)
    }

    async fn do_put(self, key: String, data: Bytes) -> Result<(), ObjectError> {
        self.reach("put", &key).await?;
        if self.fates.strikes(Fault::DeniedPut) {
            self.tell("denied", &key, 0);
            return Err(ObjectError::Refused { key, why: "access denied".into() });
        }
        if self.fates.strikes(Fault::FullStore) {
            self.tell("full", &key, 0);
            return Err(ObjectError::Full(key));
        }
        self.tell("put", &key, data.len() as u64);
        let age = i64::try_from(self.clock.mono().as_secs()).unwrap_or(0);
        self.media.objects.lock().insert(key.clone(), (data, DAWN + age));
        self.answer(&key, ()).await
    }

    async fn do_get(self, key: String, range: Option<Range<u64>>) -> Result<Bytes, ObjectError> {
        self.reach("get", &key).await?;
        let found = self.media.objects.lock().get(&key).map(|(data, _)| data.clone());
        let Some(data) = found else {
            self.tell("missing", &key, 0);
            return Err(ObjectError::NotFound(key));
        };
        let whole = 0..data.len() as u64;
        let range = range.unwrap_or(whole.clone());
        let start = range.start.min(whole.end) as usize;
        let end = range.end.clamp(range.start.min(whole.end), whole.end) as usize;
        let mut body = data.slice(start..end);
        if !body.is_empty() && self.fates.strikes(Fault::ShortBody) {
            let keep = self.chance.below(body.len() as u64) as usize;
            body.truncate(keep);
            self.tell("short body", &key, keep as u64);
        }
        self.tell("get", &key, body.len() as u64);
        self.answer(&key, body).await
    }

    async fn do_delete(self, key: String) -> Result<(), ObjectError> {
        self.reach("delete", &key).await?;
        self.media.objects.lock().remove(&key);
        self.tell("delete", &key, 0);
        self.answer(&key, ()).await
    }

    async fn do_list(
        self,
        prefix: String,
        after: String,
        limit: usize,
    ) -> Result<Vec<ObjectMeta>, ObjectError> {
        self.reach("list", &prefix).await?;
        let found: Vec<ObjectMeta> = {
            let objects = self.media.objects.lock();
            let behind = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
            behind
                .take(limit)
                .map(|(key, (data, at))| {
                    let (key, size) = (key.clone(), data.len() as u64);
                    ObjectMeta { key, size, modified: *at }
                })
                .collect()
        };
        self.tell("list", &prefix, found.len() as u64);
        self.answer(&prefix, found).await
    }
}

impl Objects for SimObjects {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        Box::pin(self.clone().do_put(key.into(), data))
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        Box::pin(self.clone().do_get(key.into(), range))
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        Box::pin(self.clone().do_delete(key.into()))
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        Box::pin(self.clone().do_list(prefix.into(), after.into(), limit))
    }
}
