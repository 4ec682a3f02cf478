//! The kernel's side of the interface: requests as it writes them, answers as it reads them. For tests, for a
//! simulated kernel, and for whoever wants to know what was recorded.

mod replies;
mod requests;
mod sample;

pub use replies::{Entry, Told, told};
pub use requests::{Origin, request};
pub use sample::sample;
