//! The cache files of a mount: opened before it serves, filled by what comes down and what goes up, closed last.

use crate::mount::{Options, Role, Stage, begin};
use crate::shared::Shared;
use bytes::Bytes;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use zest_cache::disk::{Settings, Tender};
use zest_cache::{DiskTier, MemoryTier};
use zest_data::{BlockId, BlockSink};
use zest_types::{Errno, volume};
use zest_world::{Disk, World};

/// Directories for cache files.
#[derive(Clone, Default)]
pub struct CacheDisks(pub Vec<Arc<dyn Disk>>);

impl fmt::Debug for CacheDisks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} cache directories", self.0.len())
    }
}

/// Opens them, if there are any.
pub(crate) async fn open(
    world: &World,
    volume: &volume::Settings,
    options: &Options,
    memory: &Arc<MemoryTier>,
) -> Option<Arc<DiskTier>> {
    let disks = options.cache_disks.0.clone();
    if disks.is_empty() || options.cache.size == 0 {
        return None;
    }
    let settings =
        Settings { block_size: volume.block_size(), queue: options.memory.files, ..options.cache.clone() };
    let opened = Arc::new(Mutex::new(None));
    let (there, here, memory) = (world.clone(), Arc::clone(&opened), Arc::clone(memory));
    let job = move || *here.lock() = Some(DiskTier::open(&there, &disks, &settings, memory));
    world.offload.run("open cache files", Box::new(job)).await;
    let tier = opened.lock().take();
    tier.map(Arc::new)
}

/// Has them filled and looked after.
pub(crate) async fn tend(shared: &Arc<Shared>, stage: &dyn Stage) -> Result<(), Errno> {
    if let Some(disk) = shared.disk.clone() {
        let world = shared.world.clone();
        begin(stage, Role::Data, move || Tender::new(world, disk)).await?;
    }
    Ok(())
}

/// Stores what waits, and ends.
pub(crate) async fn close(shared: &Arc<Shared>) {
    if let Some(disk) = shared.disk.clone() {
        shared.world.offload.run("close cache files", Box::new(move || disk.close())).await;
    }
}

/// Who is given the blocks that were uploaded.
pub(crate) fn sink(shared: &Arc<Shared>) -> Arc<dyn BlockSink> {
    match &shared.disk {
        Some(disk) => Arc::new(Both(Arc::clone(&shared.tier), Arc::clone(disk))),
        None => Arc::clone(&shared.tier) as _,
    }
}

struct Both(Arc<MemoryTier>, Arc<DiskTier>);

impl BlockSink for Both {
    fn keep(&self, block: BlockId, data: Bytes) {
        self.0.keep(block, data.clone());
        self.1.keep(block, data);
    }
}
