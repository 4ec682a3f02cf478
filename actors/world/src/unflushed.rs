//! Who remembers which files have unflushed writes, also when this process is gone: whoever goes on with its mount must
//! tell those who wait for them that they are lost.

use zest_types::Ino;

/// A memory that outlives the process.
pub trait Unflushed: Send + Sync + std::fmt::Debug {
    /// The file has unflushed writes from now on, or none any more. Called before a write is acknowledged, for one file
    /// by one thread at a time.
    fn note(&self, ino: Ino, unflushed: bool);
}
