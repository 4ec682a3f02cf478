//! Who waits for a lock of whom, in this mount: whoever would wait for somebody who waits for him is told so, and a
//! thread that somebody interrupts stops waiting.
//! Other mounts' waiters are not known here, and the format keeps none, so a deadlock across mounts is not seen.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;
use zest_types::Ino;

/// Owners that wait, and locks this mount has set.
#[derive(Default)]
pub struct Waiters {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Each wait: who, and the owners in the way.
    waits: BTreeMap<u64, (u64, Vec<u64>)>,
    /// Threads that wait, and what calls them.
    asleep: BTreeMap<u32, Arc<Notify>>,
    /// Owners of locks on ranges of a file; an entry may outlive its lock.
    ranges: BTreeSet<(Ino, u64)>,
    /// Files with whole-file locks; likewise.
    whole: BTreeSet<Ino>,
}

/// A wait; over when it is dropped.
pub struct Wait<'a> {
    waiters: &'a Waiters,
    number: u64,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.waiters.state.lock().waits.remove(&self.number);
    }
}

/// A thread that waits; until it is dropped.
pub struct Asleep<'a> {
    waiters: &'a Waiters,
    thread: u32,
    call: Arc<Notify>,
}

impl Asleep<'_> {
    /// Comes back when somebody interrupts the thread, also if that was a moment ago.
    pub async fn called(&self) {
        self.call.notified().await;
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.waiters.state.lock().asleep.remove(&self.thread);
    }
}

impl Waiters {
    /// A thread is about to wait, and can be interrupted by its number; 0 is nobody's.
    pub fn sleep(&self, thread: u32) -> Asleep<'_> {
        let call = Arc::new(Notify::new());
        if thread != 0 {
            self.state.lock().asleep.insert(thread, Arc::clone(&call));
        }
        Asleep { waiters: self, thread, call }
    }

    /// The threads that wait.
    #[must_use]
    pub fn asleep(&self) -> Vec<u32> {
        self.state.lock().asleep.keys().copied().collect()
    }

    /// This thread shall wait no longer.
    pub fn interrupt(&self, thread: u32) {
        if let Some(call) = self.state.lock().asleep.get(&thread) {
            call.notify_one();
        }
    }

    /// Notes that an owner waits for others; `None` when one of them waits for him already, be it over others.
    pub fn wait(&self, owner: u64, holders: Vec<u64>) -> Option<Wait<'_>> {
        let mut state = self.state.lock();
        let (mut reached, mut queue): (BTreeSet<u64>, Vec<u64>) = (BTreeSet::new(), holders.clone());
        while let Some(holder) = queue.pop() {
            if holder == owner {
                return None;
            }
            if reached.insert(holder) {
                let on = state.waits.values().filter(|(waiter, _)| *waiter == holder);
                queue.extend(on.flat_map(|(_, on)| on));
            }
        }
        let number = state.next;
        state.next += 1;
        state.waits.insert(number, (owner, holders));
        Some(Wait { waiters: self, number })
    }

    /// A lock on a range is about to be set.
    pub fn note_range(&self, ino: Ino, owner: u64) {
        self.state.lock().ranges.insert((ino, owner));
    }

    /// A whole-file lock is about to be set.
    pub fn note_whole(&self, ino: Ino) {
        self.state.lock().whole.insert(ino);
    }

    /// Whether an owner may have locks on ranges of a file.
    pub fn has_range(&self, ino: Ino, owner: u64) -> bool {
        self.state.lock().ranges.contains(&(ino, owner))
    }

    /// The owner's locks on ranges of a file are gone; tells whether there may have been one.
    pub fn forget_range(&self, ino: Ino, owner: u64) -> bool {
        self.state.lock().ranges.remove(&(ino, owner))
    }

    /// Whether anybody here may have locks on a file.
    pub fn has_any(&self, ino: Ino) -> bool {
        let state = self.state.lock();
        state.whole.contains(&ino) || state.ranges.range((ino, 0)..=(ino, u64::MAX)).next().is_some()
    }

    /// All locks on a file are gone.
    pub fn forget(&self, ino: Ino) {
        let mut state = self.state.lock();
        state.whole.remove(&ino);
        state.ranges.retain(|(file, _)| *file != ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_seen_by_whoever_closes_it() {
        let waiters = Waiters::default();
        let first = waiters.wait(1, vec![2, 9]).unwrap();
        let _second = waiters.wait(2, vec![3]).unwrap();
        assert!(waiters.wait(3, vec![8]).is_some());
        assert!(waiters.wait(3, vec![8, 1]).is_none(), "3 → 1 → 2 → 3");
        assert!(waiters.wait(5, vec![5]).is_none());
        drop(first);
        assert!(waiters.wait(3, vec![8, 1]).is_some());
    }

    #[test]
    fn only_who_waits_can_be_interrupted() {
        use futures::FutureExt;
        let waiters = Waiters::default();
        waiters.interrupt(7);
        let (seven, nobody) = (waiters.sleep(7), waiters.sleep(0));
        assert_eq!(waiters.asleep(), [7]);
        assert!(seven.called().now_or_never().is_none(), "it did not wait yet");
        waiters.interrupt(7);
        waiters.interrupt(0);
        assert!(seven.called().now_or_never().is_some() && nobody.called().now_or_never().is_none());
        drop(seven);
        assert!(waiters.asleep().is_empty());
    }

    #[test]
    fn locks_are_known_until_they_are_forgotten() {
        let waiters = Waiters::default();
        waiters.note_range(Ino(5), 1);
        waiters.note_range(Ino(5), 2);
        waiters.note_whole(Ino(6));
        assert!(waiters.forget_range(Ino(5), 1) && !waiters.forget_range(Ino(5), 1));
        assert!(waiters.has_range(Ino(5), 2) && waiters.has_any(Ino(5)) && waiters.has_any(Ino(6)));
        waiters.forget(Ino(5));
        assert!(!waiters.has_any(Ino(5)) && waiters.has_any(Ino(6)) && !waiters.has_any(Ino(7)));
    }
}
