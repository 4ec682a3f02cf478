//! A pool of threads for work that blocks. Bounded on both sides: so many threads, so many jobs waiting; who
//! comes later waits in his own future.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use zest_types::limits;
use zest_world::{BoxFuture, Offload};

struct Job {
    what: &'static str,
    work: Box<dyn FnOnce() + Send>,
    done: oneshot::Sender<()>,
    _place: OwnedSemaphorePermit,
}

/// The pool. Its threads end once it is dropped and the last job has run.
pub struct Pool {
    queue: mpsc::Sender<Job>,
    places: Arc<Semaphore>,
}

impl Pool {
    /// Twice the processors, at least 4 and at most 32: most jobs wait for a disk.
    #[must_use]
    pub fn default_threads() -> usize {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        (cores * 2).clamp(4, 32)
    }

    /// Starts a pool. Threads that cannot be started are missing; with none at all, jobs run in the caller.
    #[must_use]
    pub fn start(threads: usize) -> Pool {
        let (queue, jobs) = mpsc::channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..threads.max(1) {
            let jobs = Arc::clone(&jobs);
            let started = std::thread::Builder::new().name(format!("zest-work-{number}")).spawn(move || {
                loop {
                    let next = jobs.lock().recv();
                    match next {
                        Ok(job) => run(job),
                        Err(_) => return,
                    }
                }
            });
            if let Err(error) = started {
                tracing::error!("a worker thread could not be started: {error}");
            }
        }
        Pool { queue, places: Arc::new(Semaphore::new(limits::MAILBOX)) }
    }
}

fn run(job: Job) {
    let Job { what, work, done, _place } = job;
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("blocking work {what:?} panicked; whoever asked for it treats it as failed");
    }
    // Nobody waits any more when the asking future was dropped.
    let _ = done.send(());
}

fn push(queue: &mpsc::Sender<Job>, job: Job) {
    if let Err(mpsc::SendError(job)) = queue.send(job) {
        run(job);
    }
}

impl Offload for Pool {
    fn run(&self, what: &'static str, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let (done, ready) = oneshot::channel();
        // With a free place the job starts now, whether or not the future is ever polled.
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => {
                push(&self.queue, Job { what, work, done, _place: place });
                Box::pin(async move {
                    let _ = ready.await;
                })
            }
            Err(_) => {
                let (queue, places) = (self.queue.clone(), Arc::clone(&self.places));
                Box::pin(async move {
                    // The semaphore is never closed.
                    if let Ok(place) = places.acquire_owned().await {
                        push(&queue, Job { what, work, done, _place: place });
                        let _ = ready.await;
                    }
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn more_jobs_than_places_all_run_and_a_panic_ends_only_its_job() {
        let pool = Pool::start(3);
        let ran = Arc::new(AtomicUsize::new(0));
        let jobs = limits::MAILBOX * 2;
        let all = (0..jobs).map(|n| {
            let ran = Arc::clone(&ran);
            pool.run(
                "test",
                Box::new(move || {
                    assert!(n != 7, "the job that panics");
                    ran.fetch_add(1, Ordering::Relaxed);
                }),
            )
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(futures::future::join_all(all));
        assert_eq!(ran.load(Ordering::Relaxed), jobs - 1);
    }
}
