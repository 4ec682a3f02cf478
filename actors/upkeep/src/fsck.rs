//! Whether every block that records need is in the store. The store is listed first and references are read after it,
//! so a block that is missed is asked for by its name before it counts as lost, and its chunk list is read again.

use crate::failure::Failure;
use crate::inventory::{Share, list};
use crate::whole::{Count, Whole};
use std::collections::BTreeMap;
use zest_data::block::{BlockId, block_len};
use zest_data::retry::{Asker, retrying};
use zest_metadata::{Key, Record, Scan};
use zest_types::{Ino, SliceRecord, limits};
use zest_world::ObjectError;

/// A block that a file needs and cannot get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file.
    pub ino: Ino,
    /// The object, with the volume's name.
    pub key: String,
    /// Bytes of the block.
    pub len: u32,
    /// What is wrong with it.
    pub why: String,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Blocks in the store; where only a part of the volume is looked at, blocks of it that were found.
    pub found: Count,
    /// Slices that are used.
    pub slices: Count,
    /// What is lost.
    pub lost: Vec<Lost>,
    /// All of it, also what is not in the list.
    pub lost_in_all: Count,
    /// Files that do not exist any more and whose blocks are missing: nobody needs them.
    pub orphans: u64,
}

/// A block that was not in the listing, or not as it should be.
struct Doubt {
    ino: Ino,
    index: u32,
    record: SliceRecord,
    block: BlockId,
    len: u32,
    why: String,
}

fn blocks_of(whole: &Whole, record: &SliceRecord) -> impl Iterator<Item = (BlockId, u32)> {
    let (size, slice, block_size) = (record.size, record.id, whole.names.block_size);
    let all = whole.names.of_slice(slice, size);
    all.map(move |(block, _)| (block, block_len(size, block_size, block.index)))
}

/// All blocks of the volume.
pub async fn all(whole: &Whole) -> Result<Blocks, Failure> {
    let mut seen = Blocks::default();
    let mut share = Share::ALL;
    loop {
        let (stored, took) = list(&whole.world, &whole.names, share).await?;
        stored.blocks().iter().for_each(|stored| seen.found.add(stored.size));
        let mut from = None;
        loop {
            let (page, next) = whole.engine.slices(from).await?;
            let mut doubts = Vec::new();
            for (key, record) in page {
                let (Key::Chunk(ino, index), Record::Slices(list)) = (key, record) else { continue };
                for record in list.into_iter().filter(|r| !r.id.is_zeros() && took.has(r.id.0)) {
                    seen.slices.add(u64::from(record.size));
                    for (block, len) in blocks_of(whole, &record) {
                        let why = match stored.find(block, len) {
                            None => "it does not exist".to_owned(),
                            Some(found) if whole.plain && found.size != u64::from(len) => {
                                format!("it has {} bytes, not {len}", found.size)
                            }
                            Some(_) => continue,
                        };
                        doubts.push(Doubt { ino, index, record, block, len, why });
                    }
                }
            }
            settle(whole, doubts, &mut seen).await?;
            match next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        match took.next() {
            Some(next) => share = next,
            None => return Ok(seen),
        }
    }
}

/// All blocks of one file, each asked for by its name.
pub async fn file(whole: &Whole, ino: Ino, seen: &mut Blocks) -> Result<(), Failure> {
    let mut from = 0;
    loop {
        let found = whole.engine.scan(&Scan::Chunks { ino, from, limit: limits::REAPER_BATCH }).await?;
        let complete = found.len() < limits::REAPER_BATCH;
        for (key, record) in found {
            let (Key::Chunk(_, index), Record::Slices(list)) = (key, record) else { continue };
            from = index.saturating_add(1);
            let mut doubts = Vec::new();
            for record in list.into_iter().filter(|record| !record.id.is_zeros()) {
                seen.slices.add(u64::from(record.size));
                for (block, len) in blocks_of(whole, &record) {
                    match missing(whole, block, len).await? {
                        None => seen.found.add(u64::from(len)),
                        Some(why) => doubts.push(Doubt { ino, index, record, block, len, why }),
                    }
                }
            }
            settle(whole, doubts, seen).await?;
        }
        if complete {
            return Ok(());
        }
    }
}

/// What is wrong with a block, when it is asked for by its name. The last byte tells whether all of it is there.
async fn missing(whole: &Whole, block: BlockId, len: u32) -> Result<Option<String>, Failure> {
    let asker = Asker { actor: "fsck", subject: block.slice.0 };
    let last = u64::from(len.saturating_sub(1));
    let range = if whole.plain { last..u64::from(len) } else { 0..1 };
    let found = retrying(whole.world.clone(), asker, whole.names.key(block, len), move |world, key| {
        world.objects.get(key, Some(range.clone()))
    });
    match found.await {
        Ok(bytes) if !bytes.is_empty() => Ok(None),
        Ok(_) => Ok(Some(format!("it has fewer bytes than {len}"))),
        Err(ObjectError::NotFound(_)) => Ok(Some("it does not exist".into())),
        Err(error) => Err(error.into()),
    }
}

/// Of what was doubted, what is lost: asked for by its name, it is not there, and its file needs it still.
async fn settle(whole: &Whole, doubts: Vec<Doubt>, seen: &mut Blocks) -> Result<(), Failure> {
    let mut alive: BTreeMap<Ino, bool> = BTreeMap::new();
    for doubt in doubts {
        let there = match alive.get(&doubt.ino) {
            Some(there) => *there,
            None => {
                let there = !whole.attrs(&[doubt.ino]).await?.is_empty();
                seen.orphans += u64::from(!there);
                alive.insert(doubt.ino, there);
                there
            }
        };
        if !there {
            continue;
        }
        let why = match missing(whole, doubt.block, doubt.len).await? {
            // Longer than it should be is wrong, too.
            None if doubt.why.starts_with("it has") => doubt.why,
            None => continue,
            Some(why) => why,
        };
        let list =
            whole.engine.read(&[Key::Chunk(doubt.ino, doubt.index)]).await?.into_iter().next().flatten();
        let Some(Record::Slices(list)) = list else { continue };
        if !list.iter().any(|record| record.id == doubt.record.id) {
            continue;
        }
        seen.lost_in_all.add(u64::from(doubt.len));
        if seen.lost.len() < limits::PROBLEMS_TOLD {
            let key = whole.names.key(doubt.block, doubt.len);
            seen.lost.push(Lost { ino: doubt.ino, key, len: doubt.len, why });
        }
    }
    Ok(())
}
