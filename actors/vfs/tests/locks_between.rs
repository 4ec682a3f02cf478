//! File locks between two mounts of one volume: waiters are woken by what the store tells, or look by themselves;
//! whoever gets a lock sees what was written under it; who is interrupted waits no longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use async_trait::async_trait;
use futures::FutureExt;
use parking_lot::Mutex;
use rig::{Memory, Rig, reopen};
use std::sync::Arc;
use zest_engines::MemoryEngine;
use zest_metadata::{
    Applied, Beat, ChangeSet, Changed, CommitError, Engine, EngineError, Key, Listener, Record, Scan, Write,
    format,
};
use zest_types::request::{LockKind, RangeLock};
use zest_types::volume::Settings;
use zest_types::{Errno, Ino, Request, Response, ServeResult, Time};

/// A store that both mounts use; with `tells` each hears of locks that the other changed.
struct Store {
    records: MemoryEngine,
    tells: bool,
    listeners: Mutex<Vec<(usize, Arc<dyn Listener>)>>,
}

/// One mount's connection to it.
struct Line(usize, Arc<Store>);

#[async_trait]
impl Engine for Line {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.1.records.read(keys).await
    }
    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.1.records.scan(scan).await
    }
    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        let applied = self.1.records.commit(changes).await?;
        let locked = |write: &Write| match write {
            Write::Put(Key::RangeLocks(ino) | Key::Flocks(ino), _)
            | Write::Delete(Key::RangeLocks(ino) | Key::Flocks(ino)) => Some(*ino),
            _ => None,
        };
        for ino in changes.write.iter().filter_map(locked) {
            let listeners = self.1.listeners.lock();
            let others = listeners.iter().filter(|(line, _)| *line != self.0);
            others.for_each(|(_, listener)| listener.changed(&Changed::Locks(ino)));
        }
        Ok(applied)
    }
    async fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }
    fn exclusive(&self) -> bool {
        false
    }
    fn listen(&self, listener: Arc<dyn Listener>) -> bool {
        self.1.listeners.lock().push((self.0, listener));
        self.1.tells
    }
}

fn with_two<F: Future<Output = ()> + 'static>(
    tells: bool,
    test: impl FnOnce(Arc<Rig>, Arc<Rig>) -> F + 'static,
) {
    actix::System::new().block_on(async move {
        let objects = Arc::new(Memory::default());
        let store = Arc::new(Store { records: MemoryEngine::default(), tells, listeners: Mutex::default() });
        let mut settings = Settings::new("test-volume", "u", "mem", "mem");
        settings.trash_days = 0;
        let first = format::new_volume(settings.to_json(), false, true, Time::new(1, 0));
        store.records.commit(&first).await.unwrap();
        let line = |number| Arc::new(Line(number, Arc::clone(&store))) as Arc<dyn Engine>;
        let one = rig::open(&objects, &line(1), &settings).await;
        let two = rig::open(&objects, &line(2), &settings).await;
        test(one, two).await;
    });
}

async fn lock(rig: &Rig, ino: Ino, owner: u64, kind: LockKind, wait: bool) -> ServeResult {
    let lock = RangeLock { kind, start: 0, end: i64::MAX.unsigned_abs(), pid: 7 };
    rig.ask(Request::SetLock { ino, owner, lock, wait }).await
}

fn begin(rig: &Arc<Rig>, ino: Ino, owner: u64) -> tokio::task::JoinHandle<ServeResult> {
    let rig = Arc::clone(rig);
    actix::spawn(async move { lock(&rig, ino, owner, LockKind::Write, true).await })
}

/// Lets everybody else go on until they all wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_waiter_is_woken_when_another_mount_unlocks() {
    with_two(true, |one, two| async move {
        let (ino, _) = one.create(Ino::ROOT, "f").await;
        lock(&one, ino, 1, LockKind::Write, false).await.unwrap();
        assert_eq!(lock(&two, ino, 1, LockKind::Read, false).await, Err(Errno::EAGAIN));
        let mut waiting = begin(&two, ino, 2);
        settle().await;
        assert!((&mut waiting).now_or_never().is_none());
        lock(&one, ino, 1, LockKind::Unlock, false).await.unwrap();
        settle().await;
        assert_eq!(waiting.now_or_never().unwrap().unwrap(), Ok(Response::Done), "it was told");
        assert_eq!(lock(&one, ino, 1, LockKind::Read, false).await, Err(Errno::EAGAIN));
    });
}

#[test]
fn a_waiter_looks_by_itself_where_nobody_tells() {
    with_two(false, |one, two| async move {
        let (ino, _) = one.create(Ino::ROOT, "f").await;
        lock(&one, ino, 1, LockKind::Write, false).await.unwrap();
        let waiting = begin(&two, ino, 2);
        settle().await;
        lock(&one, ino, 1, LockKind::Unlock, false).await.unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(Response::Done));
    });
}

#[test]
fn who_gets_a_lock_sees_what_was_written_under_it() {
    with_two(false, |one, two| async move {
        let (ino, handle) = one.create(Ino::ROOT, "f").await;
        let there = reopen(&two, "f").await.1;
        for round in 0..5u8 {
            lock(&one, ino, 1, LockKind::Write, false).await.unwrap();
            let content = vec![b'a' + round; 10 + usize::from(round)];
            one.write((ino, handle), 0, &content).await;
            let waiting = begin(&two, ino, 2);
            settle().await;
            lock(&one, ino, 1, LockKind::Unlock, false).await.unwrap();
            assert_eq!(waiting.await.unwrap(), Ok(Response::Done));
            assert_eq!(two.read((ino, there), 0, 4096).await, content);
            lock(&two, ino, 2, LockKind::Unlock, false).await.unwrap();
        }
    });
}

#[test]
fn closing_gives_locks_back_after_what_was_written_under_them() {
    with_two(false, |one, two| async move {
        let (ino, handle) = one.create(Ino::ROOT, "f").await;
        let there = reopen(&two, "f").await.1;
        lock(&one, ino, 1, LockKind::Write, false).await.unwrap();
        one.write((ino, handle), 0, b"written").await;
        let waiting = begin(&two, ino, 2);
        settle().await;
        one.done(Request::Flush { ino, handle, lock_owner: 1 }).await;
        assert_eq!(waiting.await.unwrap(), Ok(Response::Done));
        assert_eq!(two.read((ino, there), 0, 4096).await, b"written");
    });
}

#[test]
fn who_is_interrupted_waits_no_longer() {
    with_two(true, |one, two| async move {
        let (ino, _) = one.create(Ino::ROOT, "f").await;
        lock(&one, ino, 1, LockKind::Write, false).await.unwrap();
        let waiting = begin(&two, ino, 2);
        settle().await;
        let waiters = &two.vfs.shared().waiters;
        assert_eq!(waiters.asleep(), [rig::ME.pid]);
        waiters.interrupt(rig::ME.pid);
        assert_eq!(waiting.await.unwrap(), Err(Errno::EINTR));
        assert!(waiters.asleep().is_empty());
        lock(&one, ino, 1, LockKind::Unlock, false).await.unwrap();
        lock(&one, ino, 3, LockKind::Write, false).await.unwrap();
    });
}

#[test]
fn a_session_that_others_ended_begins_anew_and_says_so() {
    with_two(false, |one, two| async move {
        let shared = one.vfs.shared();
        let (expiry, info) = (Key::SessionExpiry(shared.session), Key::SessionInfo(shared.session));
        let records = || async { two.engine.read(&[expiry.clone(), info.clone()]).await.unwrap() };
        let beat = || async { shared.links().unwrap().metadata.send(Beat(shared.session)).await.unwrap() };
        beat().await.unwrap();
        let before = records().await;
        let (told, said) = ("others ended its session", || one.store.said.lock().join(" "));
        assert!(before.iter().all(Option::is_some) && !said().contains(told));
        let write = vec![Write::Delete(expiry.clone()), Write::Delete(info.clone())];
        two.engine.commit(&ChangeSet { expect: Vec::new(), write }).await.unwrap();
        beat().await.unwrap();
        let after = records().await;
        assert!(after[0].is_some() && after[1] == before[1], "{after:?}");
        assert!(said().contains(told), "{}", said());
    });
}
