//! Compaction of all chunks of a volume that is not mounted here: each again and again, until there is nothing to gain.
//! Others may use the volume meanwhile.

use crate::compact::{Blocks, Done, compact};
use crate::failure::Failure;
use crate::reclaim::{dropped_slices, rules};
use crate::whole::Whole;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use zest_data::BlockId;
use zest_data::codec::{self, BlockCodec};
use zest_data::retry::{Asker, retrying};
use zest_metadata::compaction::choose;
use zest_metadata::{Counter, Key, MetaCore, Record};
use zest_types::{Errno, Ino, SliceId, limits};
use zest_world::ObjectError;

/// Rounds over one chunk: each makes a list of a thousand records shorter.
const ROUNDS: usize = 1000;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Shortened {
    pub chunks: u64,
    /// Records that are gone.
    pub records: u64,
    /// Bytes written anew.
    pub bytes: u64,
    /// Chunks that others changed whenever they were compacted, or that could not be read or written.
    pub left: u64,
}

/// Compacts every chunk of every file; `delayed` as the trash of the volume wants it.
pub async fn shorten_all(
    whole: &Whole,
    codec: &Arc<BlockCodec>,
    delayed: bool,
    threads: usize,
) -> Result<Shortened, Failure> {
    let blocks = Direct { whole, codec, rules: rules(whole), ids: RefCell::new(0..0) };
    let (mut all, mut from) = (Shortened::default(), None);
    loop {
        let (page, next) = whole.engine.slices(from).await?;
        let long = page.into_iter().filter_map(|(key, record)| match (key, record) {
            (Key::Chunk(ino, index), Record::Slices(list)) if choose(&list).is_some() => Some((ino, index)),
            _ => None,
        });
        let chunks: BTreeSet<(Ino, u32)> = long.collect();
        let files: BTreeSet<Ino> = chunks.iter().map(|(ino, _)| *ino).collect();
        let files = whole.attrs(&files.into_iter().collect::<Vec<_>>()).await?;
        let mine = chunks.into_iter().filter(|(ino, _)| files.contains_key(ino));
        let mut work = futures::stream::iter(mine.map(|chunk| one(&blocks, chunk, delayed)))
            .buffer_unordered(threads.max(1));
        while let Some(done) = work.next().await {
            let done = done?;
            all.chunks += done.chunks;
            all.records += done.records;
            all.bytes += done.bytes;
            all.left += done.left;
        }
        drop(work);
        match next {
            Some(next) => from = Some(next),
            None => return Ok(all),
        }
    }
}

async fn one(blocks: &Direct<'_>, chunk: (Ino, u32), delayed: bool) -> Result<Shortened, Failure> {
    let mut all = Shortened::default();
    for _ in 0..ROUNDS {
        let garbage = match compact(&blocks.rules, blocks, chunk, delayed).await {
            Ok(Done::Compacted { records, bytes, garbage }) => {
                all.chunks = 1;
                all.records += records;
                all.bytes += bytes;
                garbage
            }
            Ok(Done::InVain(garbage)) => garbage,
            Ok(Done::Nothing) => return Ok(all),
            Ok(Done::Missing) | Err(Errno::EIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let garbage: BTreeSet<(SliceId, u32)> = garbage.into_iter().collect();
        if !garbage.is_empty() {
            blocks.whole.engine.sync().await?;
            dropped_slices(blocks.whole, &garbage, limits::DELETES).await?;
        }
    }
    all.left = 1;
    Ok(all)
}

/// Blocks of a volume, without a cache.
struct Direct<'a> {
    whole: &'a Whole,
    codec: &'a Arc<BlockCodec>,
    rules: MetaCore,
    ids: RefCell<Range<u64>>,
}

impl Direct<'_> {
    fn free_id(&self) -> Option<u64> {
        self.ids.borrow_mut().next()
    }
}

fn failed(whole: &Whole, error: &dyn std::fmt::Display) -> Errno {
    whole.world.trace.complain(&format!("a chunk stays as it is: {error}"));
    Errno::EIO
}

#[async_trait(?Send)]
impl Blocks for Direct<'_> {
    fn block_size(&self) -> u32 {
        self.whole.names.block_size
    }

    async fn new_slice(&self) -> Result<SliceId, Errno> {
        loop {
            match self.free_id() {
                Some(0) => {}
                Some(id) => return Ok(SliceId(id)),
                None => {
                    let batch =
                        self.rules.take_ids(Counter::NextSlice, limits::COMPACTIONS as u64 * 16).await?;
                    self.ids.replace(batch);
                }
            }
        }
    }

    async fn fetch(&self, block: BlockId, len: u32) -> Result<Option<Bytes>, Errno> {
        let whole = self.whole;
        let key = whole.names.key(block, len);
        let asker = Asker { actor: "gc", subject: block.slice.0 };
        let got = retrying(whole.world.clone(), asker, key, |world, key| world.objects.get(key, None)).await;
        match got {
            Ok(stored) => {
                let plain = codec::decode(&whole.world, self.codec, stored, len as usize).await;
                plain.map(Some).map_err(|error| failed(whole, &error))
            }
            Err(ObjectError::NotFound(_)) => Ok(None),
            Err(error) => Err(failed(whole, &error)),
        }
    }

    async fn store(&self, block: BlockId, data: Bytes) -> Result<(), Errno> {
        let whole = self.whole;
        let key = whole.names.key(block, u32::try_from(data.len()).unwrap_or(0));
        let body =
            codec::encode(&whole.world, self.codec, data).await.map_err(|error| failed(whole, &error))?;
        let asker = Asker { actor: "gc", subject: block.slice.0 };
        retrying(whole.world.clone(), asker, key, move |world, key| world.objects.put(key, body.clone()))
            .await
            .map_err(|error| failed(whole, &error))
    }

    async fn forget(&self, slice: SliceId, size: u32) {
        for (_, key) in self.whole.names.of_slice(slice, size) {
            let asker = Asker { actor: "gc", subject: slice.0 };
            let world = self.whole.world.clone();
            if retrying(world, asker, key, |world, key| world.objects.delete(key)).await.is_err() {
                return; // what is left is found by the next search for leaks
            }
        }
    }
}
