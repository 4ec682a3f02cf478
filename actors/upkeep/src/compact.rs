//! Making one slice of the many that a chunk consists of: what they show is read and stored as the blocks of a new
//! slice, and then that takes their place in the list, unless the list's beginning is not what it was: then all was in
//! vain, and the new blocks go. Nothing that was there is removed before the records that do without it are durable,
//! so a crash leaves blocks nobody refers to, which `gc` finds, and nothing else. Knows no trigger and no mount.

use crate::records::Records;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use zest_data::BlockId;
use zest_data::block::{block_count, block_len, block_ranges};
use zest_metadata::compaction::{Choice, choose};
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::{Errno, Ino, SliceId, SliceRecord, limits};

/// Where blocks come from and go to.
#[async_trait(?Send)]
pub trait Blocks {
    /// Bytes of a full block.
    fn block_size(&self) -> u32;
    /// A number for a slice that nobody has.
    async fn new_slice(&self) -> Result<SliceId, Errno>;
    /// A block, `None` where there is no such object.
    async fn fetch(&self, block: BlockId, len: u32) -> Result<Option<Bytes>, Errno>;
    /// Stores a block; it is durable when this returns.
    async fn store(&self, block: BlockId, data: Bytes) -> Result<(), Errno>;
    /// Removes the blocks of a slice that no record ever named, as far as that goes.
    async fn forget(&self, slice: SliceId, size: u32);
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was nothing to gain.
    Nothing,
    /// A slice of so many bytes took the place of so many; these lost their last reference.
    Compacted {
        /// Records that are gone.
        records: u64,
        /// Bytes of the new slice.
        bytes: u64,
        /// Their objects may go.
        garbage: Vec<(SliceId, u32)>,
    },
    /// Somebody changed the list meanwhile; the new slice is garbage.
    InVain(Vec<(SliceId, u32)>),
    /// An object is missing: somebody compacted already, or data are lost, which is not for this to tell.
    Missing,
}

/// Compacts a chunk once. `delayed`: what is replaced is kept for as long as the trash keeps things.
pub async fn compact(
    records: &impl Records,
    blocks: &impl Blocks,
    (ino, index): (Ino, u32),
    delayed: bool,
) -> Result<Done, Errno> {
    let list = match records.look(vec![Key::Chunk(ino, index)]).await?.pop().flatten() {
        Some(Record::Slices(list)) => list,
        Some(_) => return Err(Errno::EIO),
        None => return Ok(Done::Nothing),
    };
    let Some(choice) = choose(&list) else { return Ok(Done::Nothing) };
    let slice = blocks.new_slice().await?;
    match write(blocks, slice, &choice).await {
        Ok(true) => {}
        unwritten => {
            blocks.forget(slice, choice.size).await;
            return unwritten.map(|_| Done::Missing);
        }
    }
    let replaced = (choice.seen.len() - choice.skipped) as u64;
    let record = SliceRecord::whole(choice.pos, slice, choice.size);
    let op = Op::Compact { ino, index, seen: choice.seen, skipped: choice.skipped, record, delayed };
    // After an error nobody knows whether the list names the new slice: its blocks stay for `gc` to judge.
    let Outcome::Unreferenced(garbage) = records.change(op).await? else { return Err(Errno::EIO) };
    if garbage.contains(&(slice, choice.size)) {
        return Ok(Done::InVain(garbage));
    }
    // The note that this slice is in the list says what its absence says, too.
    records.change(Op::DropSliceRef { id: slice, size: choice.size }).await?;
    Ok(Done::Compacted { records: replaced, bytes: u64::from(choice.size), garbage })
}

/// Writes what the chosen records show, block by block; `false` where an object is missing.
async fn write(blocks: &impl Blocks, slice: SliceId, choice: &Choice) -> Result<bool, Errno> {
    let block_size = blocks.block_size();
    let mut source = Source { blocks, recent: BTreeMap::new(), bytes: 0 };
    for index in 0..block_count(choice.size, block_size) {
        let len = block_len(choice.size, block_size, index);
        let start = choice.pos.saturating_add(index.saturating_mul(block_size));
        let Some(data) = source.shown(&choice.pieces, start, len).await? else { return Ok(false) };
        blocks.store(BlockId { slice, index }, data).await?;
    }
    Ok(true)
}

/// Where the bytes come from. Many pieces may show a little of the same block.
struct Source<'a, B> {
    blocks: &'a B,
    recent: BTreeMap<BlockId, Bytes>,
    /// Of them.
    bytes: usize,
}

impl<B: Blocks> Source<'_, B> {
    /// The bytes `[start, start + len)` of a chunk, out of pieces that lie one behind the other.
    async fn shown(&mut self, pieces: &[SliceRecord], start: u32, len: u32) -> Result<Option<Bytes>, Errno> {
        let end = u64::from(start) + u64::from(len);
        let mut out = BytesMut::with_capacity(len as usize);
        let first = pieces.partition_point(|piece| piece.end() <= u64::from(start));
        for piece in pieces.iter().skip(first).take_while(|piece| u64::from(piece.pos) < end) {
            let (from, to) = (piece.pos.max(start), piece.end().min(end));
            let Some(take) = to.checked_sub(u64::from(from)).and_then(|n| u32::try_from(n).ok()) else {
                continue;
            };
            if piece.id.is_zeros() {
                out.resize(out.len() + take as usize, 0);
                continue;
            }
            let off = piece.off.saturating_add(from - piece.pos);
            for part in block_ranges(piece.id, piece.size, self.blocks.block_size(), off, take) {
                let Some(data) = self.block(part.block, part.block_len).await? else { return Ok(None) };
                out.extend_from_slice(
                    data.get(part.range.start as usize..part.range.end as usize).ok_or(Errno::EIO)?,
                );
            }
        }
        // Fewer or more would be other bytes than the ones that were there.
        if out.len() == len as usize { Ok(Some(out.freeze())) } else { Err(Errno::EIO) }
    }

    async fn block(&mut self, block: BlockId, len: u32) -> Result<Option<Bytes>, Errno> {
        if let Some(data) = self.recent.get(&block) {
            return Ok(Some(data.clone()));
        }
        let Some(data) = self.blocks.fetch(block, len).await? else { return Ok(None) };
        if self.bytes >= limits::COMPACT_BLOCKS {
            self.recent.clear();
            self.bytes = 0;
        }
        self.bytes += data.len();
        self.recent.insert(block, data.clone());
        Ok(Some(data))
    }
}
