//! What all users of one incarnation share: the mounted volume, the clock, the locks a kernel would hold, and the
//! court that hears everything. A question of a dead client is never answered.

use super::copies::Copies;
use crate::devices::life::silence;
use crate::devices::{Life, SimClock, Tape};
use crate::explorer::marks;
use crate::judge::court::{UNDECIDED, words};
use crate::judge::{Court, Violation};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
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
    /// Copies that were made, as they were.
    pub copies: Copies,
    /// What the world needs before its users come is there.
    pub prepared: bool,
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
    /// How many want that no changes are taken.
    fences: Cell<u32>,
    locks: RefCell<BTreeMap<Ino, Arc<RwLock<()>>>>,
}

const O_ACCMODE: u32 = 3;
const O_TRUNC: u32 = 0o1000;

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
        Scene { vfs, clock, life, tape, bench, fences: Cell::default(), locks: RefCell::default() }
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

    /// Reports a broken rule; the first one counts. A court of several clients that can't follow any more goes, and what
    /// is judged at rest remains.
    pub fn violated(&self, violation: Violation) {
        if violation.rule == UNDECIDED
            && self.bench.borrow_mut().court.take_if(|court| court.is_of_several()).is_some()
        {
            self.tape.event(Event { actor: "court", kind: "gives up", subject: 0, detail: 0 });
            return violation.forgive();
        }
        self.tape.say(|| format!("!!! {}: {}", violation.rule, violation.text));
        self.bench.borrow_mut().violation.get_or_insert(violation);
    }

    /// For a while no changes are taken; whoever asks for one meanwhile must hear so.
    pub async fn fence(&self, time: Duration) {
        let live = &self.vfs.shared().live;
        live.freeze(true);
        self.fences.set(self.fences.get() + 1);
        self.clock.sleep(time).await;
        self.fences.set(self.fences.get() - 1);
        if self.fences.get() == 0 {
            live.freeze(false);
        }
    }

    /// What the answer to a change that must be turned away means to the court; nothing where none must be.
    fn turned_away(
        &self,
        fenced: bool,
        request: &Request<'_>,
        result: &ServeResult,
    ) -> Option<Result<(), Violation>> {
        if !fenced || !is_change(request) {
            return None;
        }
        Some(match result {
            Err(Errno::EROFS) => Ok(()),
            other => {
                let text = format!(
                    "{} is answered {} while no changes are taken",
                    words(request),
                    answer_words(other)
                );
                Err(Violation::new("fence", text))
            }
        })
    }

    /// Asks the volume, outside the court.
    pub async fn plain(&self, request: Request<'static>) -> ServeResult {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let kind = marks::kind(&request);
        self.vfs.serve(&CALLER, request, move |result| drop(answer.send(result)));
        let Ok(result) = answered.await else { return self.unanswered().await };
        if self.life.is_dead() {
            return silence().await;
        }
        self.tape.reached(kind, marks::answer(&result));
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
        let fenced = self.fences.get() > 0;
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
            let turned_away = self.turned_away(fenced, &request, &result);
            bench.court.as_mut().map_or(Ok(()), |court| match turned_away {
                Some(verdict) => verdict.map(|()| court.withdrawn(id)),
                None => court.answer(id, &result, now),
            })
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

/// Whether a request wants something changed.
fn is_change(request: &Request<'_>) -> bool {
    use Request as R;
    match request {
        R::Open { flags, .. } => flags & (O_ACCMODE | O_TRUNC) != 0,
        R::SetAttr { .. }
        | R::Mknod { .. }
        | R::Mkdir { .. }
        | R::Symlink { .. }
        | R::Unlink { .. }
        | R::Rmdir { .. }
        | R::Rename { .. }
        | R::Link { .. }
        | R::Create { .. }
        | R::Write { .. }
        | R::SetXattr { .. }
        | R::RemoveXattr { .. }
        | R::Fallocate { .. }
        | R::CopyRange { .. } => true,
        _ => false,
    }
}
