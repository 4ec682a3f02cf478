//! What waits to be stored in one cache directory: bounded in bytes. What comes when it is full is not kept, since a
//! copy that is missing costs a fetch, and a reader or writer who waits costs more.

use super::entry::Wanted;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::oneshot;
use zest_types::SliceId;
use zest_types::limits::CACHE_BATCH;

/// Bytes of one block to be stored: parts that are whole.
pub(super) struct Job {
    pub(super) slice: SliceId,
    /// Where the block begins in the file.
    pub(super) base: u64,
    pub(super) block_len: u32,
    /// Where the bytes begin in the block.
    pub(super) offset: u32,
    pub(super) data: Bytes,
    pub(super) told: Option<oneshot::Sender<bool>>,
}

impl Job {
    /// What is stored once it is done.
    pub(super) fn wanted(&self) -> Wanted {
        let end = self.offset + u32::try_from(self.data.len()).unwrap_or(0);
        Wanted { base: self.base, block_len: self.block_len, range: self.offset..end }
    }

    /// It is done; whether the bytes are stored.
    pub(super) fn done(self, kept: bool) {
        if let Some(told) = self.told {
            let _gone = told.send(kept); // who asked may have given up
        }
    }
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    bytes: u64,
    closed: bool,
}

/// See the head of this file.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// Bytes that may wait.
    most: u64,
}

impl Queue {
    /// A queue of so many bytes.
    pub(super) fn new(most: u64) -> Queue {
        Queue { inner: Mutex::default(), most }
    }

    /// Adds a job, unless there is no room. One that somebody waits for always has room: he bounds how many there are.
    pub(super) fn push(&self, job: Job) -> bool {
        let mut inner = self.inner.lock();
        let len = job.data.len() as u64;
        let fits = job.told.is_some() || inner.bytes + len <= self.most;
        if inner.closed || !fits {
            drop(inner);
            job.done(false);
            return false;
        }
        inner.bytes += len;
        inner.jobs.push_back(job);
        true
    }

    /// The jobs to do next, oldest first.
    pub(super) fn take(&self) -> Vec<Job> {
        let mut inner = self.inner.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < CACHE_BATCH {
            let Some(job) = inner.jobs.pop_front() else { break };
            bytes += job.data.len() as u64;
            taken.push(job);
        }
        inner.bytes -= bytes;
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inner.lock().jobs.is_empty()
    }

    /// Takes nothing more, and lets go what waits.
    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.bytes = 0;
        let jobs = std::mem::take(&mut inner.jobs);
        drop(inner);
        jobs.into_iter().for_each(|job| job.done(false));
    }
}
