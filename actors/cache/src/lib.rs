//! Copies of blocks that may be lost at any time: the memory tier, asked from every thread, and the actor that
//! fetches what is missing, once however many ask. Knows no files and no slices' places in them.

mod actor;
pub mod flights;
pub mod policy;
mod tier;

pub use actor::{CacheActor, Fetch, FetchError, Prefetch};
pub use tier::{MemoryTier, TierStats};
