//! Locks nobody knows of: whoever is killed while a lock is set for him keeps none; an error after it was set takes it
//! from nobody; and what giving one back costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rig;

use async_trait::async_trait;
use futures::FutureExt;
use parking_lot::Mutex;
use rig::{ME, Memory, Rig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Semaphore, oneshot};
use zest_engines::MemoryEngine;
use zest_metadata::{Applied, ChangeSet, CommitError, Engine, EngineError, Key, Record, Scan, format};
use zest_types::request::{LockKind, RangeLock};
use zest_types::volume::Settings;
use zest_types::{Caller, Errno, Ino, Request, Response, ServeResult, Time};
use zest_vfs::interrupt::{Call, Interrupt};

/// A store of several clients that can be held up, and that can lose its readers.
struct Store {
    records: MemoryEngine,
    gate: Semaphore,
    fails: AtomicBool,
    read: Mutex<Vec<Vec<Key>>>,
}

const OPEN: usize = 1 << 20;

#[async_trait]
impl Engine for Store {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.gate.acquire().await.unwrap().forget();
        self.read.lock().push(keys.to_vec());
        if self.fails.load(Ordering::Relaxed) {
            return Err(EngineError::Failed("test".into()));
        }
        self.records.read(keys).await
    }
    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.records.scan(scan).await
    }
    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.gate.acquire().await.unwrap().forget();
        self.records.commit(changes).await
    }
    async fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }
    fn exclusive(&self) -> bool {
        false
    }
}

impl Store {
    fn hold(&self) {
        self.gate.forget_permits(OPEN);
    }
    fn go(&self) {
        self.gate.add_permits(OPEN);
    }
}

fn with_store<F: Future<Output = ()> + 'static>(test: impl FnOnce(Arc<Rig>, Arc<Store>, Ino) -> F + 'static) {
    actix::System::new().block_on(async move {
        let store = Arc::new(Store {
            records: MemoryEngine::default(),
            gate: Semaphore::new(OPEN),
            fails: AtomicBool::new(false),
            read: Mutex::default(),
        });
        let settings = Settings::new("test-volume", "u", "mem", "mem");
        let first = format::new_volume(settings.to_json(), false, true, Time::new(1, 0));
        store.records.commit(&first).await.unwrap();
        let engine = Arc::clone(&store) as Arc<dyn Engine>;
        let rig = rig::open(&Arc::new(Memory::default()), &engine, &settings).await;
        let (ino, _) = rig.create(Ino::ROOT, "f").await;
        test(rig, store, ino).await;
    });
}

fn range(ino: Ino, owner: u64, kind: LockKind, wait: bool) -> Request<'static> {
    let lock = RangeLock { kind, start: 0, end: 9, pid: 7 };
    Request::SetLock { ino, owner, lock, wait }
}

fn whole(ino: Ino, owner: u64, kind: LockKind, wait: bool) -> Request<'static> {
    Request::Flock { ino, owner, kind, wait }
}

/// Begins a request whose asker, a thread without a number here, can be called away.
fn begin(rig: &Rig, request: Request<'static>) -> (Arc<Interrupt>, oneshot::Receiver<ServeResult>) {
    let (reply, answer) = oneshot::channel();
    let interrupt = Arc::new(Interrupt::default());
    let nobody = Caller { pid: 0, ..ME };
    rig.vfs.later(&nobody, request, Some(Arc::clone(&interrupt)), move |result| {
        let _gone = reply.send(result);
    });
    (interrupt, answer)
}

/// Lets everybody else go on until they all wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

type Ask = fn(Ino, u64, LockKind, bool) -> Request<'static>;
const BOTH: [Ask; 2] = [range, whole];

#[test]
fn who_is_killed_while_a_lock_is_set_for_him_keeps_none() {
    with_store(|rig, store, ino| async move {
        for ask in BOTH {
            store.hold();
            let (interrupt, mut answer) = begin(&rig, ask(ino, 1, LockKind::Write, true));
            settle().await;
            assert!((&mut answer).now_or_never().is_none());
            interrupt.call(Call::Gone);
            assert_eq!(answer.await.unwrap(), Err(Errno::EINTR), "the dying wait for nobody");
            store.go();
            settle().await;
            rig.done(ask(ino, 2, LockKind::Write, false)).await;
            rig.done(ask(ino, 2, LockKind::Unlock, false)).await;
        }
    });
}

#[test]
fn who_dies_asking_for_what_he_has_leaves_it_to_those_who_share_it() {
    with_store(|rig, store, ino| async move {
        for ask in BOTH {
            rig.done(ask(ino, 1, LockKind::Write, false)).await;
            store.hold();
            let (interrupt, answer) = begin(&rig, ask(ino, 1, LockKind::Write, true));
            settle().await;
            interrupt.call(Call::Gone);
            assert_eq!(answer.await.unwrap(), Err(Errno::EINTR));
            store.go();
            settle().await;
            assert_eq!(rig.ask(ask(ino, 2, LockKind::Write, false)).await, Err(Errno::EAGAIN));
            rig.done(ask(ino, 1, LockKind::Unlock, false)).await;
        }
    });
}

#[test]
fn a_signal_ends_the_wait_of_a_thread_that_has_no_number_here() {
    with_store(|rig, _, ino| async move {
        for ask in BOTH {
            rig.done(ask(ino, 1, LockKind::Write, false)).await;
            let (interrupt, mut answer) = begin(&rig, ask(ino, 2, LockKind::Write, true));
            settle().await;
            assert!((&mut answer).now_or_never().is_none());
            interrupt.call(Call::Signal);
            settle().await;
            assert_eq!(answer.now_or_never().unwrap().unwrap(), Err(Errno::EINTR));
            rig.done(ask(ino, 1, LockKind::Unlock, false)).await;
            rig.done(ask(ino, 3, LockKind::Write, false)).await;
            rig.done(ask(ino, 3, LockKind::Unlock, false)).await;
        }
    });
}

#[test]
fn who_has_a_lock_is_told_so_also_when_nothing_else_can_be_learned() {
    with_store(|rig, store, ino| async move {
        for ask in BOTH {
            // What setting the lock needs, and nothing more.
            rig.done(ask(ino, 1, LockKind::Read, false)).await;
            store.hold();
            let (_, mut answer) = begin(&rig, ask(ino, 2, LockKind::Read, false));
            // One step of the store after the other, until the lock is set.
            for _ in 0..100 {
                settle().await;
                store.fails.store(locked(&store, ino).await == 2, Ordering::Relaxed);
                store.gate.add_permits(1);
            }
            assert!(store.fails.load(Ordering::Relaxed), "the lock was set before the store failed");
            assert_eq!((&mut answer).now_or_never().unwrap().unwrap(), Ok(Response::Done));
            store.fails.store(false, Ordering::Relaxed);
            store.go();
            assert_eq!(rig.ask(ask(ino, 1, LockKind::Write, false)).await, Err(Errno::EAGAIN));
            rig.done(ask(ino, 2, LockKind::Unlock, false)).await;
            rig.done(ask(ino, 1, LockKind::Unlock, false)).await;
        }
    });
}

/// Owners that have a lock on the file.
async fn locked(store: &Store, ino: Ino) -> usize {
    let found = store.records.read(&[Key::RangeLocks(ino), Key::Flocks(ino)]).await.unwrap();
    let count = |record: &Option<Record>| match record {
        Some(Record::RangeLocks(held)) => held.len(),
        Some(Record::Flocks(held)) => held.len(),
        _ => 0,
    };
    found.iter().map(count).sum()
}

#[test]
fn giving_a_lock_back_does_not_look_at_what_others_wrote() {
    with_store(|rig, store, ino| async move {
        for ask in BOTH {
            let looked =
                |store: &Store| store.read.lock().iter().filter(|keys| keys[..] == [Key::Attr(ino)]).count();
            rig.done(ask(ino, 1, LockKind::Write, false)).await;
            let before = looked(&store);
            assert!(before > 0, "who gets one looks");
            rig.done(ask(ino, 1, LockKind::Unlock, false)).await;
            assert_eq!(looked(&store), before);
        }
    });
}
