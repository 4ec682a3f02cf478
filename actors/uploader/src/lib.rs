//! Blocks on their way to the store and slices on their way into files: which upload starts when, what is
//! tried again, and in which order slices are committed. Knows no inode's attributes and no cache.
//!
//! [`queue`] decides, [`UploaderActor`] does. [`staging`] is the write-back mode.

mod actor;
mod puts;
pub mod queue;
pub mod staging;

use zest_types::{Errno, Ino, Placed, SliceId, Time};
use zest_world::BoxFuture;

pub use actor::{Drain, DrainAll, HandOver, Store, UploaderActor};
pub use staging::{Staging, StagingActor, StagingOptions};

/// Who makes slices part of files.
pub trait Commits: Send + Sync {
    /// Adds all there is of some slices, whose blocks are durable, to the chunks of a file, in this order and in one
    /// step; `mtime` is the time of the last write. Called once at a time for a file. When it answers `Ok`, readers
    /// that ask from now on find the slices. With `ENOENT`, `ENOSPC` and `EDQUOT` they are certainly not part of the
    /// file, and their objects are removed; with anything else they stay.
    fn commit(&self, ino: Ino, parts: Vec<Placed>, mtime: Time) -> BoxFuture<'static, Result<(), Errno>>;
}

/// Who wants to know what became of slices. Each slice that was sealed gets exactly one answer, and those of a
/// file come in the order the slices were opened. Called on the actor's thread: must not wait.
pub trait Outcomes: Send + Sync {
    /// The slice is part of the file.
    fn committed(&self, ino: Ino, slice: SliceId);
    /// The slice is lost to the file.
    fn failed(&self, ino: Ino, slice: SliceId, error: Errno);
}
