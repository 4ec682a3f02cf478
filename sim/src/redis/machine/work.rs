//! What the machine does beside answering: time that commands cost, children, syncs of the log, the replica, and what
//! commands wish for.

use super::store::Image;
use super::{Child, Machine, Mishap, State, wall};
use crate::redis::server::Wish;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;
use zest_world::{Event, Trace};

/// Writes in the log before it is made anew.
const LONG_LOG: usize = 50_000;
/// A sync may take this long before writes wait for it.
const SYNC_PATIENCE: Duration = Duration::from_secs(2);

impl Machine {
    pub(super) fn tell(&self, kind: &'static str, subject: u64, detail: u64) {
        self.tape.event(Event { actor: "redis", kind, subject, detail });
    }

    /// Facts that follow from the time.
    pub(super) fn refresh(&self, state: &mut State) {
        let synced = state.server.facts.synced;
        let facts = &mut state.server.facts;
        facts.now = wall(state.born);
        facts.uptime = state.born.elapsed();
        facts.saving = state.child.as_ref().is_some_and(|child| !child.is_log);
        facts.rewriting = state.child.as_ref().is_some_and(|child| child.is_log);
        facts.replicas = state.replica.iter().map(|replica| replica.server.offset).collect();
        facts.synced = synced;
    }

    /// What a command costs; below a millisecond it adds up.
    pub(super) fn charge(&self, state: &mut State, write: bool) {
        state.debt += self.model.command;
        if write && state.child.is_some() {
            state.debt += self.model.copy;
        }
        if state.debt >= Duration::from_millis(1) {
            let debt = std::mem::take(&mut state.debt);
            self.stand_still(state, debt);
        }
    }

    /// Nothing is done for a while.
    pub(super) fn stand_still(&self, state: &mut State, time: Duration) {
        state.busy_until = state.busy_until.max(Instant::now()) + time;
    }

    /// After commands: log, replica, messages, wishes.
    pub(super) fn after(&self, state: &mut State) {
        let now = Instant::now();
        let logs = state.server.config.is("appendonly");
        let effects = state.server.take_effects();
        if !effects.is_empty() && logs && state.server.config.get("appendfsync") == "always" {
            self.stand_still(state, self.model.sync);
            let offset = state.server.offset;
            state.store.synced(offset);
            state.server.facts.synced = offset;
        }
        for effect in effects {
            if let (Some(replica), Some(lag)) = (&mut state.replica, self.model.replica_lag) {
                replica.queue.push_back((now + lag, effect.clone()));
            }
            if logs {
                state.store.append(effect);
            }
        }
        for (id, frame) in state.server.take_pushes() {
            if let Some(link) = state.links.get(&id) {
                frame.write(state.server.protocol(id), &mut link.out.borrow_mut());
                link.wake.notify_one();
            }
        }
        for wish in state.server.take_wishes() {
            self.grant(state, wish);
        }
    }

    fn grant(&self, state: &mut State, wish: Wish) {
        match wish {
            Wish::Save => self.fork(state, false),
            Wish::Rewrite => self.fork(state, true),
            Wish::SaveNow => {
                self.stand_still(
                    state,
                    self.model.child_per_gib * u32::try_from(self.model.gib).unwrap_or(1),
                );
                let image = Image::of(&state.server);
                state.store.saved(image);
                state.server.stats.dirty = 0;
            }
            Wish::Sleep(time) => self.stand_still(state, time),
            Wish::Kill(id) => {
                if let Some(link) = state.links.get(&id) {
                    link.dead.set(true);
                    link.wake.notify_one();
                }
            }
            Wish::Shutdown { save } => {
                if save {
                    let image = Image::of(&state.server);
                    state.store.saved(image);
                }
                self.end(state, super::store::End::Process, Duration::from_secs(1));
            }
            Wish::Configured if state.server.config.is("appendonly") && state.store.log_length() == 0 => {
                // Turned on just now: the log begins with what is there.
                let image = Image::of(&state.server);
                state.store.rewritten(image);
            }
            // Waits are the connection's own affair.
            Wish::Configured | Wish::Wait { .. } => {}
        }
    }

    /// Forks a child, which takes the longer the more memory there is.
    pub(super) fn fork(&self, state: &mut State, is_log: bool) {
        if state.child.is_some() {
            return;
        }
        let gib = u32::try_from(self.model.gib).unwrap_or(1);
        let spread = 80 + u32::try_from(self.mishaps.between(0, 40)).unwrap_or(0);
        let fork = self.model.fork_per_gib * gib * spread / 100;
        self.stand_still(state, fork);
        state.server.facts.fork = fork;
        let ends = state.busy_until + self.model.child_per_gib * gib;
        let (image, dirty) = (Image::of(&state.server), state.server.stats.dirty);
        state.child = Some(Child { ends, image, dirty, is_log });
        state.saved_last = Instant::now();
        if fork >= Duration::from_millis(50) {
            self.mishaps.count(Mishap::ForkStall);
        }
        self.tell("fork", u64::from(is_log), fork.as_millis() as u64);
        self.tape.say(|| format!("redis: forks, and stands still for {} ms", fork.as_millis()));
    }

    fn child_ends(&self, state: &mut State) {
        let now = Instant::now();
        let Some(child) = state.child.take_if(|child| child.ends <= now) else { return };
        let failed = self.mishaps.strikes(Mishap::FailedSave);
        if failed {
            self.mishaps.count(Mishap::FailedSave);
        }
        self.tell("child ends", u64::from(child.is_log), u64::from(failed));
        match (child.is_log, failed) {
            (true, _) => {
                state.server.facts.rewrite_failed = failed;
                if !failed {
                    state.store.rewritten(child.image);
                }
            }
            (false, true) => state.server.facts.save_failed = true,
            (false, false) => {
                state.server.facts.save_failed = false;
                state.server.facts.last_save = wall(state.born);
                state.server.stats.dirty -= child.dirty.min(state.server.stats.dirty);
                state.store.saved(child.image);
            }
        }
    }

    /// Whether a save point of the settings is reached.
    fn save_is_due(&self, state: &State) -> bool {
        let since = state.saved_last.elapsed();
        if self.model.save_every.is_some_and(|every| since >= every) {
            return true;
        }
        let words: Vec<u64> =
            state.server.config.get("save").split(' ').filter_map(|word| word.parse().ok()).collect();
        words.chunks_exact(2).any(|point| since.as_secs() >= point[0] && state.server.stats.dirty >= point[1])
    }

    fn sync_log(&self, state: &mut State) {
        let now = Instant::now();
        if let Some((ends, offset)) = state.sync {
            if ends <= now {
                state.store.synced(offset);
                state.server.facts.synced = state.server.facts.synced.max(offset);
                state.sync = None;
            }
            return;
        }
        let every = state.server.config.get("appendfsync") == "everysec";
        if !every || !state.server.config.is("appendonly") || now - state.synced_last < Duration::from_secs(1)
        {
            return;
        }
        state.synced_last = now;
        let mut takes = self.model.sync;
        if self.mishaps.strikes(Mishap::SyncPause) {
            takes = Duration::from_millis(self.mishaps.between(500, 5_000));
            self.mishaps.count(Mishap::SyncPause);
            if takes > SYNC_PATIENCE {
                state.server.facts.delayed_syncs += 1;
                self.stand_still(state, takes - SYNC_PATIENCE);
            }
            self.tell("sync pause", 0, takes.as_millis() as u64);
        }
        state.sync = Some((now + takes, state.server.offset));
    }

    pub(super) fn feed_replica(state: &mut State) {
        let now = Instant::now();
        if let Some(replica) = &mut state.replica {
            while replica.queue.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, effect)) = replica.queue.pop_front() {
                    replica.server.replay(&effect);
                }
            }
        }
    }

    /// What happens by itself, ten times a second.
    pub(super) async fn cron(self: Rc<Machine>) {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            {
                let mut state = self.state.borrow_mut();
                let state = &mut *state;
                Machine::feed_replica(state);
                self.child_ends(state);
                self.sync_log(state);
                self.phases(state);
                if state.up && state.child.is_none() && state.busy_until <= Instant::now() {
                    if self.save_is_due(state) {
                        self.fork(state, false);
                    } else if state.store.log_length() > LONG_LOG {
                        self.fork(state, true);
                    }
                }
                self.refresh(state);
            }
            self.changed.notify_waiters();
        }
    }
}
