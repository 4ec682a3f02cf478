//! Work nobody asked for, over the same traits and actors as everything else: the removal of deleted files' data,
//! the emptying of old trash, and what looks through a whole volume: the check of it, and the search for leaked objects.

pub mod failure;
pub mod fsck;
pub mod gate;
pub mod gc;
pub mod info;
pub mod inventory;
pub mod janitor;
pub mod reaper;
pub mod reclaim;
pub mod repair;
pub mod trash;
pub mod tree;
pub mod whole;

pub use janitor::Janitor;
pub use reaper::{Deleted, Reaper};

use std::sync::Arc;
use zest_types::Errno;
use zest_vfs::mount::{Mount, Role, Stage, begin};

/// Starts the work for a mount that may change its volume.
pub async fn attach(mount: &Mount, stage: &dyn Stage) -> Result<(), Errno> {
    let shared = Arc::clone(mount.vfs.shared());
    let state = Arc::clone(&shared);
    let reaper = begin(stage, Role::Metadata, move || Reaper::new(state)).await?;
    let state = Arc::clone(&shared);
    begin(stage, Role::Metadata, move || Janitor::new(state)).await?;
    let hears = move |ino, length| reaper.do_send(Deleted { ino, length });
    shared.on_deleted.set(Box::new(hears)).map_err(|_| Errno::EIO)
}
