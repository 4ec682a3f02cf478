//! Opening, making and closing files.

use super::Task;
use crate::files::OpenFile;
use crate::now::open_refusal;
use crate::open_flags::OpenFlags;
use std::sync::Arc;
use std::time::Duration;
use zest_metadata::{Op, Outcome};
use zest_types::{Attr, Errno, FileType, Handle, Ino, Name, Response, ServeResult, limits};

impl Task {
    pub(super) async fn open(&self, ino: Ino, flags: u32) -> ServeResult {
        let flags = OpenFlags(flags);
        let (file, attr) = self.register(ino).await?;
        match self.finish_open(ino, &attr, flags, true).await {
            Ok(()) => {
                let keep_cache = self.shared.exclusive || self.unchanged(ino, &attr);
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
        let (file, mut attr) = self.register(ino).await?;
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
    async fn register(&self, ino: Ino) -> Result<(Arc<OpenFile>, Attr), Errno> {
        for _ in 0..limits::TXN_RETRIES {
            if let Some(file) = self.shared.files.open(ino) {
                return match self.fresh_attr(ino).await {
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

    async fn finish_open(&self, ino: Ino, attr: &Attr, flags: OpenFlags, check: bool) -> Result<(), Errno> {
        if let Some(errno) = open_refusal(attr, flags) {
            return Err(errno);
        }
        if check {
            self.need(attr, flags.access_mask())?;
        }
        if flags.truncates() && attr.is_file() {
            self.truncate(ino, 0, true).await?;
        }
        Ok(())
    }

    /// Whether the kernel's pages of this file are still right: nobody changed it since it was open last.
    fn unchanged(&self, ino: Ino, attr: &Attr) -> bool {
        let mut seen = self.shared.seen_mtime.lock();
        if seen.len() >= limits::CHUNK_VIEWS {
            seen.clear();
        }
        seen.insert(ino, attr.mtime) == Some(attr.mtime)
    }

    pub(super) async fn flush(&self, ino: Ino, handle: Handle) -> ServeResult {
        let file = self.shared.file(handle)?;
        self.drain(ino).await?;
        self.shared.upload_error(&file.file)?;
        Ok(Response::Done)
    }

    pub(super) async fn release(&self, ino: Ino, handle: Handle) -> ServeResult {
        if !self.shared.close(handle) {
            return Ok(Response::Done);
        }
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
