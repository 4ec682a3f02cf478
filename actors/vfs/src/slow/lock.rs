//! File locks that are kept in the volume. A waiter is woken when a lock is released here; where others use the
//! volume too, it also looks by itself from time to time for what they released.

use super::Task;
use std::time::Duration;
use zest_metadata::record::LockOwner;
use zest_metadata::{Key, Op, Outcome, Record, rules};
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Ino, Request, Response, ServeResult};

/// How often a waiter looks by itself where others use the volume.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Task {
    pub(super) async fn lock(&self, request: Request<'static>) -> ServeResult {
        let waiters = &self.shared.waiters;
        match request {
            Request::GetLock { ino, owner, lock } => self.get_lock(ino, owner, lock).await,
            Request::SetLock { ino, owner, lock, wait } => {
                if lock.kind != LockKind::Unlock {
                    waiters.note_range(ino, owner);
                }
                let ask = wait.then_some((ino, owner, lock));
                self.set_lock(Op::SetLock { ino, owner, lock }, wait, ask).await
            }
            Request::Flock { ino, owner, kind, wait } => {
                if kind != LockKind::Unlock {
                    waiters.note_whole(ino);
                }
                self.set_lock(Op::Flock { ino, owner, kind }, wait, None).await
            }
            _ => Err(Errno::EINVAL),
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

    async fn range_locks(
        &self,
        ino: Ino,
    ) -> Result<Vec<(LockOwner, Vec<zest_metadata::record::LockRange>)>, Errno> {
        match self.look(vec![Key::RangeLocks(ino)]).await?.pop().flatten() {
            Some(Record::RangeLocks(held)) => Ok(held),
            Some(_) => Err(Errno::EIO),
            None => Ok(Vec::new()),
        }
    }

    /// Sets or takes a lock. `ask`: the lock on a range that is waited for, which must not close a circle of
    /// waiters. Whole-file locks know no such error.
    async fn set_lock(&self, op: Op, wait: bool, ask: Option<(Ino, u64, RangeLock)>) -> ServeResult {
        loop {
            // From here on no release is missed.
            let unlocked = self.shared.unlocked.notified();
            match self.change(op.clone()).await? {
                Outcome::Blocked if wait => {}
                Outcome::Blocked => return Err(Errno::EAGAIN),
                _ => {
                    self.shared.unlocked.notify_waiters();
                    return Ok(Response::Done);
                }
            }
            let _wait = match ask {
                None => None,
                Some((ino, owner, lock)) => {
                    let me = LockOwner { session: self.shared.session, owner };
                    let holders = rules::holders(&self.range_locks(ino).await?, me, &lock);
                    let here = holders.iter().filter(|holder| holder.session == me.session);
                    let here: Vec<u64> = here.map(|holder| holder.owner).collect();
                    Some(self.shared.waiters.wait(owner, here).ok_or(Errno::EDEADLK)?)
                }
            };
            if self.shared.exclusive {
                unlocked.await;
            } else {
                let timer = self.shared.world.clock.sleep(LOOK_AGAIN);
                futures::future::select(std::pin::pin!(unlocked), timer).await;
            }
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
        self.shared.unlocked.notify_waiters();
        Ok(())
    }

    /// Nobody here has the file open any more, so nobody has locks on it.
    pub(super) async fn drop_locks(&self, ino: Ino) -> Result<(), Errno> {
        if !self.shared.waiters.has_any(ino) {
            return Ok(());
        }
        self.shared.waiters.forget(ino);
        self.change(Op::DropLocks { session: self.shared.session, ino }).await?;
        self.shared.unlocked.notify_waiters();
        Ok(())
    }
}
