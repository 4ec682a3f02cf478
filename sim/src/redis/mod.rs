//! A simulated Redis server. `server` is the server itself, pure: commands in, replies out. `machine` is what it runs
//! on: virtual time, sockets, disks, children that save, and everything that goes wrong with them. Checked against a
//! real server, reply by reply, in `tests/conformance.rs`.

pub mod command;
pub mod config;
pub mod dial;
mod info;
pub mod machine;
pub mod number;
pub mod pattern;
pub mod resp;
mod script;
pub mod server;
pub mod tracking;
pub mod value;

pub use resp::{Args, Frame};
pub use server::{ClientId, Server, Version};
