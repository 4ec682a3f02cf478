//! File locks that are kept in the volume. A waiter is woken when a lock is released here, and looks by itself
//! from time to time for those released elsewhere.

use super::Task;
use std::time::Duration;
use zest_metadata::{Key, Op, Outcome, Record, rules};
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Request, Response, ServeResult};

/// How often a waiter looks by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Task {
    pub(super) async fn lock(&self, request: Request<'static>) -> ServeResult {
        let (op, wait) = match request {
            Request::GetLock { ino, owner, lock } => {
                let held = match self.look(vec![Key::RangeLocks(ino)]).await?.pop().flatten() {
                    Some(Record::RangeLocks(held)) => held,
                    Some(_) => return Err(Errno::EIO),
                    None => Vec::new(),
                };
                let me = zest_metadata::record::LockOwner { session: self.shared.session, owner };
                let found = rules::in_the_way(&held, me, &lock).map(|(_, range)| RangeLock {
                    kind: if range.kind == 1 { LockKind::Write } else { LockKind::Read },
                    start: range.start,
                    end: range.end,
                    pid: range.pid,
                });
                return Ok(Response::Lock(found));
            }
            Request::SetLock { ino, owner, lock, wait } => (Op::SetLock { ino, owner, lock }, wait),
            Request::Flock { ino, owner, kind, wait } => (Op::Flock { ino, owner, kind }, wait),
            _ => return Err(Errno::EINVAL),
        };
        loop {
            let unlocked = self.shared.unlocked.notified();
            match self.change(op.clone()).await? {
                Outcome::Blocked if wait => {
                    let timer = self.shared.world.clock.sleep(LOOK_AGAIN);
                    futures::future::select(std::pin::pin!(unlocked), timer).await;
                }
                Outcome::Blocked => return Err(Errno::EAGAIN),
                _ => {
                    self.shared.unlocked.notify_waiters();
                    return Ok(Response::Done);
                }
            }
        }
    }
}
