//! File locks through a mount: waiting and waking, deadlocks, what closing and dying leave of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod rig;

use futures::FutureExt;
use rig::{Rig, reopen, with_rig};
use std::sync::Arc;
use zest_metadata::record::{FlockEntry, LockOwner, LockRange};
use zest_metadata::{ChangeSet, Key, Record};
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Ino, Request, Response};

async fn range(
    rig: &Rig,
    ino: Ino,
    owner: u64,
    kind: LockKind,
    at: u64,
    wait: bool,
) -> Result<Response, Errno> {
    let lock = RangeLock { kind, start: at, end: at, pid: 7 };
    rig.ask(Request::SetLock { ino, owner, lock, wait }).await
}

async fn held(rig: &Rig, ino: Ino, at: u64) -> Option<RangeLock> {
    let lock = RangeLock { kind: LockKind::Write, start: at, end: at, pid: 7 };
    match rig.ask(Request::GetLock { ino, owner: 99, lock }).await.unwrap() {
        Response::Lock(lock) => lock,
        other => unreachable!("{other:?}"),
    }
}

/// Lets everybody else go on until they all wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn begin(
    rig: &Arc<Rig>,
    work: impl AsyncFnOnce(Arc<Rig>) -> Result<Response, Errno> + 'static,
) -> tokio::task::JoinHandle<Result<Response, Errno>> {
    let rig = Arc::clone(rig);
    actix::spawn(async move { work(rig).await })
}

#[test]
fn a_waiter_is_woken_and_does_not_look_by_itself() {
    use LockKind::{Unlock, Write};
    with_rig(
        |rig| async move {
            let (ino, _) = rig.create(Ino::ROOT, "f").await;
            range(&rig, ino, 1, Write, 0, false).await.unwrap();
            assert_eq!(range(&rig, ino, 2, Write, 0, false).await, Err(Errno::EAGAIN));
            let mut waiting = begin(&rig, async move |rig| range(&rig, ino, 2, Write, 0, true).await);
            settle().await;
            assert!((&mut waiting).now_or_never().is_none());
            // A lock that goes without anybody here hearing of it: nobody looks.
            let gone =
                ChangeSet { expect: vec![], write: vec![zest_metadata::Write::Delete(Key::RangeLocks(ino))] };
            rig.engine.commit(&gone).await.unwrap();
            rig.vfs.shared().world.clock.sleep(std::time::Duration::from_millis(120)).await;
            assert!((&mut waiting).now_or_never().is_none());
            range(&rig, ino, 1, Unlock, 5, false).await.unwrap();
            assert_eq!(waiting.await.unwrap(), Ok(Response::Done));
        },
        |_| async {},
    );
}

#[test]
fn whoever_would_close_a_circle_is_told() {
    use LockKind::{Unlock, Write};
    with_rig(
        |rig| async move {
            let (ino, _) = rig.create(Ino::ROOT, "f").await;
            for owner in 1..4 {
                range(&rig, ino, owner, Write, owner, false).await.unwrap();
            }
            let first = begin(&rig, async move |rig| range(&rig, ino, 1, Write, 2, true).await);
            let second = begin(&rig, async move |rig| range(&rig, ino, 2, Write, 3, true).await);
            settle().await;
            assert_eq!(range(&rig, ino, 3, Write, 1, true).await, Err(Errno::EDEADLK));
            assert_eq!(range(&rig, ino, 3, Write, 1, false).await, Err(Errno::EAGAIN));
            range(&rig, ino, 3, Unlock, 3, false).await.unwrap();
            assert_eq!(second.await.unwrap(), Ok(Response::Done));
            range(&rig, ino, 2, Unlock, 2, false).await.unwrap();
            assert_eq!(first.await.unwrap(), Ok(Response::Done));
        },
        |_| async {},
    );
}

#[test]
fn closing_any_descriptor_takes_the_owners_ranges() {
    use LockKind::Write;
    with_rig(
        |rig| async move {
            let (ino, handle) = rig.create(Ino::ROOT, "f").await;
            let other = reopen(&rig, "f").await.1;
            range(&rig, ino, 1, Write, 0, false).await.unwrap();
            range(&rig, ino, 2, Write, 1, false).await.unwrap();
            // Through the descriptor that was not used for locking.
            rig.done(Request::Flush { ino, handle: other, lock_owner: 1 }).await;
            assert_eq!(held(&rig, ino, 0).await, None);
            assert!(held(&rig, ino, 1).await.is_some());
            let flock = Request::Flock { ino, owner: 5, kind: Write, wait: false };
            rig.done(flock).await;
            for handle in [handle, other] {
                rig.done(Request::Release { ino, handle }).await;
            }
            assert_eq!(held(&rig, ino, 1).await, None, "nobody has the file open");
            let left = rig.engine.read(&[Key::Flocks(ino), Key::RangeLocks(ino)]).await.unwrap();
            assert_eq!(left, [None, None]);
        },
        |_| async {},
    );
}

#[test]
fn a_session_takes_its_locks_along() {
    use LockKind::Write;
    with_rig(
        |rig| async move {
            let (ino, _) = rig.create(Ino::ROOT, "f").await;
            range(&rig, ino, 1, Write, 0, false).await.unwrap();
            // Somebody else, who died: a session of long ago.
            let owner = LockOwner { session: 77, owner: 1 };
            let lock = LockRange { kind: 1, pid: 1, start: 9, end: 9 };
            let write = vec![
                zest_metadata::Write::Put(Key::SessionExpiry(77), Record::Stamp(1)),
                zest_metadata::Write::Put(
                    Key::RangeLocks(ino),
                    Record::RangeLocks(vec![(owner, vec![lock])]),
                ),
                zest_metadata::Write::Put(
                    Key::Flocks(ino),
                    Record::Flocks(vec![FlockEntry { owner, write: true }]),
                ),
            ];
            rig.engine.commit(&ChangeSet { expect: vec![], write }).await.unwrap();
        },
        |rig| async move {
            let (ino, _) = reopen(&rig, "f").await;
            assert_eq!((held(&rig, ino, 0).await, held(&rig, ino, 9).await), (None, None));
            let left = [Key::Flocks(ino), Key::RangeLocks(ino), Key::SessionExpiry(77)];
            assert_eq!(rig.engine.read(&left).await.unwrap(), [None, None, None]);
        },
    );
}
