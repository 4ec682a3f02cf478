//! Opening, making and closing files.

use super::Task;
use crate::files::OpenFile;
use crate::now::open_refusal;
use crate::open_flags::OpenFlags;
use std::sync::Arc;
use std::time::Duration;
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::{Attr, Errno, FileType, Handle, Ino, Name, Response, ServeResult, limits};

impl Task {
    pub(super) async fn open(&self, ino: Ino, flags: u32) -> ServeResult {
        let flags = OpenFlags(flags);
        let was_open = self.shared.files.may_be_open(ino);
        let (file, attr) = self.register(ino, false).await?;
        if attr.nlink == 0 && !was_open && !self.shared.exclusive {
            // Others removed it and still have it open; nobody here can mean it.
            self.shared.files.close(ino);
            return Err(Errno::ESTALE);
        }
        match self.finish_open(ino, &attr, flags, true).await {
            Ok(()) => {
                let keep_cache = self.shared.exclusive || self.settle(ino, &attr);
                Ok(Response::Opened { handle: self.shared.add_handle(file, flags), keep_cache })
            }
            Err(errno) => {
                self.shared.files.close(ino);
                Err(errno)
            }
        }
    }

    pub(super) async fn create(
        &self,
        parent: Ino,
        name: Name,
        mode: u16,
        umask: u16,
        flags: u32,
    ) -> ServeResult {
        let flags = OpenFlags(flags);
        let (kind, target, existing_ok) = (FileType::File, Vec::new(), !flags.exclusive());
        let op = Op::Make { parent, name, kind, mode, umask, rdev: 0, target, existing_ok };
        let Outcome::Node { ino, created, .. } = self.change(op).await? else { return Err(Errno::EIO) };
        let (file, mut attr) = self.register(ino, created).await?;
        if !created {
            if let Err(errno) = self.finish_open(ino, &attr, flags, true).await {
                self.shared.files.close(ino);
                return Err(errno);
            }
            attr = self.attr(ino).await?;
        }
        Ok(Response::Created { ino, attr, handle: self.shared.add_handle(file, flags) })
    }

    /// Counts the file as open and sees its attributes, in this order: a removal that comes later finds it open,
    /// one that came before has taken the attributes with it.
    /// Of a file that was `created` for this open a view tells as much as the engine.
    async fn register(&self, ino: Ino, created: bool) -> Result<(Arc<OpenFile>, Attr), Errno> {
        for _ in 0..limits::TXN_RETRIES {
            if let Some(file) = self.shared.files.open(ino) {
                if let Some(attr) = self.shared.attr(ino).filter(|attr| created && attr.nlink > 0) {
                    return Ok((file, attr));
                }
                return match self.opening_attr(ino).await {
                    Ok(attr) => Ok((file, attr)),
                    Err(errno) => {
                        self.shared.files.close(ino);
                        Err(errno)
                    }
                };
            }
            self.shared.world.clock.sleep(Duration::from_millis(1)).await;
        }
        Err(Errno::EBUSY)
    }

    /// Attributes for an open: where others change the volume, exactly as the engine has them now. A view would do
    /// for most things, but this one question is what makes an open see what others closed.
    pub(super) async fn opening_attr(&self, ino: Ino) -> Result<Attr, Errno> {
        if self.shared.exclusive {
            return self.fresh_attr(ino).await;
        }
        match self.look(vec![Key::Attr(ino)]).await?.pop().flatten() {
            Some(Record::Attr(attr)) => Ok(attr),
            Some(_) => Err(Errno::EIO),
            None => Err(Errno::ENOENT),
        }
    }

    async fn finish_open(&self, ino: Ino, attr: &Attr, flags: OpenFlags, check: bool) -> Result<(), Errno> {
        if let Some(errno) = open_refusal(attr, flags) {
            return Err(errno);
        }
        if check {
            self.need(attr, flags.access_mask()).await?;
        }
        if flags.truncates() && attr.is_file() {
            self.truncate(ino, 0, true).await?;
        }
        Ok(())
    }

    /// Whether the kernel's pages of this file are still right: nobody changed it since it was open last. If not,
    /// what was learned of its content is forgotten, too.
    fn settle(&self, ino: Ino, attr: &Attr) -> bool {
        let version = (attr.mtime, attr.length);
        let unchanged = {
            let mut seen = self.shared.seen.lock();
            if seen.len() >= limits::CHUNK_VIEWS {
                seen.clear();
            }
            seen.insert(ino, version) == Some(version)
        };
        self.shared.views.settle_file(ino, attr, unchanged);
        unchanged
    }

    pub(super) async fn flush(&self, ino: Ino, handle: Handle, lock_owner: u64) -> ServeResult {
        let file = self.shared.file(handle)?;
        // Whoever gets the lock next shall see what was written under it.
        let drained = self.drain(ino).await;
        self.drop_range_locks(ino, lock_owner).await?;
        drained?;
        self.shared.upload_error(&file.file)?;
        Ok(Response::Done)
    }

    pub(super) async fn release(&self, ino: Ino, handle: Handle) -> ServeResult {
        // Where an earlier process gave handles, this may not have been the last.
        if !self.shared.close(handle) || self.shared.files.doubt(ino) {
            return Ok(Response::Done);
        }
        self.closed(ino).await
    }

    /// The kernel let go of a node. Where it has no name any more, nobody has it open then, whoever gave the handles;
    /// of one with a name the kernel may have let go of an answer only.
    pub async fn forgotten(&self, ino: Ino) -> Result<(), Errno> {
        match self.fresh_attr(ino).await {
            Ok(attr) if attr.nlink == 0 && self.shared.files.is_open(ino) => {
                self.shared.files.doubt(ino);
                Ok(())
            }
            Ok(attr) if attr.nlink == 0 => self.closed(ino).await.map(drop),
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// What becomes of a file nobody has open any more.
    async fn closed(&self, ino: Ino) -> ServeResult {
        self.drop_locks(ino).await?;
        // The file may have been removed while it was open: with the last handle its content goes.
        match self.fresh_attr(ino).await {
            Ok(attr) if attr.nlink == 0 => {}
            _ => return Ok(Response::Done),
        }
        if self.shared.files.is_open(ino) {
            return Ok(Response::Done);
        }
        self.drain(ino).await?;
        let outcome = self.change(Op::DropSustained { session: self.shared.session, ino }).await?;
        self.announce(&outcome);
        Ok(Response::Done)
    }
}
