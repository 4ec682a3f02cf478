//! The native door's second transport: requests and answers lie in memory that is shared with the kernel, in a ring of
//! io_uring for each processor, and one system call brings the next requests and takes the last answers. It moves
//! bytes, as the device does, and knows nothing of files.
//!
//! INIT, interrupts, nodes that are let go of, and what the kernel is told unasked stay with the device.

mod mailbox;
mod plan;
mod queue;
mod rings;
mod slots;
mod tally;

pub(super) use mailbox::Mailbox;
pub use plan::RingPlan;
pub(super) use rings::{Cut, Rings};
