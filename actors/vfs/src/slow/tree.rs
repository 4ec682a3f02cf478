//! Names: looking them up, making, linking, moving and removing them.

use super::Task;
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::request::RenameMode;
use zest_types::{Errno, FileType, Ino, Name, Request, Response, ServeResult, limits};

impl Task {
    pub(super) async fn lookup(&self, parent: Ino, name: Name) -> ServeResult {
        let gone = if self.shared.exclusive { Errno::ENOENT } else { Errno::ESTALE };
        let none = |errno| if errno == Errno::ENOENT { gone } else { errno };
        let dir = self.attr(parent).await.map_err(none)?;
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        self.need(&dir, 1).await?;
        let ino = match name.as_bytes() {
            b"." => parent,
            b".." if dir.parent.0 == 0 => parent,
            b".." => dir.parent,
            b".trash" if parent == Ino::ROOT => Ino::TRASH,
            _ => return self.lookup_entry(parent, name).await,
        };
        Ok(Response::Entry { ino, attr: self.shown_attr(ino).await? })
    }

    /// What stands behind a name. A node that is gone when its attributes are asked for may have been replaced by
    /// another under the same name.
    async fn lookup_entry(&self, parent: Ino, name: Name) -> ServeResult {
        let mut seen = None;
        for _ in 0..limits::TXN_RETRIES {
            let ino = match self.look(vec![Key::Dentry(parent, name.clone())]).await?.pop().flatten() {
                Some(Record::Dentry { ino, .. }) => ino,
                Some(_) => return Err(Errno::EIO),
                None => return Err(Errno::ENOENT),
            };
            if seen == Some(ino) {
                break;
            }
            match self.shown_attr(ino).await {
                Err(Errno::ENOENT) => seen = Some(ino),
                answer => return Ok(Response::Entry { ino, attr: answer? }),
            }
        }
        Err(Errno::ENOENT)
    }

    pub(super) async fn make(&self, request: Request<'static>) -> ServeResult {
        let none = Vec::new;
        let op = match request {
            Request::Mknod { parent, name, kind, mode, umask, rdev } => {
                if matches!(kind, FileType::Directory | FileType::Symlink) {
                    return Err(Errno::EINVAL);
                }
                Op::Make { parent, name, kind, mode, umask, rdev, target: none(), existing_ok: false }
            }
            Request::Mkdir { parent, name, mode, umask } => {
                let kind = FileType::Directory;
                Op::Make { parent, name, kind, mode, umask, rdev: 0, target: none(), existing_ok: false }
            }
            Request::Symlink { parent, name, target } => {
                let kind = FileType::Symlink;
                Op::Make { parent, name, kind, mode: 0o777, umask: 0, rdev: 0, target, existing_ok: false }
            }
            _ => return Err(Errno::EINVAL),
        };
        self.entry(op).await
    }

    /// A change that ends with a node behind a name.
    pub(super) async fn entry(&self, op: Op) -> ServeResult {
        let pending = match &op {
            Op::Link { ino, .. } => self.shared.pending(*ino),
            _ => None,
        };
        match self.change(op).await? {
            Outcome::Node { ino, attr, .. } => {
                Ok(Response::Entry { ino, attr: self.shared.with_pending(ino, attr, pending) })
            }
            _ => Err(Errno::EIO),
        }
    }

    pub(super) async fn remove(&self, op: Op) -> ServeResult {
        let outcome = self.change(op).await?;
        self.announce(&outcome);
        Ok(Response::Done)
    }

    /// A file that takes the place of another one has its content committed first: programs replace a file by
    /// writing a new one and renaming it, and a crash must leave one or the other.
    pub(super) async fn rename(&self, request: Request<'static>) -> ServeResult {
        let Request::Rename { parent, name, new_parent, new_name, mode } = request else {
            return Err(Errno::EINVAL);
        };
        if mode == RenameMode::Replace && self.shared.files.any_dirty() {
            let keys = vec![Key::Dentry(parent, name.clone()), Key::Dentry(new_parent, new_name.clone())];
            let mut found = self.look(keys).await?;
            if let (Some(_), Some(Some(Record::Dentry { ino, .. }))) = (found.pop().flatten(), found.pop()) {
                self.drain(ino).await?;
            }
        }
        self.remove(Op::Rename { parent, name, new_parent, new_name, mode }).await
    }
}
