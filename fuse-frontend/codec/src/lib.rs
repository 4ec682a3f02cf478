//! The kernel's FUSE interface (ABI 7.45, negotiated down to 7.31) as pure functions: bytes to requests, answers to
//! bytes, and the kernel's own side of both for tests and simulators. Every length is checked, no bytes can make it
//! panic, and reads and writes allocate nothing here. Knows no file descriptor and decides nothing about files.

pub mod abi;
pub mod answer;
pub mod ask;
pub mod convert;
mod decode;
mod dirents;
pub mod flags;
pub mod init;
pub mod ioctl;
pub mod kernel;
pub mod notify;
pub mod opcode;
mod operation;
mod read;
pub mod record;

pub use answer::{Answer, Body, Misfit, Terms, answer, refuse};
pub use ask::{Ask, Shape, translate};
pub use decode::{Dialect, Fault, Incoming, decode};
pub use opcode::Opcode;
pub use operation::{Forgets, Operation};
