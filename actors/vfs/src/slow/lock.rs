//! File locks that are kept in the volume. A waiter is woken when a lock of its file changes here, or elsewhere where
//! the store tells; in case that is not heard, it also looks by itself from time to time. Whoever gets a lock sees
//! what others wrote while they had it, and whoever gives one up has written first.

use super::Task;
use crate::interrupt::Call;
use crate::waiters::Asleep;
use futures::FutureExt;
use std::time::Duration;
use tokio::sync::futures::Notified;
use zest_metadata::record::{LockOwner, LockRange};
use zest_metadata::{Key, Op, Outcome, Record, rules};
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Ino, Request, Response, ServeResult, limits};

impl Task {
    pub(super) async fn lock(&self, request: Request<'static>) -> ServeResult {
        let waiters = &self.shared.waiters;
        match request {
            Request::GetLock { ino, owner, lock } => self.get_lock(ino, owner, lock).await,
            Request::SetLock { ino, owner, lock, wait } => {
                match lock.kind {
                    LockKind::Unlock => self.write_first(ino).await,
                    _ => waiters.note_range(ino, owner),
                }
                self.set_lock(ino, Op::SetLock { ino, owner, lock }, wait).await
            }
            Request::Flock { ino, owner, kind, wait } => {
                match kind {
                    LockKind::Unlock => self.write_first(ino).await,
                    _ => waiters.note_whole(ino),
                }
                self.set_lock(ino, Op::Flock { ino, owner, kind }, wait).await
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Others may get the lock next, and shall see what was written under it. What fails is told by `fsync` and
    /// `close`, as ever.
    async fn write_first(&self, ino: Ino) {
        if !self.shared.exclusive && self.drain(ino).await.is_err() {
            self.shared.world.trace.complain(&format!("a lock of inode {ino} goes before what was written"));
        }
    }

    /// What others wrote while they had the lock shall be seen. Where the store tells, that was heard before the
    /// answer that gave us the lock.
    async fn see_others(&self, ino: Ino) {
        if self.shared.exclusive || self.shared.views.hears() {
            return;
        }
        match self.opening_attr(ino).await {
            Ok(attr) => self.shared.views.settle_file(ino, &attr, false),
            // He has the lock: what can't be learned now is asked for when it is needed.
            Err(_) => self.shared.views.forget_file(ino),
        }
    }

    async fn get_lock(&self, ino: Ino, owner: u64, lock: RangeLock) -> ServeResult {
        let (held, session) = (self.range_locks(ino).await?, self.shared.session);
        let found = rules::in_the_way(&held, LockOwner { session, owner }, &lock);
        // Numbers of other machines' processes mean nothing here.
        let found = found.map(|(other, range)| RangeLock {
            kind: if range.kind == 1 { LockKind::Write } else { LockKind::Read },
            start: range.start,
            end: range.end,
            pid: if other.session == session { range.pid } else { 0 },
        });
        Ok(Response::Lock(found))
    }

    async fn range_locks(&self, ino: Ino) -> Result<Vec<(LockOwner, Vec<LockRange>)>, Errno> {
        match self.look(vec![Key::RangeLocks(ino)]).await?.pop().flatten() {
            Some(Record::RangeLocks(held)) => Ok(held),
            Some(_) => Err(Errno::EIO),
            None => Ok(Vec::new()),
        }
    }

    /// Whose locks are in the way of this one now. The store tells of changes to what is read here.
    async fn who_is_in_the_way(&self, ino: Ino, op: &Op) -> Result<Vec<LockOwner>, Errno> {
        let session = self.shared.session;
        match op {
            Op::SetLock { owner, lock, .. } => {
                let me = LockOwner { session, owner: *owner };
                Ok(rules::holders(&self.range_locks(ino).await?, me, lock))
            }
            Op::Flock { owner, kind, .. } => {
                let me = LockOwner { session, owner: *owner };
                let held = match self.look(vec![Key::Flocks(ino)]).await?.pop().flatten() {
                    Some(Record::Flocks(held)) => held,
                    Some(_) => return Err(Errno::EIO),
                    None => Vec::new(),
                };
                let write = *kind == LockKind::Write;
                let others = held.iter().filter(|entry| entry.owner != me && (write || entry.write));
                Ok(others.map(|entry| entry.owner).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Sets or takes a lock. Whoever waits for a lock on a range must not close a circle of waiters; whole-file locks
    /// know no such error.
    async fn set_lock(&self, ino: Ino, op: Op, wait: bool) -> ServeResult {
        let shared = &self.shared;
        let (bell, asleep) =
            (shared.ears.bells.of(ino), shared.waiters.sleep(if wait { self.caller.pid } else { 0 }));
        let mut looks_free = true;
        loop {
            // From here on no change is missed.
            let changed = bell.notified();
            // Of many who are woken most only look: that is one question.
            if looks_free {
                match self.change(op.clone()).await? {
                    Outcome::Blocked if wait => {}
                    Outcome::Blocked => return Err(Errno::EAGAIN),
                    outcome => {
                        shared.ears.bells.ring(ino);
                        return self.got(ino, op, outcome == Outcome::Held).await;
                    }
                }
            }
            let holders = self.who_is_in_the_way(ino, &op).await?;
            looks_free = holders.is_empty();
            if looks_free {
                continue;
            }
            let _wait = match op {
                Op::SetLock { owner, .. } => {
                    let here = holders.iter().filter(|holder| holder.session == shared.session);
                    let here: Vec<u64> = here.map(|holder| holder.owner).collect();
                    Some(shared.waiters.wait(owner, here).ok_or(Errno::EDEADLK)?)
                }
                _ => None,
            };
            self.rest(changed, &asleep).await?;
        }
    }

    /// He has the lock, or had it already, and is told; or he is gone, and must not keep what nobody knows he got.
    async fn got(&self, ino: Ino, op: Op, held_before: bool) -> ServeResult {
        let Some(unlock) = unlocking(op) else { return Ok(Response::Done) };
        self.see_others(ino).await;
        if !held_before && self.interrupt.as_ref().is_some_and(|interrupt| interrupt.heard(Call::Gone)) {
            if let Err(errno) = self.change(unlock).await {
                let what = format!("a lock that a killed process got of inode {ino} stays: {errno}");
                self.shared.world.trace.complain(&what);
            }
            self.shared.ears.bells.ring(ino);
            return Err(Errno::EINTR);
        }
        Ok(Response::Done)
    }

    /// Waits until it is worth another try.
    async fn rest(&self, changed: Notified<'_>, asleep: &Asleep<'_>) -> Result<(), Errno> {
        let (changed, look) = (changed.fuse(), self.look_by_oneself().fuse());
        let (called, signal) = (asleep.called().fuse(), self.signal().fuse());
        futures::pin_mut!(changed, look, called, signal);
        futures::select_biased! {
            () = called => Err(Errno::EINTR),
            () = signal => Err(Errno::EINTR),
            () = changed => Ok(()),
            () = look => Ok(()),
        }
    }

    /// Comes back when a signal waits for whoever asks, where the door hears of signals.
    async fn signal(&self) {
        match &self.interrupt {
            Some(interrupt) => interrupt.called(Call::Signal).await,
            None => std::future::pending().await,
        }
    }

    /// Comes back when a waiter should look by itself: never where all changes are made here.
    async fn look_by_oneself(&self) {
        let (shared, none) = (&self.shared, Duration::MAX);
        let pause = match (shared.exclusive, shared.views.hears()) {
            (true, _) => none,
            (false, true) => Duration::from_millis(limits::LOCK_LOOK_TOLD_MS),
            (false, false) => Duration::from_millis(limits::LOCK_LOOK_MS),
        };
        match pause == none {
            true => std::future::pending().await,
            false => shared.world.clock.sleep(pause).await,
        }
    }

    /// A process closed a descriptor of the file: its locks on ranges go, as POSIX wants, whichever descriptor
    /// they were set through.
    pub(super) async fn drop_range_locks(&self, ino: Ino, owner: u64) -> Result<(), Errno> {
        if !self.shared.waiters.forget_range(ino, owner) {
            return Ok(());
        }
        let lock = RangeLock { kind: LockKind::Unlock, start: 0, end: i64::MAX.unsigned_abs(), pid: 0 };
        self.change(Op::SetLock { ino, owner, lock }).await?;
        self.shared.ears.bells.ring(ino);
        Ok(())
    }

    /// Nobody here has the file open any more, so nobody has locks on it.
    pub(super) async fn drop_locks(&self, ino: Ino) -> Result<(), Errno> {
        if !self.shared.waiters.has_any(ino) {
            return Ok(());
        }
        self.shared.waiters.forget(ino);
        self.change(Op::DropLocks { session: self.shared.session, ino }).await?;
        self.shared.ears.bells.ring(ino);
        Ok(())
    }
}

/// What gives a lock back; nothing does that for an unlock.
fn unlocking(op: Op) -> Option<Op> {
    match op {
        Op::SetLock { ino, owner, lock } if lock.kind != LockKind::Unlock => {
            let lock = RangeLock { kind: LockKind::Unlock, ..lock };
            Some(Op::SetLock { ino, owner, lock })
        }
        Op::Flock { ino, owner, kind } if kind != LockKind::Unlock => {
            Some(Op::Flock { ino, owner, kind: LockKind::Unlock })
        }
        _ => None,
    }
}
