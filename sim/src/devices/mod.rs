//! The simulated outside, device by device. Each one keeps what survives a crash apart from what an incarnation
//! of the client holds, and counts every fault it really committed.

pub mod chance;
pub mod clock;
pub mod disk;
pub mod faults;
pub mod life;
pub mod objects;
pub mod offload;
pub mod records;
pub mod tape;
pub mod wrong;

pub use chance::SimChance;
pub use clock::SimClock;
pub use disk::{DiskMedia, SimDisk};
pub use faults::{Fates, Fault};
pub use life::Life;
pub use objects::{ObjectMedia, SimObjects};
pub use offload::SimOffload;
pub use records::SimRecords;
pub use tape::Tape;
pub use wrong::Wrong;
