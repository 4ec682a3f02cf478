//! What a mount has from an earlier process that served it, died or left, while the kernel and its programs went on:
//! handles whose numbers nobody here gave, locks in the records, files that were removed while they were open, and
//! writes that are lost. A handle is made known by the first request that names it: the kernel has checked what it may
//! be used for. Which nodes are closed for good is told by the kernel's forgetting them.

use crate::dirs::DirStream;
use crate::handles::{FileHandle, Opened};
use crate::shared::Shared;
use parking_lot::Mutex;
use std::sync::Arc;
use zest_metadata::record::LockOwner;
use zest_metadata::{Counter, Engine, Key, Record, Scan};
use zest_types::{Errno, Handle, Ino, Request, Response, ServeResult};

/// What is known of an earlier process.
#[derive(Clone, Debug)]
pub struct Inheritance {
    /// Its session, which goes on; 0: it had none.
    pub session: u64,
    /// How many processes served the mount before this one.
    pub generation: u32,
    /// Files whose writes were lost with it.
    pub lost: Lost,
}

/// Files with lost writes.
#[derive(Clone, Debug)]
pub enum Lost {
    /// These.
    Of(Vec<Ino>),
    /// There were too many to note them.
    Any,
}

impl Shared {
    /// Makes known what a request names; gives its answer where that is all there is to it.
    pub fn revive(&self, request: &Request<'_>) -> Option<ServeResult> {
        match *request {
            Request::Read { ino, handle, .. }
            | Request::Write { ino, handle, .. }
            | Request::Flush { ino, handle, .. }
            | Request::Fsync { ino, handle }
            | Request::Fallocate { ino, handle, .. }
            | Request::Lseek { ino, handle, .. }
            | Request::SetAttr { ino, handle: Some(handle), .. } => self.revive_file(ino, handle),
            Request::CopyRange { from, from_handle, to, to_handle, .. } => {
                self.revive_file(from, from_handle);
                self.revive_file(to, to_handle);
            }
            Request::ReadDir { ino, handle, .. } if self.handles.is_inherited(handle) => {
                self.handles.revive(handle, || Opened::Dir(Arc::new(Mutex::new(DirStream::new(ino)))));
            }
            Request::Release { handle, .. } | Request::ReleaseDir { handle, .. }
                if self.handles.is_inherited(handle) =>
            {
                return Some(Ok(Response::Done));
            }
            _ => {}
        }
        None
    }

    fn revive_file(&self, ino: Ino, handle: Handle) {
        if !self.handles.is_inherited(handle) {
            return;
        }
        let unknown_loss = self.inherited.as_ref().is_some_and(|it| matches!(it.lost, Lost::Any));
        self.handles.revive(handle, || {
            let file = self.files.reopen(ino);
            if unknown_loss {
                let mut writer = file.writer();
                writer.failed(zest_types::SliceId::ZEROS, Errno::EIO);
                file.note_dirty(&writer);
                drop(writer);
            }
            Opened::File(Arc::new(FileHandle {
                file,
                readable: true,
                writable: true,
                stream: Mutex::default(),
            }))
        });
    }

    /// Learns from the records what the earlier process of this mount had.
    pub(crate) async fn inherit(&self, engine: &dyn Engine) -> Result<(), Errno> {
        let Some(inherited) = &self.inherited else { return Ok(()) };
        let failed = |error: zest_metadata::EngineError| {
            self.world.trace.complain(&error.to_string());
            Errno::EIO
        };
        let key = Key::Counter(Counter::NextInode);
        let next = match engine.read(&[key]).await.map_err(failed)?.pop().flatten() {
            Some(Record::Count(next)) => u64::try_from(next).unwrap_or(0),
            _ => 0,
        };
        self.files.inherit(Ino(next));
        if let Lost::Of(files) = &inherited.lost {
            files.iter().for_each(|ino| self.files.lose(*ino));
        }
        let session = self.session;
        for (key, _) in engine.scan(&Scan::Sustained { limit: usize::MAX }).await.map_err(failed)? {
            if let Key::Sustained { session: owner, ino } = key
                && owner == session
            {
                self.files.doubt(ino);
            }
        }
        let ours = |owner: &LockOwner| owner.session == session;
        for scan in [Scan::Flocks { session }, Scan::RangeLocks { session }] {
            for (key, record) in engine.scan(&scan).await.map_err(failed)? {
                match (key, record) {
                    (Key::Flocks(ino), Record::Flocks(held)) if held.iter().any(|lock| ours(&lock.owner)) => {
                        self.waiters.note_whole(ino);
                    }
                    (Key::RangeLocks(ino), Record::RangeLocks(held)) => {
                        let owners = held.iter().map(|(owner, _)| owner).filter(|owner| ours(owner));
                        owners.for_each(|owner| self.waiters.note_range(ino, owner.owner));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
