//! File bytes on their way down and up: which stored bytes show where, names of blocks, unflushed writes, memory
//! for them, and how far to read ahead. Everything here is plain state and decisions, without an actor; only
//! [`retry`] waits, through the world's clock.

pub mod block;
pub mod budget;
pub mod checksum;
pub mod chunk_view;
pub mod codec;
pub mod pace;
pub mod pool;
pub mod readahead;
pub mod retry;
pub mod writer;

pub use block::{BlockId, BlockNames, BlockSink};
pub use budget::Budget;
pub use chunk_view::{ChunkView, Piece};
pub use codec::{BlockCodec, CodecError};
pub use readahead::Readahead;
pub use writer::{FileWriter, Handover, PendingPiece, SealReason, WriteError};
