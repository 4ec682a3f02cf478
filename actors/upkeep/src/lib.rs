//! Work nobody asked for, over the same traits and actors as everything else: the removal of deleted files' data,
//! the emptying of old trash, the shortening of chunk lists, and what looks through a whole volume: the check of it, and the search for leaked objects.

pub mod compact;
pub mod compactor;
pub mod failure;
pub mod fsck;
pub mod gate;
pub mod gc;
pub mod info;
pub mod inventory;
pub mod janitor;
pub mod quota;
pub mod reaper;
pub mod reclaim;
pub mod records;
pub mod repair;
pub mod shorten;
pub mod trash;
pub mod tree;
pub mod whole;

pub use janitor::Janitor;
pub use reaper::{Deleted, Reaper};

use compactor::{Compactor, Crowded, End};
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
    let state = Arc::clone(&shared);
    let compactor = begin(stage, Role::Data, move || Compactor::new(state)).await?;
    let reads = compactor.clone();
    // Who reads asks again: a full mailbox loses nothing.
    let hears = move |ino, index| drop(reads.try_send(Crowded { ino, index, done: None }));
    shared.chunk_views.on_long.set(Box::new(hears)).map_err(|_| Errno::EIO)?;
    let (ends, clock) = (compactor.clone(), Arc::clone(&shared.world.clock));
    let closes = move || {
        let (over, patience) = (ends.send(End), clock.sleep(compactor::PATIENCE));
        // What a silent store keeps from ending is left to `gc`.
        Box::pin(async move { drop(futures::future::select(Box::pin(over), patience).await) })
            as zest_world::BoxFuture<'static, ()>
    };
    shared.on_closing.set(Box::new(closes)).map_err(|_| Errno::EIO)?;
    let hears = move |ino, index| {
        let (done, wait) = tokio::sync::oneshot::channel();
        let asked = compactor.try_send(Crowded { ino, index, done: Some(done) }).is_ok();
        Box::pin(async move {
            if asked {
                let _over = wait.await;
            }
        }) as zest_world::BoxFuture<'static, ()>
    };
    shared.on_crowded.set(Box::new(hears)).map_err(|_| Errno::EIO)?;
    let hears = move |ino, length| reaper.do_send(Deleted { ino, length });
    shared.on_deleted.set(Box::new(hears)).map_err(|_| Errno::EIO)
}
