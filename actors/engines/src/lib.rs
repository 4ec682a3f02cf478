//! Record stores: the key-value layout as a pure codec, an engine in memory, and the embedded engine that keeps a
//! volume's records in one local file. Knows no rule of the file system: what a change set means is `metadata`'s.

pub mod embedded;
pub mod kv;
pub mod memory;
pub mod redis;

pub use embedded::{EmbeddedEngine, OpenError};
pub use memory::MemoryEngine;
pub use redis::RedisEngine;
