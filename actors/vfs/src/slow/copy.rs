//! A copy of a file or tree that shares its data, made for somebody who asked past the kernel: everything written
//! before is in it, and the asker needs the rights that a copy made by hand would need, the way to both places included.

use super::Task;
use crate::shared::Shared;
use std::sync::Arc;
use zest_metadata::actor::Clone;
use zest_metadata::clone::Job;
use zest_metadata::{Key, Record, Scan};
use zest_types::{Attr, Caller, Errno, Ino, limits};

/// The bit of access(2) for going through a directory.
const SEARCH: u8 = 1;

impl Shared {
    /// Makes the copy; it is durable when this returns. Nothing outside of the directory `root` is touched.
    pub async fn copy(self: &Arc<Shared>, caller: Caller, job: Job, root: Ino) -> Result<Ino, Errno> {
        if self.refuses_changes() {
            return Err(Errno::EROFS);
        }
        let task = Task { shared: Arc::clone(self), caller, interrupt: None };
        let from = task.fresh_attr(job.from).await?;
        may_find(&task, job.from, &from, root).await?;
        may_reach(&task, job.parent, root).await?;
        task.commit_all().await?;
        let made = self.links()?.metadata.send(Clone { caller, job }).await.map_err(|_| Errno::EIO)??;
        task.sync_records().await?;
        Ok(made)
    }
}

/// Whether the caller may come to a node by one of its names.
async fn may_find(task: &Task, ino: Ino, attr: &Attr, root: Ino) -> Result<(), Errno> {
    if ino == root {
        return Ok(());
    }
    if attr.parent != Ino(0) {
        return may_reach(task, attr.parent, root).await;
    }
    let mut refused = Errno::ENOENT;
    for (key, _) in task.find(Scan::Parents(ino), false).await? {
        let Key::Parent { parent, .. } = key else { continue };
        match may_reach(task, parent, root).await {
            Ok(()) => return Ok(()),
            Err(errno) => refused = errno,
        }
    }
    Err(refused)
}

/// Whether the caller may go from the mount's root to this directory.
async fn may_reach(task: &Task, mut dir: Ino, root: Ino) -> Result<(), Errno> {
    for _ in 0..limits::DEPTH {
        let attr: Attr = match task.look(vec![Key::Attr(dir)]).await?.pop().flatten() {
            Some(Record::Attr(attr)) => attr,
            Some(_) => return Err(Errno::EIO),
            None => return Err(Errno::ENOENT),
        };
        task.need(&attr, SEARCH).await?;
        if dir == root {
            return Ok(());
        }
        if dir == Ino::ROOT || attr.parent == dir {
            return Err(Errno::ENOENT); // outside of what is mounted
        }
        dir = attr.parent;
    }
    Err(Errno::ELOOP)
}
