//! Content: reads that miss, writes that wait, fsync, truncate.

use super::Task;
use crate::read::{Fetched, Missing};
use crate::reserve::Waiting;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use zest_cache::{Fetch, FetchError};
use zest_data::{BlockId, SealReason, WriteError};
use zest_metadata::{Key, Op, Outcome};
use zest_types::{Errno, Handle, Ino, Response, ServeResult};

/// Rounds of asking for what is missing before a read gives up; each round can need one more.
const READ_ROUNDS: usize = 16;

impl Task {
    pub(super) async fn read(&self, ino: Ino, handle: Handle, offset: u64, size: u32) -> ServeResult {
        let file = self.shared.file(handle)?;
        if !file.readable {
            return Err(Errno::EBADF);
        }
        self.shared.read_ahead(&file, offset, size);
        let mut fetched = Fetched::since(self.shared.mono());
        for _ in 0..READ_ROUNDS {
            match self.shared.read(ino, offset, size, &fetched) {
                Ok(pieces) => return Ok(Response::Data(pieces)),
                Err(Missing::Attr) => {
                    self.fresh_attr(ino).await?;
                }
                Err(Missing::Chunk(index)) => {
                    self.look(vec![Key::Attr(ino), Key::Chunk(ino, index)]).await?;
                }
                Err(Missing::Blocks(blocks)) => self.fetch(ino, blocks, &mut fetched).await?,
            }
        }
        Err(Errno::EIO)
    }

    /// Fetches blocks side by side. A block that is gone may have been replaced: the lists are looked up anew.
    async fn fetch(&self, ino: Ino, blocks: Vec<(BlockId, u32)>, fetched: &mut Fetched) -> Result<(), Errno> {
        let cache = &self.shared.links()?.cache;
        let gets = blocks.iter().map(|&(block, len)| {
            let key = self.shared.names.key(block, len);
            async move { (block, cache.send(Fetch { block, len, key }).await) }
        });
        let mut gone = false;
        for (block, got) in join_all(gets).await {
            match got.map_err(|_| Errno::EIO)? {
                Ok(data) => {
                    fetched.insert(block, data);
                }
                Err(FetchError::NotFound { .. }) if !gone => gone = true,
                Err(error) => {
                    self.shared.world.trace.complain(&format!("reading inode {ino}: {error}"));
                    return Err(Errno::EIO);
                }
            }
        }
        if gone {
            self.refresh(ino, &blocks).await?;
        }
        Ok(())
    }

    /// Looks up anew the chunk lists that may have named the missing blocks; the same lists mean that data are lost.
    async fn refresh(&self, ino: Ino, blocks: &[(BlockId, u32)]) -> Result<(), Errno> {
        let scan = zest_metadata::Scan::Chunks { ino, from: 0, limit: usize::MAX };
        let lists = self.find(scan, false).await?;
        let still_named = |block: &BlockId| {
            lists.iter().any(|(_, record)| match record {
                zest_metadata::Record::Slices(list) => list.iter().any(|s| s.id == block.slice),
                _ => false,
            })
        };
        match blocks.iter().find(|(block, _)| still_named(block)) {
            Some((block, len)) => {
                let key = self.shared.names.key(*block, *len);
                self.shared
                    .world
                    .trace
                    .complain(&format!("inode {ino} needs object {key}, which does not exist"));
                Err(Errno::EIO)
            }
            None => Ok(()),
        }
    }

    /// A write that found no memory or no slice number: waits for both.
    pub async fn write(&self, handle: Handle, offset: u64, payload: Arc<Waiting>) -> ServeResult {
        let file = self.shared.file(handle)?;
        let _shared = file.file.gate.read().await;
        loop {
            let space = self.shared.space.notified();
            match self.shared.try_write(&file, offset, &payload.data) {
                Ok(()) => break,
                Err(WriteError::TooLarge) => return Err(Errno::EFBIG),
                Err(WriteError::NoSliceId) => self.shared.fetch_ids().await?,
                Err(WriteError::Full) => {
                    self.shared.make_room(&file.file);
                    // Woken by the next commit; the timer is for one that came before this wait began.
                    let timer = self.shared.world.clock.sleep(Duration::from_millis(100));
                    futures::future::select(std::pin::pin!(space), timer).await;
                }
            }
        }
        Ok(Response::Written(u32::try_from(payload.data.len()).unwrap_or(u32::MAX)))
    }

    pub(super) async fn fsync(&self, ino: Ino, handle: Handle) -> ServeResult {
        let file = self.shared.file(handle)?;
        self.drain(ino).await?;
        self.shared.upload_error(&file.file)?;
        self.sync_records().await?;
        self.shared.world.tell("vfs", "fsync", ino.0, 0);
        Ok(Response::Done)
    }

    /// Sets the length, alone with the file: earlier writes are committed first, later ones wait.
    pub(super) async fn truncate(&self, ino: Ino, length: u64, through_handle: bool) -> ServeResult {
        let file = self.shared.files.get(ino);
        let _alone = match &file {
            Some(file) => Some(file.gate.write().await),
            None => None,
        };
        self.drain(ino).await?;
        match self.change(Op::Truncate { ino, length, through_handle }).await? {
            Outcome::Node { ino, attr, .. } => Ok(Response::Attr { ino, attr }),
            _ => Err(Errno::EIO),
        }
    }
}

impl crate::shared::Shared {
    /// Sends slices on their way so that memory comes free: of this file first, of the others if it has none.
    fn make_room(&self, file: &crate::files::OpenFile) {
        if self.seal(file, SealReason::Pressure) {
            return;
        }
        for file in self.files.dirty() {
            self.seal(&file, SealReason::Pressure);
        }
    }
}
