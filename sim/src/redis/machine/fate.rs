//! How a server ends and begins again, and the phases in which it is not itself.

use super::store::{End, Image};
use super::{Machine, Mishap, Replica, State, prepare};
use crate::redis::server::Server;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// How often in a second it is drawn whether something strikes.
const PARTS: u32 = 5;
/// A server that ends again and again proves nothing: after so many times by itself it stays up.
const MOST_ENDS: u64 = 10;
const PART: Duration = Duration::from_millis(1000 / PARTS as u64);

impl Machine {
    /// The process or its machine ends, and begins again after a while with what is left.
    pub(super) fn end(&self, state: &mut State, how: End, pause: Duration) {
        let logs = state.server.config.is("appendonly");
        let (server, lost) = state.store.recover(self.model.version, logs, how);
        let process = state.server.facts.process + 1;
        let config = state.server.config.clone();
        state.server = server;
        prepare(&mut state.server, &self.model, state.born);
        state.server.config = config;
        state.server.facts.process = process;
        state.server.facts.synced = state.server.offset;
        state.child = None;
        state.sync = None;
        state.debt = Duration::ZERO;
        state.up = false;
        state.starts = Some(Instant::now() + pause);
        self.hang_up(state);
        self.tell("process ends", process, lost as u64);
        self.tape.say(|| format!("redis: the process ends ({how:?}); {lost} writes are lost"));
        // A replica takes everything anew.
        self.follow(state);
    }

    fn follow(&self, state: &mut State) {
        if self.model.replica_lag.is_some() {
            let mut server = Server::new(self.model.version);
            Image::of(&state.server).restore(&mut server);
            state.replica = Some(Replica { server, queue: VecDeque::new() });
        }
    }

    fn hang_up(&self, state: &mut State) {
        for link in std::mem::take(&mut state.links).into_values() {
            link.dead.set(true);
            link.wake.notify_one();
        }
    }

    /// The replica becomes the primary; what it was not told yet is lost. Connections end, scripts are unknown.
    pub fn fail_over(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        Machine::feed_replica(state);
        let Some(replica) = state.replica.take() else { return };
        let lost = replica.queue.len() as u64;
        let process = state.server.facts.process + 1;
        let config = state.server.config.clone();
        state.server = replica.server;
        prepare(&mut state.server, &self.model, state.born);
        state.server.config = config;
        state.server.facts.process = process;
        state.child = None;
        state.sync = None;
        state.server.facts.synced = state.server.offset;
        let image = Image::of(&state.server);
        state.store.replaced(image);
        self.hang_up(state);
        self.follow(state);
        self.mishaps.count(Mishap::FailOver);
        if lost > 0 {
            self.mishaps.count(Mishap::LostTail);
        }
        self.tell("fail-over", process, lost);
        self.tape.say(|| format!("redis: a replica becomes the primary; {lost} writes are lost"));
    }

    /// All connections end; the process lives on.
    pub fn cut_off(&self) {
        self.hang_up(&mut self.state.borrow_mut());
    }

    /// The process dies, and is back after `pause`.
    pub fn kill(&self, how: End, pause: Duration) {
        self.mishaps.count(if how == End::Process { Mishap::Restart } else { Mishap::PowerCut });
        self.end(&mut self.state.borrow_mut(), how, pause);
    }

    /// The process does not run for a while.
    pub fn freeze(&self, time: Duration) {
        let mut state = self.state.borrow_mut();
        self.mishaps.count(Mishap::Frozen);
        self.tell("frozen", 0, time.as_millis() as u64);
        self.tape.say(|| format!("redis: does not run for {} ms", time.as_millis()));
        self.stand_still(&mut state, time);
    }

    /// Refuses writes as a replica for a while.
    pub fn demote(&self, time: Duration) {
        let mut state = self.state.borrow_mut();
        state.server.facts.replica = true;
        state.demoted = Some(Instant::now() + time);
        self.tape.say(|| format!("redis: is a replica for {} ms", time.as_millis()));
    }

    /// Has no memory for more for a while: refuses writes.
    pub fn squeeze(&self, time: Duration) {
        self.pinch(1, time);
        self.tape.say(|| format!("redis: has no memory to give for {} ms", time.as_millis()));
    }

    /// Has been told to throw keys away, and has so many bytes too little for a while.
    pub fn evict(&self, bytes: u64, time: Duration) {
        drop(self.state.borrow_mut().server.config.set("maxmemory-policy", "allkeys-lru"));
        self.pinch(bytes, time);
        self.tape.say(|| format!("redis: throws keys away for {} ms", time.as_millis()));
    }

    fn pinch(&self, bytes: u64, time: Duration) {
        let mut state = self.state.borrow_mut();
        let memory = state.server.memory().saturating_sub(bytes).max(1).to_string();
        drop(state.server.config.set("maxmemory", &memory));
        state.squeezed = Some(Instant::now() + time);
    }

    /// There is memory again, and nothing is thrown away.
    fn relax(state: &mut State) {
        drop(state.server.config.set("maxmemory", "0"));
        drop(state.server.config.set("maxmemory-policy", "noeviction"));
    }

    /// Ends all phases.
    pub fn heal(&self) {
        let mut state = self.state.borrow_mut();
        (state.demoted, state.squeezed) = (None, None);
        state.server.facts.replica = false;
        state.server.facts.save_failed = false;
        Machine::relax(&mut state);
    }

    /// What begins and ends by itself.
    pub(super) fn phases(&self, state: &mut State) {
        let now = Instant::now();
        if state.demoted.take_if(|end| *end <= now).is_some() {
            state.server.facts.replica = false;
        }
        if state.squeezed.take_if(|end| *end <= now).is_some() {
            Machine::relax(state);
        }
        if state.starts.take_if(|at| *at <= now).is_some() {
            state.up = true;
            state.server.facts.loading = true;
            state.loaded = Some(now + Duration::from_millis(self.mishaps.between(100, 1_500)));
        }
        if state.loaded.take_if(|at| *at <= now).is_some() {
            state.server.facts.loading = false;
        }
    }

    /// A few times a second: does anything strike?
    pub(super) async fn troubles(self: std::rc::Rc<Machine>) {
        loop {
            tokio::time::sleep(PART).await;
            let strikes = |mishap| self.mishaps.strikes_within(mishap, PARTS);
            let ms = |low, high| Duration::from_millis(self.mishaps.between(low, high));
            // One trouble at a time: a server that never runs proves nothing.
            let state = self.state.borrow();
            if !state.up || state.busy_until > Instant::now() {
                continue;
            }
            let stays_up = state.server.facts.process >= MOST_ENDS;
            drop(state);
            if strikes(Mishap::Restart) && !stays_up {
                self.kill(End::Process, ms(50, 2_000));
            } else if strikes(Mishap::PowerCut) && !stays_up {
                self.kill(End::Power(self.mishaps.between(0, 1000)), ms(500, 3_000));
            } else if strikes(Mishap::FailOver) {
                self.fail_over();
            } else if strikes(Mishap::Frozen) {
                self.freeze(ms(100, 4_000));
            } else if strikes(Mishap::ReadOnly) {
                self.demote(ms(100, 2_000));
            } else if strikes(Mishap::OutOfMemory) {
                self.squeeze(ms(100, 2_000));
            } else if strikes(Mishap::Evicted) {
                self.evict(self.mishaps.between(1, 3_000), ms(100, 2_000));
            } else if strikes(Mishap::ForkStall) {
                self.fork(&mut self.state.borrow_mut(), false);
            }
        }
    }
}
