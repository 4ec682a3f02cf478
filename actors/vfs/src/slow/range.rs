//! Ranges of files: fallocate, copies, and where data and holes are.

use super::Task;
use crate::handles::FileHandle;
use std::sync::Arc;
use zest_metadata::{Key, Op, Outcome};
use zest_types::limits::CHUNK_SIZE;
use zest_types::request::SeekWhat;
use zest_types::{Errno, Handle, Ino, Request, Response, ServeResult};

impl Task {
    fn writable(&self, handle: Handle) -> Result<Arc<FileHandle>, Errno> {
        self.shared.file(handle).and_then(|file| if file.writable { Ok(file) } else { Err(Errno::EBADF) })
    }

    pub(super) async fn change_range(&self, request: Request<'static>) -> ServeResult {
        match request {
            Request::Fallocate { ino, handle, offset, len, mode } => {
                let file = self.writable(handle)?;
                let _alone = file.file.gate.write().await;
                self.drain(ino).await?;
                self.change(Op::Fallocate { ino, offset, len, mode }).await?;
                Ok(Response::Done)
            }
            Request::CopyRange { from, from_handle, from_offset, to, to_handle, to_offset, len } => {
                let source = self.shared.file(from_handle)?;
                if !source.readable {
                    return Err(Errno::EBADF);
                }
                let target = self.writable(to_handle)?;
                let _alone = target.file.gate.write().await;
                self.drain(from).await?;
                self.drain(to).await?;
                // What can't be stored can't be copied; the error stays for whoever syncs the source.
                if source.file.writer().error().is_some() {
                    return Err(Errno::EIO);
                }
                match self.change(Op::CopyRange { from, from_offset, to, to_offset, len }).await? {
                    Outcome::Copied(bytes) => Ok(Response::Copied(bytes)),
                    _ => Err(Errno::EIO),
                }
            }
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) async fn seek(&self, ino: Ino, handle: Handle, offset: u64, what: SeekWhat) -> ServeResult {
        self.shared.file(handle)?;
        self.drain(ino).await?;
        let length = self.attr(ino).await?.length;
        if offset >= length {
            return Err(Errno::ENXIO);
        }
        let mut at = offset;
        while at < length {
            let index = u32::try_from(at / CHUNK_SIZE).map_err(|_| Errno::EFBIG)?;
            let start = u64::from(index) * CHUNK_SIZE;
            let view = self.chunk(ino, index).await?;
            let pos = u32::try_from(at - start).map_err(|_| Errno::EFBIG)?;
            let found = match what {
                SeekWhat::Data => view.next_data(pos).map(u64::from),
                SeekWhat::Hole => Some(u64::from(view.next_hole(pos))).filter(|hole| *hole < CHUNK_SIZE),
            };
            match found {
                Some(found) if start + found < length => return Ok(Response::Offset(start + found)),
                _ => at = start + CHUNK_SIZE,
            }
            if view.piece_count() == 0 && what == SeekWhat::Data {
                at = self.next_chunk(ino, index).await?.map_or(length, |next| u64::from(next) * CHUNK_SIZE);
            }
        }
        match what {
            SeekWhat::Data => Err(Errno::ENXIO),
            SeekWhat::Hole => Ok(Response::Offset(length)),
        }
    }

    async fn chunk(&self, ino: Ino, index: u32) -> Result<Arc<zest_data::ChunkView>, Errno> {
        let list: zest_metadata::views::ChunkList =
            match self.shared.views.chunk(ino, index, self.shared.mono()) {
                Some(list) => list,
                None => match self.look(vec![Key::Chunk(ino, index)]).await?.pop().flatten() {
                    Some(zest_metadata::Record::Slices(list)) => list.into(),
                    Some(_) => return Err(Errno::EIO),
                    None => Arc::new([]),
                },
            };
        Ok(self.shared.chunk_views.flat(ino, index, &list))
    }

    /// The next chunk behind `index` that has a list: long holes are jumped over.
    async fn next_chunk(&self, ino: Ino, index: u32) -> Result<Option<u32>, Errno> {
        let scan = zest_metadata::Scan::Chunks { ino, from: index + 1, limit: 1 };
        Ok(self.find(scan, false).await?.first().and_then(|(key, _)| match key {
            Key::Chunk(_, next) => Some(*next),
            _ => None,
        }))
    }
}
