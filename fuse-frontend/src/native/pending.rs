//! Requests whose answer is not known yet, and the word that whoever asked is called away. Promises that no word is
//! lost, also when it is faster than its request, and that nothing is asked of the kernel while others wait for the
//! list. What a request does about it is `vfs`'s business.
//!
//! The kernel says that a signal waits, not which one. A lock is not waited for any longer then. A read or a write is
//! given up at once if the signal kills, and else if it has waited for a while already: programs that get signals all
//! the time (timers, garbage collectors, profilers) would otherwise see errors where every local file system shows
//! none. Everything else is only given up by the dying.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zest_types::{Request, limits};
use zest_vfs::interrupt::{Call, Interrupt};

/// Words that were faster than their requests, at most; older ones are about requests that are long answered.
const EARLY: usize = 1024;
/// How long a read or a write waits before a signal that does not kill ends it.
const PATIENCE: Duration = Duration::from_millis(limits::INTERRUPT_PATIENCE_MS);
/// How often those who were called and still wait are looked at.
const LOOK: Duration = Duration::from_millis(limits::INTERRUPT_LOOK_MS);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Content,
    Other,
}

impl Kind {
    pub fn of(request: &Request<'_>) -> Kind {
        match request {
            Request::SetLock { wait: true, .. } | Request::Flock { wait: true, .. } => Kind::Lock,
            Request::Read { .. } | Request::Write { .. } => Kind::Content,
            _ => Kind::Other,
        }
    }
}

#[derive(Clone)]
struct Waiting {
    thread: u32,
    kind: Kind,
    since: Instant,
    interrupt: Arc<Interrupt>,
    called: bool,
}

impl Waiting {
    /// What it is told at this moment; nothing yet, maybe.
    fn call(&self, now: Instant, dying: bool) -> Option<Call> {
        match self.kind {
            _ if dying => Some(Call::Gone),
            Kind::Lock => Some(Call::Signal),
            Kind::Content if now.saturating_duration_since(self.since) >= PATIENCE => Some(Call::Signal),
            _ => None,
        }
    }
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<u64, Waiting>,
    early: VecDeque<u64>,
    /// Those that were called and still wait.
    called: usize,
    over: bool,
}

/// The requests of a session.
pub(super) struct Pending {
    state: Mutex<State>,
    wake: Condvar,
    /// Whether a thread is being killed, by its number. It may take its time.
    dying: Box<dyn Fn(u32) -> bool + Send + Sync>,
}

impl Pending {
    /// None yet. `dying` tells of a thread's number whether it is being killed.
    pub fn new(dying: impl Fn(u32) -> bool + Send + Sync + 'static) -> Pending {
        Pending { state: Mutex::default(), wake: Condvar::new(), dying: Box::new(dying) }
    }

    /// Tells a request; if it was answered meanwhile, nobody listens.
    fn tell(&self, waiting: &Waiting) {
        if let Some(call) = waiting.call(Instant::now(), (self.dying)(waiting.thread)) {
            waiting.interrupt.call(call);
        }
    }

    /// Notes a request that will be answered later.
    pub fn begin(&self, unique: u64, thread: u32, kind: Kind) -> Arc<Interrupt> {
        let interrupt = Arc::new(Interrupt::default());
        let (since, kept) = (Instant::now(), Arc::clone(&interrupt));
        let mut state = self.state.lock();
        let early = state.early.iter().position(|early| *early == unique);
        state.waiting.insert(unique, Waiting { thread, kind, since, interrupt: kept, called: false });
        if let Some(at) = early {
            state.early.remove(at);
            self.called(state, unique);
        }
        interrupt
    }

    /// It is answered.
    pub fn end(&self, unique: u64) {
        let mut state = self.state.lock();
        if state.waiting.remove(&unique).is_some_and(|waiting| waiting.called) {
            state.called -= 1;
        }
    }

    /// The kernel says that whoever sent this request is called away.
    pub fn interrupted(&self, unique: u64) {
        let mut state = self.state.lock();
        if state.waiting.contains_key(&unique) {
            return self.called(state, unique);
        }
        if state.early.len() >= EARLY {
            state.early.pop_front();
        }
        state.early.push_back(unique);
    }

    fn called(&self, mut state: MutexGuard<'_, State>, unique: u64) {
        let Some(waiting) = state.waiting.get_mut(&unique) else { return };
        let first = !std::mem::replace(&mut waiting.called, true);
        let waiting = waiting.clone();
        state.called += usize::from(first);
        drop(state);
        self.tell(&waiting);
        self.wake.notify_one();
    }

    /// Looks after those who were called and still wait, in a thread of its own, until the session is over.
    pub fn watch(self: &Arc<Pending>) -> io::Result<()> {
        let me = Arc::clone(self);
        std::thread::Builder::new().name("zest-interrupts".into()).spawn(move || me.look()).map(drop)
    }

    fn look(&self) {
        let mut state = self.state.lock();
        while !state.over {
            if state.called == 0 {
                self.wake.wait(&mut state);
                continue;
            }
            self.wake.wait_for(&mut state, LOOK);
            let called: Vec<Waiting> =
                state.waiting.values().filter(|waiting| waiting.called).cloned().collect();
            MutexGuard::unlocked(&mut state, || called.iter().for_each(|waiting| self.tell(waiting)));
        }
    }

    /// Waits for locks.
    pub fn locks(&self) -> usize {
        self.state.lock().waiting.values().filter(|waiting| waiting.kind == Kind::Lock).count()
    }

    /// Nothing will come any more.
    pub fn close(&self) {
        self.state.lock().over = true;
        self.wake.notify_all();
    }

    /// Requests that wait now.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn heard(interrupt: &Interrupt, call: Call) -> bool {
        let mut waits = pin!(interrupt.called(call));
        waits.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_lock_is_given_up_at_once_also_when_the_word_came_first() {
        let pending = Pending::new(|_| false);
        let after = pending.begin(2, 0, Kind::Lock);
        assert!(!heard(&after, Call::Signal));
        pending.interrupted(2);
        assert!(heard(&after, Call::Signal) && !heard(&after, Call::Gone));
        pending.interrupted(4);
        assert!(heard(&pending.begin(4, 0, Kind::Lock), Call::Signal));
        assert!(!heard(&pending.begin(6, 0, Kind::Lock), Call::Signal), "the word was about another one");
        for unique in [2, 4, 6, 6, 8] {
            pending.end(unique);
        }
        assert_eq!((pending.len(), pending.state.lock().called), (0, 0));
    }

    #[test]
    fn content_waits_a_while_and_the_rest_for_death() {
        let waiting = |kind, ago| Waiting {
            thread: 0,
            kind,
            since: Instant::now().checked_sub(ago).unwrap(),
            interrupt: Arc::default(),
            called: true,
        };
        let now = Instant::now();
        let long = PATIENCE + Duration::from_secs(1);
        assert_eq!(waiting(Kind::Content, Duration::ZERO).call(now, false), None);
        assert_eq!(waiting(Kind::Content, long).call(now, false), Some(Call::Signal));
        assert_eq!(waiting(Kind::Other, long).call(now, false), None);
        for kind in [Kind::Lock, Kind::Content, Kind::Other] {
            assert_eq!(waiting(kind, Duration::ZERO).call(now, true), Some(Call::Gone));
        }
    }

    #[test]
    fn nobody_waits_for_what_the_kernel_shows() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        use std::sync::{OnceLock, Weak};
        let list: Arc<OnceLock<Weak<Pending>>> = Arc::default();
        let looked = Arc::new(AtomicUsize::new(0));
        let (here, seen) = (Arc::clone(&list), Arc::clone(&looked));
        let pending = Arc::new(Pending::new(move |thread| {
            let pending = here.get().unwrap().upgrade().unwrap();
            // From here or from the thread that looks again: the list is free for those who come meanwhile.
            let end = Instant::now() + Duration::from_secs(60);
            while pending.state.try_lock().is_none() && Instant::now() < end {
                std::thread::yield_now();
            }
            assert!(Instant::now() < end, "the list is held while the kernel is asked");
            seen.fetch_add(1, Ordering::Relaxed) > 2 && thread == 7
        }));
        list.set(Arc::downgrade(&pending)).unwrap();
        pending.interrupted(2);
        let early = pending.begin(2, 7, Kind::Other);
        pending.interrupted(2);
        assert_eq!(looked.load(Ordering::Relaxed), 2);
        assert!(!heard(&early, Call::Gone));
        pending.watch().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while !heard(&early, Call::Gone) {
            assert!(Instant::now() < end, "nobody looked");
            std::thread::yield_now();
        }
        pending.close();
    }

    #[test]
    fn early_words_are_bounded() {
        let pending = Pending::new(|_| false);
        (0..EARLY as u64 + 10).for_each(|unique| pending.interrupted(unique));
        assert_eq!(pending.state.lock().early.len(), EARLY);
        assert!(!heard(&pending.begin(3, 0, Kind::Lock), Call::Signal), "forgotten");
        assert!(heard(&pending.begin(500, 0, Kind::Lock), Call::Signal));
    }

    #[test]
    fn who_still_waits_is_looked_at_again() {
        let pending = Arc::new(Pending::new(|_| false));
        pending.watch().unwrap();
        let interrupt = pending.begin(2, 0, Kind::Content);
        pending.interrupted(2);
        assert!(!heard(&interrupt, Call::Signal));
        let end = Instant::now() + Duration::from_secs(60);
        while !heard(&interrupt, Call::Signal) {
            assert!(Instant::now() < end, "nobody looked");
            std::thread::yield_now();
        }
        pending.close();
    }
}
