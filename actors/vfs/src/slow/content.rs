//! Content: reads that miss, writes that wait, fsync, truncate.

use super::Task;
use crate::read::{Fetched, Missing, Want};
use crate::reserve::Waiting;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_cache::{FetchError, FetchPart};
use zest_data::{BlockId, SealReason, WriteError};
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::limits::MISSING_LOOKS;
use zest_types::{Errno, Handle, Ino, Response, ServeResult};
use zest_world::planted::{self, Bug};

/// Rounds of asking for what is missing before a read gives up; each round can need one more. Others may compact what
/// is being read again and again.
const READ_ROUNDS: usize = 64;

/// A block that could not be had, and why.
type Gone = (Want, FetchError);

impl Task {
    pub(super) async fn read(&self, ino: Ino, handle: Handle, offset: u64, size: u32) -> ServeResult {
        let file = self.shared.file(handle)?;
        if !file.readable {
            return Err(Errno::EBADF);
        }
        self.shared.read_ahead(&file, offset, size);
        let stream = file.stream.lock().wants_blocks();
        let mut fetched = Fetched::since(self.shared.mono());
        let mut looks = 0;
        for _ in 0..READ_ROUNDS {
            match self.shared.read(ino, offset, size, &fetched) {
                Ok(pieces) => return Ok(Response::Data(pieces)),
                Err(Missing::Attr) => {
                    self.fresh_attr(ino).await?;
                }
                Err(Missing::Chunk(index)) => {
                    self.look(vec![Key::Attr(ino), Key::Chunk(ino, index)]).await?;
                }
                Err(Missing::Blocks(blocks)) => {
                    let gone = self.fetch(ino, blocks, stream, &mut fetched).await?;
                    if !gone.is_empty() {
                        self.look_again(ino, gone, &mut looks).await?;
                    }
                }
            }
        }
        self.shared.world.trace.complain(&format!("inode {ino} changes faster than it can be read"));
        Err(Errno::EIO)
    }

    /// Fetches what is wanted side by side. Answers the blocks that are gone, or are not what the list says.
    async fn fetch(
        &self,
        ino: Ino,
        wants: Vec<Want>,
        stream: bool,
        fetched: &mut Fetched,
    ) -> Result<Vec<Gone>, Errno> {
        let cache = &self.shared.links()?.cache;
        let gets = together(wants).into_iter().map(|want| {
            let (block, len, range) = (want.block, want.block_len, want.range.clone());
            let key = self.shared.names.key(block, len);
            async move { (want, cache.send(FetchPart { block, len, key, range, stream }).await) }
        });
        let mut gone = Vec::new();
        for (want, got) in join_all(gets).await {
            match got.map_err(|_| Errno::EIO)? {
                Ok(part) => fetched.insert(want.block, part.start, part.data),
                Err(error @ (FetchError::NotFound(_) | FetchError::Damaged { .. })) => {
                    gone.push((want, error))
                }
                Err(error) => {
                    self.shared.world.trace.complain(&format!("reading inode {ino}: {error}"));
                    return Err(Errno::EIO);
                }
            }
        }
        Ok(gone)
    }

    /// Looks up anew the chunk lists that named blocks which are gone: somebody may have compacted or truncated them
    /// away meanwhile. A list asked for after the block was found missing that names it still means that its data are
    /// lost, unless another client stores them late.
    async fn look_again(&self, ino: Ino, gone: Vec<Gone>, looks: &mut u32) -> Result<(), Errno> {
        let mut keys = vec![Key::Attr(ino)];
        keys.extend(gone.iter().map(|(want, _)| Key::Chunk(ino, want.chunk)));
        keys.dedup();
        let asked = keys.clone();
        let lists: BTreeMap<Key, Option<Record>> = asked.into_iter().zip(self.look(keys).await?).collect();
        self.shared.world.tell("vfs", "list refreshed", ino.0, gone.len() as u64);
        let still_named = |(want, _): &&Gone| match lists.get(&Key::Chunk(ino, want.chunk)) {
            Some(Some(Record::Slices(list))) => list.iter().any(|slice| slice.id == want.block.slice),
            _ => false,
        };
        let Some((_, error)) = gone.iter().find(still_named) else { return Ok(()) };
        let late = !self.shared.exclusive && matches!(error, FetchError::NotFound(_));
        if late && *looks < MISSING_LOOKS {
            *looks += 1;
            let pause = Duration::from_millis(50 << *looks);
            self.shared.world.clock.sleep(pause).await;
            return Ok(());
        }
        self.shared
            .world
            .trace
            .complain(&format!("inode {ino} can't be read: its slice list names it, but {error}"));
        Err(Errno::EIO)
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
        if !planted::active(Bug::FsyncBeforeUpload) {
            self.drain(ino).await?;
        }
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

/// What is wanted of one block in several places is fetched in one go.
fn together(wants: Vec<Want>) -> Vec<Want> {
    let mut all: BTreeMap<BlockId, Want> = BTreeMap::new();
    for want in wants {
        match all.get_mut(&want.block) {
            Some(known) => {
                known.range.start = known.range.start.min(want.range.start);
                known.range.end = known.range.end.max(want.range.end);
            }
            None => {
                all.insert(want.block, want);
            }
        }
    }
    all.into_values().collect()
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
