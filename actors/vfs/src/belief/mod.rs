//! What the kernel may believe of a volume: for how long it is told to, what of that must be taken back since others
//! changed it, and what it must have forgotten before somebody is granted a lock. Sends nothing and waits for nobody:
//! whoever serves a door lets [`Backchannel::next`] and [`Backchannel::work_on`] be called.

mod backchannel;
mod term;
mod told;
mod ttl;

pub use backchannel::{Backchannel, Hold, Kernel, Post, Work};
pub use term::{About, Lasting, Term};
pub use told::{Back, Grant, Keeper, Told, WHOLE};
pub use ttl::Ttl;
