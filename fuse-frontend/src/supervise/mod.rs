//! Life goes on: a small process holds the kernel's device for the one that serves a mount. When that one dies another
//! takes its place over the same connection, and so does a newer program when it is asked to. Knows no volume: what one
//! worker has to tell the next is a note, kept unread but for where the mount is.

mod keep;
mod note;
mod pace;
mod request;
mod start;
mod supervisor;
mod wire;
mod worker;

pub use keep::Keep;
pub use note::{Fixed, Note, PROTOCOL};
pub use request::{Refusal, upgrade};
pub use start::{Launch, run};
pub use worker::{Link, Start, is_worker};
