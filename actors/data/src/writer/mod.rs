//! Unflushed writes of files: which slice a write goes to, what of it may leave, and what reads see meanwhile.
//! Plain state without waiting: the caller keeps a [`FileWriter`] per file under its lock and carries what it
//! hands over to the uploader, in order.

mod file;
mod pending;
mod slice;

use bytes::Bytes;
use zest_types::{Errno, Placed, SliceId, Time};

pub use file::FileWriter;
pub use pending::PendingPiece;

/// Something for the uploader. Messages of one file must reach it in the order they were handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handover {
    /// A slice begins. Slices of a file are committed in the order of these.
    Open {
        /// The slice.
        slice: SliceId,
    },
    /// A block that will never change again. Its slice may still grow.
    Block {
        /// The slice.
        slice: SliceId,
        /// Number of the block.
        index: u32,
        /// The whole block.
        data: Bytes,
    },
    /// A slice is complete: all its blocks were handed over before.
    Seal {
        /// The slice.
        slice: SliceId,
        /// All its bytes.
        size: u32,
        /// What to commit, in the order in which it was written.
        parts: Vec<Placed>,
        /// Time of the last write in it.
        mtime: Time,
        /// Why now.
        reason: SealReason,
    },
}

/// Why a write was not taken. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No memory, or too many slices on their way: queue the write and try again when a slice was committed.
    #[error("unflushed writes use up their memory: the write has to wait until some are stored")]
    Full,
    /// No slice number at hand: get more, then try again.
    #[error("no slice number at hand: fetch more and repeat the write")]
    NoSliceId,
    /// The write ends behind the largest file, or is larger than a chunk.
    #[error("the write ends behind the largest file size, or is larger than a chunk")]
    TooLarge,
}

impl From<WriteError> for Errno {
    /// For callers that have no way left to wait.
    fn from(error: WriteError) -> Errno {
        match error {
            WriteError::Full | WriteError::NoSliceId => Errno::EIO,
            WriteError::TooLarge => Errno::EFBIG,
        }
    }
}

/// Why slices are sealed; for traces and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealReason {
    /// Someone waits for the file to be flushed.
    Flush,
    /// Nothing was written for a while, or the slice grew old.
    Due,
    /// Memory is needed.
    Pressure,
    /// The slice reached its chunk's end.
    Complete,
    /// A later write went elsewhere, and found no place in the slice.
    Superseded,
}
