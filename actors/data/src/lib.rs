//! File bytes on their way down and up: which stored bytes show where, names of blocks, unflushed writes, memory
//! for them, how far to read ahead, and how fast bytes may move. Everything here is plain state and decisions, without
//! an actor; only [`retry`] and [`limited`] wait, through the world's clock.

pub mod bandwidth;
pub mod block;
pub mod budget;
pub mod checksum;
pub mod chunk_view;
pub mod codec;
pub mod crowd;
pub mod limited;
pub mod memory;
pub mod pace;
pub mod pool;
pub mod readahead;
pub mod retry;
pub mod writer;

pub use block::{BlockId, BlockNames, BlockSink};
pub use budget::Budget;
pub use chunk_view::{ChunkView, Piece};
pub use codec::{BlockCodec, CodecError};
pub use limited::{LimitedObjects, Traffic};
pub use memory::Shares;
pub use readahead::Readahead;
pub use writer::{FileWriter, Handover, PendingPiece, SealReason, WriteError};
