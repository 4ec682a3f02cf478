//! The simulated outside, the judges, and the search for failures. The actors that run in here are those of the
//! product, unchanged; everything they can ask of the world is ours: time, chance, disks, objects, records.
//! One seed is one run, to the byte.

// The simulator is the outside: it may touch clocks and threads, which deciding crates may not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(not(madsim))]
compile_error!(
    "the simulator needs the workspace's .cargo/config.toml; a RUSTFLAGS variable overrides it: unset it"
);

pub mod devices;
pub mod explorer;
pub mod judge;
pub mod kernel;
pub mod plan;
pub mod redis;
pub mod universe;
pub mod wire;
pub mod world;
