//! Requests that have to wait for an actor, as straight-line tasks on an arbiter. Each does all of its request,
//! from checking to the answer; what a change means is decided by the rules behind the MetadataActor.

mod content;
mod copy;
mod dir;
mod gone;
mod lock;
mod node;
mod open;
mod range;
mod tree;
mod xattr;

use crate::interrupt::Interrupt;
use crate::shared::Shared;
use std::sync::Arc;
use zest_data::SealReason;
use zest_metadata::{Change, Find, Key, Look, Op, Outcome, Record, Scan, SyncRecords, rules};
use zest_types::{Attr, Caller, Errno, Ino, Request, Response, ServeResult};
use zest_uploader::{Drain, DrainAll};

/// One slow request.
#[derive(Clone)]
pub struct Task {
    /// State of the mount.
    pub shared: Arc<Shared>,
    /// Who asks.
    pub caller: Caller,
    /// How it hears that whoever asks is called away, where it waits for what it may give up.
    pub interrupt: Option<Arc<Interrupt>>,
}

impl Task {
    /// Does a request from beginning to end. Writes come through [`Task::write`] with their payload.
    pub async fn run(&self, request: Request<'static>) -> ServeResult {
        let subject = gone::Subject::of(&request);
        let result = self.serve(request).await;
        self.or_stale(subject, result).await
    }

    async fn serve(&self, request: Request<'static>) -> ServeResult {
        match request {
            Request::Lookup { parent, name } => self.lookup(parent, name).await,
            Request::GetAttr { ino } => self.node(ino).await,
            Request::SetAttr { ino, set, handle } => self.set_attr(ino, set, handle).await,
            Request::Readlink { ino } => self.read_link(ino).await,
            Request::Mknod { .. } | Request::Mkdir { .. } | Request::Symlink { .. } => {
                self.make(request).await
            }
            Request::Unlink { parent, name } => self.remove(Op::Unlink { parent, name }).await,
            Request::Rmdir { parent, name } => self.remove(Op::Rmdir { parent, name }).await,
            Request::Rename { .. } => self.rename(request).await,
            Request::Link { ino, parent, name } => self.entry(Op::Link { ino, parent, name }).await,
            Request::Open { ino, flags } => self.open(ino, flags).await,
            Request::Create { parent, name, mode, umask, flags } => {
                self.create(parent, name, mode, umask, flags).await
            }
            Request::Read { ino, handle, offset, size } => self.read(ino, handle, offset, size).await,
            Request::Write { .. } => Err(Errno::EIO),
            Request::Flush { ino, handle, lock_owner } => self.flush(ino, handle, lock_owner).await,
            Request::Release { ino, handle } => self.release(ino, handle).await,
            Request::Fsync { ino, handle } => self.fsync(ino, handle).await,
            Request::OpenDir { ino } => self.open_dir(ino).await,
            Request::ReadDir { handle, offset, max_entries, plus, .. } => {
                self.read_dir(handle, offset, max_entries, plus).await
            }
            Request::ReleaseDir { handle, .. } => {
                self.shared.handles.remove(handle).map(|_| Response::Done).ok_or(Errno::EBADF)
            }
            Request::FsyncDir { .. } => self.sync_records().await.map(|()| Response::Done),
            Request::Statfs { ino } => self.statfs(ino).await,
            Request::SetXattr { .. } | Request::GetXattr { .. } | Request::ListXattr { .. } => {
                self.xattr(request).await
            }
            Request::RemoveXattr { .. } => self.xattr(request).await,
            Request::Access { ino, mask } => self.access(ino, mask).await,
            Request::Fallocate { .. } | Request::CopyRange { .. } => self.change_range(request).await,
            Request::Lseek { ino, handle, offset, what } => self.seek(ino, handle, offset, what).await,
            Request::GetLock { .. } | Request::SetLock { .. } | Request::Flock { .. } => {
                self.lock(request).await
            }
            Request::SyncAll => self.sync_all().await.map(|()| Response::Done),
        }
    }

    /// Has a change decided and committed.
    pub async fn change(&self, op: Op) -> Result<Outcome, Errno> {
        let change = Change { caller: self.caller, op };
        self.shared.links()?.metadata.send(change).await.map_err(|_| Errno::EIO)?
    }

    /// `EACCES` unless mode bits or a rule let the caller do this (bits of access(2)); see `rules::may`.
    pub async fn need(&self, attr: &Attr, mask: u8) -> Result<(), Errno> {
        let rule = match rules::deciding_rule(attr, &self.caller) {
            Some(id) => Some(self.acl_rule(id).await?),
            None => None,
        };
        if rules::may(attr, &self.caller, mask, rule.as_ref()) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Fresh records under keys.
    pub async fn look(&self, keys: Vec<Key>) -> Result<Vec<Option<Record>>, Errno> {
        let found = self.shared.links()?.metadata.send(Look(keys)).await.map_err(|_| Errno::EIO)??;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// What a scan finds.
    pub async fn find(&self, scan: Scan, attrs: bool) -> Result<Vec<(Key, Record)>, Errno> {
        self.shared.links()?.metadata.send(Find { scan, attrs }).await.map_err(|_| Errno::EIO)?
    }

    /// Attributes, from a view or fresh, with what is unflushed on top.
    pub async fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        match self.shared.attr(ino) {
            Some(attr) => Ok(attr),
            None => self.fresh_attr(ino).await,
        }
    }

    /// Attributes for the kernel, which keeps them for a while: from a view only where that adds nothing to it.
    pub async fn shown_attr(&self, ino: Ino) -> Result<Attr, Errno> {
        if self.shared.answers_from_views() { self.attr(ino).await } else { self.fresh_attr(ino).await }
    }

    /// Attributes as the engine has them now, with what is unflushed on top.
    pub async fn fresh_attr(&self, ino: Ino) -> Result<Attr, Errno> {
        let pending = self.shared.pending(ino);
        match self.look(vec![Key::Attr(ino)]).await?.pop().flatten() {
            Some(Record::Attr(attr)) => Ok(self.shared.with_pending(ino, attr, pending)),
            Some(_) => Err(Errno::EIO),
            None => Err(Errno::ENOENT),
        }
    }

    /// Waits until everything written to the file so far is committed, or has failed.
    pub async fn drain(&self, ino: Ino) -> Result<(), Errno> {
        let Some(file) = self.shared.files.get(ino) else { return Ok(()) };
        if self.shared.seal(&file, SealReason::Flush) {
            self.shared.links()?.uploader.send(Drain { ino }).await.map_err(|_| Errno::EIO)?;
        }
        Ok(())
    }

    /// Makes all committed records durable.
    pub async fn sync_records(&self) -> Result<(), Errno> {
        self.shared.links()?.metadata.send(SyncRecords).await.map_err(|_| Errno::EIO)?
    }

    /// Commits all unflushed writes; a lost one is told to whoever syncs its file.
    pub async fn commit_all(&self) -> Result<(), Errno> {
        for file in self.shared.files.dirty() {
            self.shared.seal(&file, SealReason::Flush);
        }
        self.shared.links()?.uploader.send(DrainAll).await.map_err(|_| Errno::EIO)
    }

    /// Commits all unflushed writes and makes all records durable. `EIO` when a write was lost and nobody
    /// was told yet.
    pub async fn sync_all(&self) -> Result<(), Errno> {
        self.commit_all().await?;
        self.sync_records().await?;
        if self.shared.files.tell_lost() { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Tells whoever removes data that a file was deleted.
    pub fn announce(&self, outcome: &Outcome) {
        if let (Outcome::Removed { ino, deleted: Some(length) }, Some(hears)) =
            (outcome, self.shared.on_deleted.get())
        {
            hears(*ino, *length);
        }
    }
}
