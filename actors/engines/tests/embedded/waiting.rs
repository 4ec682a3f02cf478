//! Who waits for whom: syncs that come while one runs share the next one, readers wait for nobody, and a sync that
//! was given up does not hold up others.

use crate::disk::TestDisk;
use crate::world::world_with;
use crate::{change, content, put};
use futures::channel::oneshot;
use futures::executor::LocalPool;
use futures::task::LocalSpawnExt;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use zest_engines::EmbeddedEngine;
use zest_metadata::Engine;
use zest_world::{BoxFuture, Offload};

type Job = (Box<dyn FnOnce() + Send>, oneshot::Sender<()>);

/// Keeps work until the test does it.
#[derive(Default)]
struct Later(Mutex<VecDeque<Job>>);

impl Later {
    fn waiting(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn do_one(&self) {
        let (job, done) = self.0.lock().unwrap().pop_front().unwrap();
        job();
        let _ = done.send(());
    }

    fn lose_one(&self) {
        drop(self.0.lock().unwrap().pop_front().unwrap());
    }
}

impl Offload for Later {
    fn run(&self, _: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let (send, receive) = oneshot::channel();
        self.0.lock().unwrap().push_back((job, send));
        Box::pin(async move {
            let _ = receive.await;
        })
    }
}

struct Stage {
    later: Arc<Later>,
    engine: Rc<EmbeddedEngine>,
    pool: LocalPool,
    /// Names of the syncs that were answered, and whether well.
    answered: Rc<RefCell<Vec<(&'static str, bool)>>>,
}

impl Stage {
    fn new() -> Stage {
        let later = Arc::new(Later::default());
        let engine = EmbeddedEngine::open(Arc::new(TestDisk::default()), &world_with(later.clone())).unwrap();
        Stage { later, engine: Rc::new(engine), pool: LocalPool::new(), answered: Rc::default() }
    }

    fn commit(&self, ino: u64) {
        self.engine.commit_now(&change(vec![put(ino, b"x")])).unwrap();
    }

    fn sync(&mut self, name: &'static str) {
        let (engine, answered) = (self.engine.clone(), self.answered.clone());
        let task = async move {
            let outcome = engine.sync().await;
            answered.borrow_mut().push((name, outcome.is_ok()));
        };
        self.pool.spawner().spawn_local(task).unwrap();
        self.pool.run_until_stalled();
    }

    fn do_one(&mut self) {
        self.later.do_one();
        self.pool.run_until_stalled();
    }
}

#[test]
fn syncs_that_come_during_a_flush_share_the_next_one() {
    let mut stage = Stage::new();
    stage.commit(1);
    stage.sync("first");
    for (ino, name) in [(2, "a"), (3, "b"), (4, "c")] {
        stage.commit(ino);
        stage.sync(name);
    }
    assert_eq!((stage.later.waiting(), stage.answered.borrow().len()), (1, 0));
    // The first flush runs after all four commits, so it answers for them all.
    stage.do_one();
    let mut answered = stage.answered.take();
    answered.sort_unstable();
    assert_eq!(answered, [("a", true), ("b", true), ("c", true), ("first", true)]);
    assert_eq!(stage.later.waiting(), 0);
    stage.sync("nothing to do");
    assert_eq!(stage.answered.take(), [("nothing to do", true)]);
}

#[test]
fn a_commit_after_the_freeze_needs_another_flush() {
    let mut stage = Stage::new();
    stage.commit(1);
    stage.sync("first");
    let job = stage.later.0.lock().unwrap().pop_front().unwrap();
    (job.0)();
    // The flush has run, its end was not told yet.
    stage.commit(2);
    stage.sync("second");
    assert!(stage.answered.borrow().is_empty());
    job.1.send(()).unwrap();
    stage.pool.run_until_stalled();
    assert_eq!(stage.answered.take(), [("first", true)]);
    stage.do_one();
    assert_eq!(stage.answered.take(), [("second", true)]);
}

#[test]
fn a_lost_flush_is_a_failure_and_the_next_one_works() {
    let mut stage = Stage::new();
    stage.commit(1);
    stage.sync("lost");
    stage.sync("waiting");
    stage.later.lose_one();
    stage.pool.run_until_stalled();
    // The flush that was lost began before "waiting" came, so it does not answer for it.
    assert_eq!(stage.answered.take(), [("lost", false)]);
    stage.do_one();
    assert_eq!(stage.answered.take(), [("waiting", true)]);
}

#[test]
fn a_sync_that_is_given_up_holds_nobody_up() {
    let mut stage = Stage::new();
    stage.commit(1);
    {
        let engine = stage.engine.clone();
        let mut given_up = Box::pin(async move { engine.sync().await });
        let waker = futures::task::noop_waker();
        let mut context = std::task::Context::from_waker(&waker);
        assert!(given_up.as_mut().poll(&mut context).is_pending());
    }
    stage.sync("other");
    assert_eq!(stage.later.waiting(), 2);
    stage.do_one();
    stage.do_one();
    assert_eq!(stage.answered.take(), [("other", true)]);
}

#[test]
fn readers_and_commits_go_on_while_a_flush_waits() {
    let mut stage = Stage::new();
    stage.commit(1);
    stage.sync("slow");
    stage.commit(2);
    assert_eq!(content(&stage.engine, 5).len(), 2);
    stage.do_one();
    stage.commit(3);
    assert_eq!(content(&stage.engine, 5).len(), 3);
}
