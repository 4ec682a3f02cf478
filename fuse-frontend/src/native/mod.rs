//! Our own door for Linux: the kernel's bytes are read and written here, without a library between. The codec is pure
//! (`zest_codec`); this is what carries its bytes, and what fuser's door can't do: interrupts, both kinds of locks
//! told apart, answers gathered from where they lie. Like every door it translates and decides nothing.

mod again;
#[cfg(test)]
mod alike;
mod buffer;
mod device;
mod door;
#[cfg(test)]
mod fallback;
mod kernel;
mod mounting;
mod parking;
mod pending;
mod privileges;
mod process;
mod recorder;
#[cfg(test)]
mod rig;
mod session;
mod terms;
mod uring;
#[cfg(test)]
mod waits;
mod wish;

pub use device::{Device, is_cut};
pub use door::{NativeDoor, Options};
pub use kernel::NativeKernel;
pub use mounting::{MountPlan, Mounted};
pub use parking::Parking;
pub use recorder::Recorder;
pub use session::{Handler, Reply, Session, Ways};
pub use uring::RingPlan;
pub use wish::wish;
