//! What all users of one incarnation share: the mounted volume, the clock, the locks a kernel would hold, and the
//! court that hears everything. A question of a dead client is never answered.

use crate::devices::life::silence;
use crate::devices::{Life, SimClock, Tape};
use crate::judge::court::words;
use crate::judge::{Court, Violation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::RwLock;
use zest_types::{Caller, Errno, Ino, Request, ServeResult, Time};
use zest_vfs::Vfs;
use zest_world::{Clock, Event, Trace};

/// The court and what it found, over all incarnations.
#[derive(Default)]
pub struct Bench {
    /// Sits from the first look at the volume on.
    pub court: Option<Court>,
    /// The first violation.
    pub violation: Option<Violation>,
    /// When something was answered last.
    pub last: Time,
}

/// One incarnation, as its users see it.
pub struct Scene {
    /// The mounted volume.
    pub vfs: Vfs,
    /// Virtual time.
    pub clock: Arc<SimClock>,
    /// Whether anybody still answers.
    pub life: Arc<Life>,
    /// Where everything is told.
    pub tape: Arc<Tape>,
    /// The court.
    pub bench: Rc<RefCell<Bench>>,
    locks: RefCell<BTreeMap<Ino, Arc<RwLock<()>>>>,
}

/// Everybody in here is root, and the kernel has checked permissions.
pub const CALLER: Caller = Caller { uid: 0, gid: 0, pid: 1, check: false };

impl Scene {
    /// A scene for a volume just mounted.
    #[must_use]
    pub fn new(
        vfs: Vfs,
        clock: Arc<SimClock>,
        life: Arc<Life>,
        tape: Arc<Tape>,
        bench: Rc<RefCell<Bench>>,
    ) -> Scene {
        Scene { vfs, clock, life, tape, bench, locks: RefCell::default() }
    }

    /// The lock a kernel holds over changes of one inode's bytes.
    #[must_use]
    pub fn lock_of(&self, ino: Ino) -> Arc<RwLock<()>> {
        self.locks.borrow_mut().entry(ino).or_default().clone()
    }

    /// Whether the run is over because a rule was broken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.bench.borrow().violation.is_some()
    }

    /// Reports a broken rule; the first one counts.
    pub fn violated(&self, violation: Violation) {
        self.tape.say(|| format!("!!! {}: {}", violation.rule, violation.text));
        self.bench.borrow_mut().violation.get_or_insert(violation);
    }

    /// Asks the volume, outside the court.
    pub async fn plain(&self, request: Request<'static>) -> ServeResult {
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.vfs.serve(&CALLER, request, move |result| drop(answer.send(result)));
        let Ok(result) = answered.await else { return self.unanswered().await };
        if self.life.is_dead() {
            return silence().await;
        }
        result
    }

    async fn unanswered(&self) -> ServeResult {
        if self.life.is_dead() {
            return silence().await;
        }
        self.violated(Violation::new("reply", "a request was dropped without an answer".into()));
        Err(Errno::EIO)
    }

    /// Asks the volume, with the court listening.
    pub async fn ask(&self, user: usize, request: Request<'static>) -> ServeResult {
        let asked = self.clock.now();
        let id = {
            let mut bench = self.bench.borrow_mut();
            bench.court.as_mut().map_or(0, |court| court.ask(request.clone(), asked))
        };
        self.tape.say(|| format!("user {user}: {}", words(&request)));
        self.tape.event(Event { actor: "user", kind: "asks", subject: user as u64, detail: id });
        let result = self.plain(request.clone()).await;
        let number = result.as_ref().map_or_else(|errno| errno.number() as u64, |_| 0);
        self.tape.event(Event { actor: "user", kind: "is answered", subject: id, detail: number });
        self.tape.say(|| format!("user {user}: … {}", answer_words(&result)));
        let verdict = {
            let mut bench = self.bench.borrow_mut();
            bench.last = self.clock.now();
            let now = bench.last;
            bench.court.as_mut().map_or(Ok(()), |court| court.answer(id, &result, now))
        };
        if let Err(violation) = verdict {
            self.violated(violation);
        }
        result
    }
}

fn answer_words(result: &ServeResult) -> String {
    use zest_types::Response as R;
    match result {
        Err(errno) => format!("{errno}"),
        Ok(R::Data(pieces)) => format!("{} bytes", pieces.iter().map(|piece| piece.len()).sum::<usize>()),
        Ok(R::Dirents(entries)) => format!("{} entries", entries.len()),
        Ok(R::Entry { ino, attr } | R::Attr { ino, attr } | R::Created { ino, attr, .. }) => {
            format!(
                "inode {ino}: {:?} mode {:o} nlink {} length {}",
                attr.kind, attr.mode, attr.nlink, attr.length
            )
        }
        Ok(other) => format!("{other:?}"),
    }
}
