//! A simulated record store: the engine in memory behind requests that take virtual time and go wrong as the
//! world's fault plan says. A commit it has answered is durable. It is not exclusive, so leases end.

use super::chance::SimChance;
use super::faults::{Fates, Fault};
use super::life::{Life, silence};
use super::tape::Tape;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use zest_engines::memory::MemoryEngine;
use zest_metadata::engine::Found;
use zest_metadata::{
    Applied, ChangeSet, CommitError, Engine, EngineError, Expect, Key, Record, Scan, SlicePage,
};
use zest_world::{Event, Trace};

/// The store as one incarnation of the client reaches it.
pub struct SimRecords {
    /// What is stored; outlives every client.
    pub media: Arc<MemoryEngine>,
    /// The incarnation.
    pub life: Arc<Life>,
    /// Draws delays.
    pub chance: Arc<SimChance>,
    /// Draws faults.
    pub fates: Arc<Fates>,
    /// Where effects are told.
    pub tape: Arc<Tape>,
}

fn expected_key(expect: &Expect) -> Option<Key> {
    match expect {
        Expect::Absent(key) | Expect::Same(key, _) => Some(key.clone()),
        Expect::Attr { ino, .. } => Some(Key::Attr(*ino)),
        Expect::Empty(_) => None,
    }
}

impl SimRecords {
    fn tell(&self, kind: &'static str, subject: usize, detail: u64) {
        self.tape.event(Event { actor: "records", kind, subject: subject as u64, detail });
    }

    async fn reach(&self, kind: &'static str) {
        let stall = self.fates.strikes(Fault::Stall);
        let delay = if stall { self.chance.between(200, 3_000) } else { self.chance.between(0, 4) };
        tokio::time::sleep(Duration::from_millis(delay)).await;
        if !self.life.effect("records", kind) {
            silence::<()>().await;
        }
    }

    async fn back(&self) {
        tokio::time::sleep(Duration::from_millis(self.chance.between(0, 2))).await;
        if self.life.is_dead() {
            silence::<()>().await;
        }
    }

    fn fresh(&self, changes: &ChangeSet) -> Result<Found, EngineError> {
        let keys: Vec<Key> = changes.expect.iter().filter_map(expected_key).collect();
        let records = self.media.read_now(&keys)?;
        Ok(keys.into_iter().zip(records).collect())
    }
}

#[async_trait]
impl Engine for SimRecords {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.reach("read").await;
        let found = self.media.read_now(keys);
        self.tell("read", keys.len(), 0);
        self.back().await;
        found
    }

    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.reach("scan").await;
        let found = self.media.scan_now(scan);
        self.tell("scan", found.as_ref().map_or(0, Vec::len), 0);
        self.back().await;
        found
    }

    async fn slices(&self, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
        self.reach("slices").await;
        let page = self.media.slices(from).await;
        self.tell("slices", page.as_ref().map_or(0, |(found, _)| found.len()), 0);
        self.back().await;
        page
    }

    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.reach("commit").await;
        if !changes.expect.is_empty() && self.fates.strikes(Fault::SpuriousConflict) {
            self.tell("spurious conflict", changes.expect.len(), 0);
            let fresh = self.fresh(changes)?;
            self.back().await;
            return Err(CommitError::Conflict(fresh));
        }
        if self.fates.strikes(Fault::UnknownDropped) {
            self.tell("commit lost", changes.write.len(), 0);
            self.back().await;
            return Err(CommitError::Unknown("the connection broke".into()));
        }
        let outcome = self.media.commit_now(changes);
        let verdict = match &outcome {
            Ok(_) => 0,
            Err(CommitError::Conflict(_)) => 1,
            Err(CommitError::Unknown(_)) => 2,
            Err(CommitError::Engine(_)) => 3,
        };
        self.tape.say(|| format!("    record store: commit of {changes:?} → {verdict}"));
        self.tell("commit", changes.write.len(), verdict);
        self.back().await;
        if outcome.is_ok() && self.fates.strikes(Fault::UnknownCommitted) {
            self.tell("answer lost", changes.write.len(), 0);
            return Err(CommitError::Unknown("the connection broke".into()));
        }
        outcome
    }

    async fn sync(&self) -> Result<(), EngineError> {
        self.reach("sync").await;
        self.back().await;
        Ok(())
    }

    fn exclusive(&self) -> bool {
        false
    }
}
