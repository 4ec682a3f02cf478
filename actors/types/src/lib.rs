//! Words everybody uses. No behaviour beyond validation, and no knowledge of who uses them.

pub mod attr;
pub mod encoding;
pub mod errno;
pub mod ids;
pub mod limits;
pub mod name;
pub mod overlay;
pub mod request;
pub mod slice;
pub mod time;
pub mod version;
pub mod volume;

pub use attr::{Attr, FileType};
pub use errno::Errno;
pub use ids::{Handle, Ino, SliceId};
pub use name::Name;
pub use request::{Caller, Request, Response, ServeResult};
pub use slice::{Placed, SliceRecord};
pub use time::Time;
pub use version::Version;
