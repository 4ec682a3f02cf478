//! Work that would block the thread of an actor: disk calls with fsync, compression.

use crate::BoxFuture;

/// Runs blocking work away from the actors' threads.
pub trait Offload: Send + Sync {
    /// Runs `job` elsewhere; ready when it has run. A job that panics is ready too: what it wanted to say is
    /// then unsaid, and the caller treats it as failed. `what` names the work in traces.
    fn run(&self, what: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;
}
