//! Copies of blocks that may be lost at any time: the memory tier and behind it files on local disks, asked from every
//! thread, and the actor that fetches what is missing, once however many ask. Knows no files and no slices' places in them.

mod actor;
pub mod appetite;
pub mod disk;
pub mod evict;
mod fetch;
pub mod flights;
mod meter;
pub mod policy;
mod tier;

pub use actor::{CacheActor, Fetch, FetchError, FetchPart, Prefetch};
pub use disk::{DiskStats, DiskTier};
pub use fetch::Part;
pub use meter::{Count, Meter};
pub use tier::{MemoryTier, TierStats};
