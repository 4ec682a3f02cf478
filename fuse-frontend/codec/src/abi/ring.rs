//! What both sides say of a request that travels through a ring of shared memory instead of the device: the header
//! that stands beside it, and the command that hands a place for it over.

use super::wire;

wire! {
    /// Stands behind the two places for structs, see [`ring_head`].
    RingEntry { flags: u64, commit_id: u64, payload_sz: u32, padding: u32, reserved: u64 }
    /// Ends the submission entry of each command.
    RingCommand { flags: u64, commit_id: u64, qid: u16, padding: [u16; 3] }
}

/// Commands of a ring.
pub mod ring_command {
    /// Gives the kernel a place for requests.
    pub const REGISTER: u32 = 1;
    /// Answers the request of a place, and gives it the next one.
    pub const COMMIT_AND_FETCH: u32 = 2;
}

/// Where things lie in a head, by bytes.
pub mod ring_head {
    /// [`InHeader`](super::super::InHeader) of a request, and [`OutHeader`](super::super::OutHeader) of its answer.
    pub const HEADER: usize = 0;
    /// The struct a request begins with.
    pub const STRUCT: usize = 128;
    /// [`RingEntry`](super::RingEntry).
    pub const ENTRY: usize = 256;
    /// All of it.
    pub const SIZE: usize = 288;
}
