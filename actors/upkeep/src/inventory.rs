//! The blocks that are in the store, from one listing. What does not fit into memory is looked at in shares, by the
//! number of the slice. Knows no records: who needs a block is told to it.

use crate::failure::Failure;
use zest_data::block::{BlockId, BlockNames, parse_block_key};
use zest_data::retry::{Asker, retrying};
use zest_types::limits;
use zest_world::World;

/// A share of all slices: those whose number leaves `part` when divided by `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Share {
    pub part: u64,
    pub of: u64,
}

impl Share {
    /// All slices, as long as they fit.
    pub const ALL: Share = Share { part: 0, of: 1 };

    /// Whether a slice belongs to it.
    #[must_use]
    pub fn has(self, slice: u64) -> bool {
        slice % self.of.max(1) == self.part
    }

    /// The share behind this one.
    #[must_use]
    pub fn next(self) -> Option<Share> {
        (self.part + 1 < self.of).then_some(Share { part: self.part + 1, of: self.of })
    }
}

/// What is known of a slice's use. What is said later and is more wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Nobody named it.
    #[default]
    None,
    /// Its last reference is gone, and its objects are about to go.
    Dropped,
    /// Its references are counted, but no list shows it.
    Counted,
    /// Compaction replaced it, and it is kept for as long as the trash keeps things.
    Replaced,
    /// It belongs to a file that is deleted.
    Deleted,
    /// It is needed.
    Needed,
}

/// A block in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which.
    pub block: BlockId,
    /// Bytes of the plain block.
    pub len: u32,
    /// Bytes of the object.
    pub size: u64,
    /// When it was written, unix seconds.
    pub modified: i64,
    /// Of the slice; kept at its first block.
    usage: Use,
}

/// Blocks of a share of all slices, in order.
#[derive(Debug, Default)]
pub struct Inventory {
    blocks: Vec<Stored>,
    /// Objects among the blocks that no block is called like.
    pub foreign: u64,
}

/// Lists the store. The first share becomes smaller until it fits: what was taken is the second answer.
pub async fn list(
    world: &World,
    names: &BlockNames,
    mut share: Share,
) -> Result<(Inventory, Share), Failure> {
    let prefix = format!("{}/chunks/", names.volume);
    let mut all = Inventory::default();
    let mut after = String::new();
    loop {
        let asker = Asker { actor: "inventory", subject: 0 };
        let from = after.clone();
        let page = retrying(world.clone(), asker, prefix.clone(), move |world, prefix| {
            world.objects.list(prefix, &from, limits::LISTING)
        })
        .await?;
        let Some(last) = page.last() else { break };
        after = last.key.clone();
        let complete = page.len() < limits::LISTING;
        for object in page {
            match parse_block_key(&names.volume, names.hash_prefix, &object.key) {
                Some(name) if share.has(name.block.slice.0) => all.blocks.push(Stored {
                    block: name.block,
                    len: name.len,
                    size: object.size,
                    modified: object.modified,
                    usage: Use::None,
                }),
                Some(_) => {}
                None => all.foreign += 1,
            }
        }
        while all.blocks.len() > limits::INVENTORY {
            if share.part != 0 {
                return Err(Failure::TooMuch(all.blocks.len()));
            }
            share.of *= 2;
            all.blocks.retain(|stored| share.has(stored.block.slice.0));
        }
        if complete {
            break;
        }
    }
    all.blocks.sort_by_key(|stored| (stored.block, stored.len));
    Ok((all, share))
}

impl Inventory {
    /// All blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Stored] {
        &self.blocks
    }

    /// The block, when it is there.
    #[must_use]
    pub fn find(&self, block: BlockId, len: u32) -> Option<&Stored> {
        let at = self.blocks.binary_search_by_key(&(block, len), |stored| (stored.block, stored.len));
        at.ok().and_then(|at| self.blocks.get(at))
    }

    /// A slice is in use; nothing happens where the store has nothing of it.
    pub fn mark(&mut self, slice: u64, usage: Use) {
        let at = self.blocks.partition_point(|stored| stored.block.slice.0 < slice);
        if let Some(first) = self.blocks.get_mut(at).filter(|stored| stored.block.slice.0 == slice) {
            first.usage = first.usage.max(usage);
        }
    }

    /// Slices with all their blocks that are in the store, and what is known of their use.
    pub fn slices(&self) -> impl Iterator<Item = (Use, &[Stored])> {
        let same = |a: &Stored, b: &Stored| a.block.slice == b.block.slice;
        self.blocks.chunk_by(same).map(|blocks| (blocks.first().map_or(Use::None, |b| b.usage), blocks))
    }

    /// Forgets what is known of use.
    pub fn forget(&mut self) {
        self.blocks.iter_mut().for_each(|stored| stored.usage = Use::None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::SliceId;

    fn stored(slice: u64, index: u32) -> Stored {
        let block = BlockId { slice: SliceId(slice), index };
        Stored { block, len: 7, size: 7, modified: 0, usage: Use::None }
    }

    #[test]
    fn use_belongs_to_the_slice_and_more_of_it_wins() {
        let mut all = Inventory { blocks: vec![stored(1, 0), stored(2, 0), stored(2, 1)], foreign: 0 };
        all.mark(2, Use::Needed);
        all.mark(2, Use::Dropped);
        all.mark(3, Use::Needed);
        let seen: Vec<_> = all.slices().map(|(usage, blocks)| (usage, blocks.len())).collect();
        assert_eq!(seen, [(Use::None, 1), (Use::Needed, 2)]);
        all.forget();
        assert!(all.slices().all(|(usage, _)| usage == Use::None));
        assert!(all.find(BlockId { slice: SliceId(2), index: 1 }, 7).is_some());
        assert!(all.find(BlockId { slice: SliceId(2), index: 1 }, 8).is_none());
    }

    #[test]
    fn shares_are_all_and_no_slice_is_in_two() {
        let mut shares = vec![Share { part: 0, of: 4 }];
        while let Some(next) = shares.last().and_then(|share| share.next()) {
            shares.push(next);
        }
        assert!((1..100).all(|slice| shares.iter().filter(|share| share.has(slice)).count() == 1));
    }
}
