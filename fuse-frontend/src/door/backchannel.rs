//! The way back into the kernel: what it keeps of this volume is taken back from here, by threads of its own. A
//! notification can wait for requests that are under way in the kernel, and those for their answers: so nobody who
//! answers requests ever sends one. Attributes, whose taking back waits for nobody, have a thread to themselves.

use super::told::{Back, Told, WHOLE};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zest_metadata::{Changed, Listener};
use zest_types::{Ino, Name, limits};
use zest_vfs::files::Files;
use zest_world::Clock;

/// How often it is looked whether the store still answers, and whether something is due.
const TICK: Duration = Duration::from_millis(250);

/// The kernel, as far as it can be told to forget.
pub trait Kernel: Send + Sync + 'static {
    /// Attributes of a node: asked for at their next use. Pages of a file whose time or length turn out to be others
    /// go with them.
    fn forget_attr(&self, ino: Ino) -> io::Result<()>;
    /// Pages of a file from an offset on; a length of 0 means all that follow.
    fn forget_pages(&self, ino: Ino, offset: u64, len: u64) -> io::Result<()>;
    /// A name: looked up at its next use.
    fn forget_name(&self, dir: Ino, name: &Name) -> io::Result<()>;
}

/// An answer that must not be earlier than the kernel's forgetting.
type Answer = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Jobs {
    granted: VecDeque<(Ino, Answer)>,
    /// Whether the threads run; without them nothing is kept for them.
    open: bool,
}

/// Work for the threads, and what the kernel was told.
pub struct Backchannel {
    jobs: Mutex<Jobs>,
    wake: Condvar,
    /// What the kernel was told for long.
    pub told: Told,
    /// Until when nothing was missed, nanoseconds of the monotonic clock.
    vouched: AtomicU64,
    files: Arc<Files>,
    clock: Arc<dyn Clock>,
}

impl Backchannel {
    /// A way back that is not open yet. Nothing is told for longer than `longest`.
    #[must_use]
    pub fn new(files: Arc<Files>, clock: Arc<dyn Clock>, longest: Duration) -> Backchannel {
        Backchannel {
            jobs: Mutex::default(),
            wake: Condvar::new(),
            told: Told::new(longest),
            vouched: AtomicU64::new(0),
            files,
            clock,
        }
    }

    /// Starts the threads.
    pub fn open(self: &Arc<Backchannel>, kernel: impl Kernel) -> io::Result<()> {
        let kernel = Arc::new(kernel);
        self.jobs.lock().open = true;
        for (name, attrs) in [("zest-attrs", true), ("zest-names", false)] {
            let (me, kernel) = (Arc::clone(self), Arc::clone(&kernel));
            let thread = std::thread::Builder::new().name(name.into());
            if let Err(error) = thread.spawn(move || me.run(&*kernel, attrs)) {
                self.close();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether the kernel can be told to forget.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.jobs.lock().open
    }

    /// The threads end when they have done their work.
    pub fn close(&self) {
        self.jobs.lock().open = false;
        self.wake.notify_all();
    }

    /// Somebody got a lock on a file: before he is told so, the kernel forgets what it knows of it. As many wait here
    /// as there are requests.
    pub fn granted(&self, ino: Ino, answer: impl FnOnce() + Send + 'static) {
        let mut jobs = self.jobs.lock();
        if !jobs.open {
            drop(jobs);
            return answer();
        }
        jobs.granted.push_back((ino, Box::new(answer)));
        drop(jobs);
        self.wake.notify_all();
    }

    fn run(&self, kernel: &impl Kernel, attrs: bool) {
        loop {
            let mut jobs = self.jobs.lock();
            let granted = if attrs { jobs.granted.pop_front() } else { None };
            let now = self.clock.mono();
            let batch = if granted.is_none() { self.told.next(attrs, now) } else { Vec::new() };
            if granted.is_none() && batch.is_empty() {
                if !jobs.open {
                    return;
                }
                self.wake.wait_for(&mut jobs, TICK);
                drop(jobs);
                self.look(self.clock.mono());
                continue;
            }
            drop(jobs);
            if let Some((ino, answer)) = granted {
                note(kernel.forget_attr(ino));
                answer();
            }
            for what in batch {
                note(match what {
                    Back::Attr(ino) => kernel.forget_attr(ino),
                    Back::Name(dir, name) => kernel.forget_name(dir, &name),
                    Back::Pages(ino, WHOLE) => kernel.forget_pages(ino, 0, 0),
                    Back::Pages(ino, chunk) => {
                        kernel.forget_pages(ino, u64::from(chunk) * limits::CHUNK_SIZE, limits::CHUNK_SIZE)
                    }
                });
            }
        }
    }

    /// When the store is silent, everything is taken back: nobody knows what was changed.
    fn look(&self, now: Duration) {
        let vouched = Duration::from_nanos(self.vouched.load(Ordering::Acquire));
        if vouched < now && !self.told.is_empty() {
            self.told.silence(now);
        }
    }

    fn work(&self) {
        // A thread that saw nothing to do waits by now.
        drop(self.jobs.lock());
        self.wake.notify_all();
    }
}

impl Listener for Backchannel {
    fn changed(&self, what: &Changed) {
        self.told.changed(what, |ino| self.files.may_be_open(ino), self.clock.mono());
        self.work();
    }

    fn vouch(&self, until: Duration) {
        self.vouched.store(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }
}

/// A kernel that does not know the node has nothing to forget.
fn note(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("the kernel could not be told to forget: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use zest_data::Budget;
    use zest_host::RealClock;

    struct Fake(mpsc::Sender<String>);

    impl Kernel for Fake {
        fn forget_attr(&self, ino: Ino) -> io::Result<()> {
            let _ = self.0.send(format!("attr {ino}"));
            Err(io::ErrorKind::NotFound.into())
        }
        fn forget_pages(&self, ino: Ino, offset: u64, len: u64) -> io::Result<()> {
            let _ = self.0.send(format!("pages {ino} {offset} {len}"));
            Ok(())
        }
        fn forget_name(&self, dir: Ino, name: &Name) -> io::Result<()> {
            let _ = self.0.send(format!("name {dir} {name:?}"));
            Ok(())
        }
    }

    fn way() -> (Arc<Backchannel>, mpsc::Sender<String>, mpsc::Receiver<String>) {
        let (events, heard) = mpsc::channel();
        let files = Arc::new(Files::new(64 << 10, Budget::new(limits::WRITE_BUDGET_MIN)));
        let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
        (Arc::new(Backchannel::new(files, clock, Duration::from_secs(48))), events, heard)
    }

    #[test]
    fn a_lock_is_granted_after_the_kernel_forgot() {
        let (way, events, heard) = way();
        let answer = |text: &str| {
            let (events, text) = (events.clone(), text.to_owned());
            move || drop(events.send(text))
        };
        way.granted(Ino(1), answer("at once: there is no thread"));
        assert_eq!(heard.try_recv().unwrap(), "at once: there is no thread");
        way.open(Fake(events.clone())).unwrap();
        way.granted(Ino(7), answer("granted"));
        assert_eq!([heard.recv().unwrap(), heard.recv().unwrap()], ["attr 7", "granted"]);
        way.close();
        way.granted(Ino(8), answer("at once"));
        assert_eq!(heard.recv().unwrap(), "at once");
    }

    #[test]
    fn what_others_change_is_taken_back_and_everything_when_the_store_is_silent() {
        let (way, events, heard) = way();
        way.open(Fake(events)).unwrap();
        way.vouch(Duration::MAX);
        let now = way.clock.mono();
        assert!(way.told.attr(way.told.heard(), Ino(7), now));
        way.changed(&Changed::Attr(Ino(7)));
        assert_eq!(heard.recv().unwrap(), "attr 7");
        assert!(way.told.attr(way.told.heard(), Ino(8), now));
        way.vouch(now);
        // "attr 7" may come once more: it may have been on its way.
        let silent = heard.iter().find(|event| event != "attr 7");
        assert_eq!(silent.as_deref(), Some("attr 8"));
        way.close();
    }
}
