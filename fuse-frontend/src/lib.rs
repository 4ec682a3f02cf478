//! ZestFS for users: the doors a volume is reached through, mounting, and the command line that puts a
//! production world together.
// This is the outside: the one program that may touch threads, files and processes.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod door;
