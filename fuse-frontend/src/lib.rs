//! ZestFS for users: the doors a volume is reached through, mounting, and the command line that puts a
//! production world together.
// This is the outside: the one program that may touch threads, files and processes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod background;
pub mod cli;
pub mod control;
pub mod door;
pub mod log;
pub mod memory;
pub mod meta_url;
pub mod metrics;
pub mod mount_point;
pub mod mount_table;
pub mod native;
pub mod objbench;
pub mod safety;
pub mod secret;
pub mod serve;
pub mod supervise;
pub mod volume;
