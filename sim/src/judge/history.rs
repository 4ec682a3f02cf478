//! The judge of names under concurrency. Every call takes effect at one moment between asking and answer;
//! which one, nobody knows. So the judge keeps every state the volume can be in, and a call's answer rules out
//! those it does not fit. When none is left, no order of the calls explains what was seen.

use super::answer::agree;
use super::recovered::{Recovered, same_tree};
use super::stamp::Stamp;
use super::tree::{Expect, Tree};
use std::collections::{BTreeMap, HashSet};
use zest_types::{Errno, Request, ServeResult, Time};

/// Number of a call.
pub type CallId = u64;
/// A number that grows with everything the judge hears.
pub type Tick = u64;

/// States kept before the judge gives up on a run; concurrency in plans is small, so this is never met unless
/// something is wrong with the plan.
const STATES: usize = 20_000;
/// What is said when there are more.
pub const LOST: &str = "the judge lost track: too many possible states";

/// A possible state, with the calls that took effect in it and are not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    tree: Tree,
    predicted: BTreeMap<CallId, Expect>,
}

/// A call on its way.
#[derive(Clone, Debug)]
struct Pending {
    request: Request<'static>,
    since: Time,
}

/// A call that changes something, for the search after a crash.
#[derive(Clone, Debug)]
struct Logged {
    id: CallId,
    request: Request<'static>,
    since: Time,
    from: Tick,
    answer: Option<(Tick, Time, ServeResult)>,
    /// A crash may not undo it.
    safe: bool,
}

/// What was asked and answered since the last start, and what can be true.
pub struct History {
    base: Tree,
    worlds: Vec<World>,
    pending: BTreeMap<CallId, Pending>,
    log: Vec<Logged>,
    lenient: bool,
}

/// Whether a call can change the tree.
#[must_use]
pub fn changes(request: &Request<'_>) -> bool {
    use Request as R;
    matches!(
        request,
        R::SetAttr { .. }
            | R::Mknod { .. }
            | R::Mkdir { .. }
            | R::Symlink { .. }
            | R::Unlink { .. }
            | R::Rmdir { .. }
            | R::Rename { .. }
            | R::Link { .. }
            | R::Open { .. }
            | R::Create { .. }
            | R::Release { .. }
            | R::SetXattr { .. }
            | R::RemoveXattr { .. }
    )
}

/// Errors that say nothing about whether the call took effect.
#[must_use]
pub fn is_failure(errno: Errno) -> bool {
    matches!(errno, Errno::EIO | Errno::ETIMEDOUT | Errno::EAGAIN | Errno::EINTR | Errno::ENOSPC)
}

impl History {
    /// Begins with a known tree. `lenient`: input/output errors are part of this world.
    #[must_use]
    pub fn new(base: Tree, lenient: bool) -> History {
        let worlds = vec![World { tree: base.clone(), predicted: BTreeMap::new() }];
        History { base, worlds, pending: BTreeMap::new(), log: Vec::new(), lenient }
    }

    /// One of the trees that are possible now.
    #[must_use]
    pub fn some_tree(&self) -> &Tree {
        self.worlds.first().map_or(&self.base, |world| &world.tree)
    }

    /// A call was made.
    pub fn asked(&mut self, id: CallId, request: Request<'static>, tick: Tick, now: Time) {
        if changes(&request) {
            let (request, since, from) = (request.clone(), now, tick);
            self.log.push(Logged { id, request, since, from, answer: None, safe: false });
        }
        self.pending.insert(id, Pending { request, since: now });
    }

    /// A call was answered. The text says what the answer contradicts.
    pub fn answered(
        &mut self,
        id: CallId,
        answer: &ServeResult,
        tick: Tick,
        now: Time,
    ) -> Result<(), String> {
        let Some(call) = self.pending.get(&id).cloned() else {
            return Err(format!("call {id} answered twice"));
        };
        if let Some(logged) = self.log.iter_mut().rev().find(|logged| logged.id == id) {
            logged.answer = Some((tick, now, answer.clone()));
        }
        let failure = self.lenient && matches!(answer, Err(errno) if is_failure(*errno));
        let before = std::mem::take(&mut self.worlds);
        let (mut worlds, mut why) = self.explained(id, &call, answer, now, before.clone(), failure, false)?;
        if worlds.is_empty() {
            // Attributes are read after the change was made: others may have changed them in between.
            (worlds, why) = self.explained(id, &call, answer, now, before, failure, true)?;
        }
        self.pending.remove(&id);
        self.worlds = worlds;
        if self.worlds.is_empty() {
            Err(why.unwrap_or_else(|| "no order explains this".into()))
        } else {
            Ok(())
        }
    }

    /// A call was turned away before anything was done.
    pub fn withdrawn(&mut self, id: CallId) {
        self.pending.remove(&id);
        self.log.retain(|logged| logged.id != id);
        self.worlds.retain(|world| !world.predicted.contains_key(&id));
    }

    /// The states that the answer of a call leaves possible. With `behind`, other calls may also take effect
    /// between the call's own effect and its answer.
    #[allow(clippy::too_many_arguments)]
    fn explained(
        &self,
        id: CallId,
        call: &Pending,
        answer: &ServeResult,
        now: Time,
        mut queue: Vec<World>,
        failure: bool,
        behind: bool,
    ) -> Result<(Vec<World>, Option<String>), String> {
        let mut why = None;
        let (mut kept, mut order, mut seen) = (HashSet::new(), Vec::new(), HashSet::new());
        while let Some(world) = queue.pop() {
            if seen.len() > STATES {
                return Err(LOST.into());
            }
            if !seen.insert(world.clone()) {
                continue;
            }
            let applied = world.predicted.contains_key(&id);
            if !applied || behind {
                for (other, pending) in self.pending.iter().filter(|(other, _)| **other != id) {
                    if !world.predicted.contains_key(other) {
                        queue.push(world.with(*other, pending, None));
                    }
                }
            }
            let mut keep = |world: World| {
                if kept.insert(world.clone()) {
                    order.push(world);
                }
            };
            if failure && !applied {
                keep(world.clone());
            }
            let mut world = if applied { world } else { world.with(id, call, Some(now)) };
            if behind && !applied {
                queue.push(world.clone());
            }
            let expect = world.predicted.remove(&id).unwrap_or(Expect::Anything);
            match if failure { Ok(()) } else { agree(&mut world.tree, &expect, answer, false) } {
                Ok(()) => keep(world),
                Err(text) => why = why.or(Some(text)),
            }
        }
        Ok((order, why))
    }

    /// Everything answered before `tick` survives a crash from now on.
    pub fn safe_before(&mut self, tick: Tick) {
        for logged in &mut self.log {
            logged.safe |= logged.answer.as_ref().is_some_and(|(answered, ..)| *answered < tick);
        }
    }

    /// Everything answered before this time survives a crash from now on.
    pub fn safe_before_time(&mut self, time: Time) {
        for logged in &mut self.log {
            logged.safe |= logged.answer.as_ref().is_some_and(|(_, answered, _)| *answered < time);
        }
    }

    /// Finds the state that a crash left: the tree after some of the calls, which leave out none that was
    /// answered before one of them was made, none that is safe, and may include those never answered.
    pub fn recover(&self, found: &Recovered) -> Result<(), String> {
        let mut seen: HashSet<(Vec<bool>, Tree)> = HashSet::new();
        let mut queue = vec![(vec![false; self.log.len()], self.base.clone())];
        let mut nearest: Option<(usize, String)> = None;
        while let Some(state) = queue.pop() {
            if seen.len() > STATES {
                return Err("the judge lost track after a crash: too many possible states".into());
            }
            if !seen.insert(state.clone()) {
                continue;
            }
            let (done, tree) = state;
            if self.log.iter().zip(&done).all(|(logged, done)| *done || !logged.safe) {
                match same_tree(&tree, found) {
                    Ok(()) => return Ok(()),
                    Err(text) => {
                        let count = done.iter().filter(|done| **done).count();
                        if nearest.as_ref().is_none_or(|(best, _)| count > *best) {
                            nearest = Some((count, text));
                        }
                    }
                }
            }
            for at in 0..self.log.len() {
                if !done[at] && self.may_follow(at, &done) {
                    self.step(at, &done, &tree, &mut queue);
                }
            }
        }
        let safe = self.log.iter().filter(|logged| logged.safe).count();
        let (count, text) = nearest.unwrap_or((0, "no order of the safe calls is possible".into()));
        Err(format!(
            "the tree is not one after any prefix of {} changes ({safe} of them safe); nearest after {count}: {text}",
            self.log.len()
        ))
    }

    fn may_follow(&self, at: usize, done: &[bool]) -> bool {
        let from = self.log[at].from;
        self.log.iter().zip(done).all(|(earlier, done)| *done || !earlier.is_before(from))
    }

    fn step(&self, at: usize, done: &[bool], tree: &Tree, queue: &mut Vec<(Vec<bool>, Tree)>) {
        let logged = &self.log[at];
        let mut tree = tree.clone();
        let mut when = Stamp::since(logged.since);
        if let Some((_, now, _)) = &logged.answer {
            when.close(*now);
        }
        let expect = tree.apply(logged.id, &logged.request, when);
        let fits = match &logged.answer {
            Some((_, _, answer)) if logged.is_certain() => agree(&mut tree, &expect, answer, true).is_ok(),
            _ => true,
        };
        if fits {
            let mut done = done.to_vec();
            done[at] = true;
            queue.push((done, tree));
        }
    }
}

impl Logged {
    fn is_certain(&self) -> bool {
        !matches!(
            &self.answer,
            None | Some((
                _,
                _,
                Err(Errno::EIO | Errno::ETIMEDOUT | Errno::EAGAIN | Errno::EINTR | Errno::ENOSPC)
            ))
        )
    }

    fn is_before(&self, tick: Tick) -> bool {
        self.is_certain() && self.answer.as_ref().is_some_and(|(answered, ..)| *answered < tick)
    }
}

impl World {
    fn with(&self, id: CallId, call: &Pending, now: Option<Time>) -> World {
        let mut world = self.clone();
        let mut when = Stamp::since(call.since);
        if let Some(now) = now {
            when.close(now);
        }
        let expect = world.tree.apply(id, &call.request, when);
        world.predicted.insert(id, expect);
        world
    }
}
