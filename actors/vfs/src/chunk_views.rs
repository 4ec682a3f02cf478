//! Flattened chunk lists, made once for each list and used by all reads of it.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use zest_data::ChunkView;
use zest_metadata::compaction;
use zest_metadata::views::ChunkList;
use zest_types::{Ino, limits};

/// Lists shorter than this are flattened anew for each read: that is quicker than looking them up.
const WORTH_KEEPING: usize = 4;

/// A list, and what it looks like flattened.
type Flat = (ChunkList, Arc<ChunkView>);

/// Hears that a list was read that may be worth shortening.
pub type OnLong = Box<dyn Fn(Ino, u32) + Send + Sync>;

/// Flattened lists, each with the list it was made of.
#[derive(Default)]
pub struct ChunkViews {
    /// Set by whoever shortens lists; told once for each list.
    pub on_long: OnceLock<OnLong>,
    views: RwLock<BTreeMap<(Ino, u32), Flat>>,
}

impl ChunkViews {
    /// The flattened form of this list of this chunk.
    pub fn flat(&self, ino: Ino, index: u32, list: &ChunkList) -> Arc<ChunkView> {
        if list.len() < WORTH_KEEPING {
            return Arc::new(ChunkView::new(list));
        }
        if let Some((of, view)) = self.views.read().get(&(ino, index))
            && Arc::ptr_eq(of, list)
        {
            return Arc::clone(view);
        }
        if compaction::after_read(list.len())
            && let Some(hears) = self.on_long.get()
        {
            hears(ino, index);
        }
        let view = Arc::new(ChunkView::new(list));
        let mut views = self.views.write();
        if views.len() >= limits::CHUNK_VIEWS {
            views.clear();
        }
        views.insert((ino, index), (Arc::clone(list), Arc::clone(&view)));
        view
    }
}
