//! The real world: clocks, chance, a pool for blocking work, directories, object stores, and the threads that
//! actors run on. Deciding code never names anything in here; the command line puts it together.
// This is the outside: the one crate that may touch clocks, threads, files and sockets.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod arbiters;
pub mod board;
pub mod clock;
pub mod dial;
pub mod disk;
pub mod journal;
pub mod objects;
pub mod offload;
pub mod probe;
pub mod secrets;

pub use arbiters::{Arbiters, Role};
pub use board::Board;
pub use clock::{RealChance, RealClock};
pub use dial::RealDial;
pub use disk::{KeptFile, LocalDisk};
pub use journal::Journal;
pub use offload::Pool;

use std::sync::Arc;
use zest_world::{Objects, World};

/// The production world around an object store.
#[must_use]
pub fn world(objects: Arc<dyn Objects>) -> World {
    World {
        clock: Arc::new(RealClock::new()),
        chance: Arc::new(RealChance::new()),
        offload: Arc::new(Pool::start(Pool::default_threads())),
        objects,
        trace: Arc::new(Journal),
    }
}
