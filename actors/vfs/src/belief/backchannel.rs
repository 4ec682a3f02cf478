//! The way back into the kernel: what is to be done on it next. A notification can wait for requests that are under way
//! in the kernel, and those for their answers: so nobody who answers requests ever sends one, and there are posts, each
//! with somebody who does nothing else. Attributes, whose taking back waits for nobody, have a post to themselves, and
//! so have answers that promise that what others wrote is seen: a lock is granted and a file is opened when the kernel has
//! forgotten what it had of it before.

use super::told::{Back, Grant, Told, WHOLE};
use crate::files::Files;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use zest_metadata::{Changed, Listener};
use zest_types::request::LockKind;
use zest_types::{Ino, Name, Request, Response, ServeResult, limits};
use zest_world::Clock;
use zest_world::planted::{self, Bug};

/// The kernel, as far as it can be told to forget. One that does not know the node has nothing to forget.
pub trait Kernel: Send + Sync + 'static {
    /// Attributes of a node: asked for at their next use. Pages of a file whose time or length turn out to be others
    /// go with them.
    fn forget_attr(&self, ino: Ino);
    /// Pages of a file from an offset on, and its attributes; a length of 0 means all that follow.
    fn forget_pages(&self, ino: Ino, offset: u64, len: u64);
    /// A name: looked up at its next use.
    fn forget_name(&self, dir: Ino, name: &Name);
}

/// What somebody does all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// Takes attributes back.
    Attrs,
    /// Takes everything else back.
    Names,
    /// Lets locks be granted and files be opened. Better more than one of them: one that waits for pages being read shall
    /// not hold up the others.
    Locks,
}

/// An answer that must not be earlier than the kernel's forgetting.
type Answer = Box<dyn FnOnce() + Send>;

/// A piece of work.
pub enum Work {
    /// To be taken back.
    Back(Vec<Back>),
    /// A lock to be granted.
    Grant(Grant, Ino, Answer),
}

/// An answer that may have to wait until the kernel has forgotten something.
pub struct Hold(Option<(Arc<Backchannel>, Ino)>);

impl Hold {
    /// Gives the answer when it may be given. The kernel itself drops pages of a file that is opened without leave to keep
    /// them, but goes on believing its length.
    pub fn answer(self, result: ServeResult, answer: impl FnOnce(ServeResult) + Send + 'static) {
        match (self.0, &result) {
            (None, _) | (_, Err(_) | Ok(Response::Opened { keep_cache: true, .. })) => answer(result),
            // It was just told of this file, as when it looked the name up.
            (Some((back, ino)), Ok(Response::Opened { .. }))
                if back.is_vouched() && back.told.is_told(ino) =>
            {
                answer(result);
            }
            (Some((back, ino)), Ok(_)) => back.promised(ino, move || answer(result)),
        }
    }
}

/// Attributes are on their way into the kernel.
pub(super) struct Asked {
    back: Arc<Backchannel>,
    ino: Ino,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.back.told.answered(self.ino) {
            self.back.ring(&[Post::Attrs, Post::Names]);
        }
        if !self.back.granted.lock().waiting.is_empty() {
            self.back.ring(&[Post::Locks]);
        }
    }
}

/// Called when there may be work for a post.
type Bell = Box<dyn Fn(Post) + Send + Sync>;

#[derive(Default)]
struct Granted {
    waiting: VecDeque<(Ino, Answer)>,
    /// Whether somebody works; else nothing is kept for him.
    open: bool,
}

/// Work on the way back, and what the kernel was told.
pub struct Backchannel {
    /// What the kernel was told for long.
    pub told: Told,
    granted: Mutex<Granted>,
    /// Until when nothing was missed, nanoseconds of the monotonic clock.
    vouched: AtomicU64,
    files: Arc<Files>,
    clock: Arc<dyn Clock>,
    bell: OnceLock<Bell>,
}

impl Backchannel {
    /// A way back on which nobody works yet. Nothing is told for longer than `longest`.
    #[must_use]
    pub fn new(files: Arc<Files>, clock: Arc<dyn Clock>, longest: Duration) -> Backchannel {
        Backchannel {
            told: Told::new(longest),
            granted: Mutex::default(),
            vouched: AtomicU64::new(0),
            files,
            clock,
            bell: OnceLock::new(),
        }
    }

    /// From now on there is somebody at every post, who is woken by this bell. Only the first time counts.
    pub fn open(&self, bell: impl Fn(Post) + Send + Sync + 'static) {
        if self.bell.set(Box::new(bell)).is_ok() {
            self.granted.lock().open = true;
        }
    }

    /// Whoever works here ends when he has done his work.
    pub fn close(&self) {
        self.granted.lock().open = false;
        self.ring(&[Post::Attrs, Post::Names, Post::Locks]);
    }

    /// Whether whoever is at this post may go.
    #[must_use]
    pub fn is_over(&self, post: Post) -> bool {
        let granted = self.granted.lock();
        !granted.open && (post != Post::Locks || granted.waiting.is_empty())
    }

    /// To be made before a request is served: holds an answer back that promises that what others wrote is seen.
    #[must_use]
    pub fn hold(self: &Arc<Backchannel>, request: &Request<'_>) -> Hold {
        let ino = match request {
            Request::SetLock { ino, lock, .. } if lock.kind != LockKind::Unlock => *ino,
            Request::Flock { ino, kind, .. } if *kind != LockKind::Unlock => *ino,
            Request::Open { ino, .. } => *ino,
            _ => return Hold(None),
        };
        Hold(Some((Arc::clone(self), ino)))
    }

    /// Before this answer is given the kernel forgets what others may have changed of the file since it was told. As many
    /// wait here as there are requests.
    fn promised(&self, ino: Ino, answer: impl FnOnce() + Send + 'static) {
        let mut granted = self.granted.lock();
        if !granted.open {
            drop(granted);
            return answer();
        }
        let mut answer: Answer = Box::new(answer);
        if planted::active(Bug::LockBeforeForgetting) {
            std::mem::replace(&mut answer, Box::new(|| {}))();
        }
        granted.waiting.push_back((ino, answer));
        drop(granted);
        self.ring(&[Post::Locks]);
    }

    /// The kernel asks for the attributes of a node; to be kept until it has the answer.
    pub(super) fn asked(self: &Arc<Backchannel>, ino: Ino) -> Asked {
        self.told.asked(ino, self.clock.mono());
        Asked { back: Arc::clone(self), ino }
    }

    /// What is to be done at a post, if there is anything now.
    #[must_use]
    pub fn next(&self, post: Post) -> Option<Work> {
        if post != Post::Locks {
            let batch = self.told.next(post == Post::Attrs, self.clock.mono());
            return (!batch.is_empty()).then_some(Work::Back(batch));
        }
        let (vouched, now) = (self.is_vouched(), self.clock.mono());
        let mut granted = self.granted.lock();
        for at in 0..granted.waiting.len() {
            let ino = granted.waiting.get(at)?.0;
            match self.told.grant(ino, vouched, now) {
                Grant::Busy => {}
                grant => {
                    let (ino, answer) = granted.waiting.remove(at)?;
                    return Some(Work::Grant(grant, ino, answer));
                }
            }
        }
        None
    }

    /// Does it. May wait as long as a request in the kernel does.
    pub fn work_on(&self, kernel: &impl Kernel, work: Work) {
        match work {
            Work::Back(batch) => {
                for what in &batch {
                    match what {
                        Back::Attr(ino) => kernel.forget_attr(*ino),
                        Back::Name(dir, name) => kernel.forget_name(*dir, name),
                        Back::Pages(ino, WHOLE) => kernel.forget_pages(*ino, 0, 0),
                        Back::Pages(ino, chunk) => {
                            let from = u64::from(*chunk) * limits::CHUNK_SIZE;
                            kernel.forget_pages(*ino, from, limits::CHUNK_SIZE)
                        }
                    }
                }
                self.told.done(&batch);
            }
            Work::Grant(Grant::Stale, ino, answer) => {
                // Its attributes go with its pages.
                kernel.forget_pages(ino, 0, 0);
                self.told.granted(ino);
                answer();
            }
            Work::Grant(_, _, answer) => return answer(),
        }
        // What waited for it may go on.
        self.ring(&[Post::Attrs, Post::Names, Post::Locks]);
    }

    /// When the store is silent, everything is taken back: nobody knows what was changed. To be called from time to time.
    pub fn look(&self) {
        if !self.is_vouched() && !self.told.is_empty() {
            self.told.silence(self.clock.mono());
        }
    }

    /// Whether nothing that others change is missed.
    fn is_vouched(&self) -> bool {
        Duration::from_nanos(self.vouched.load(Ordering::Acquire)) >= self.clock.mono()
    }

    fn ring(&self, posts: &[Post]) {
        if let Some(bell) = self.bell.get() {
            posts.iter().for_each(|post| bell(*post));
        }
    }
}

impl Listener for Backchannel {
    fn changed(&self, what: &Changed) {
        self.told.changed(what, |ino| self.files.may_be_open(ino), self.clock.mono());
        self.ring(&[Post::Attrs, Post::Names]);
    }

    fn vouch(&self, until: Duration) {
        self.vouched.store(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }
}
