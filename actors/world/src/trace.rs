//! What happened, as typed events. In the simulator every event enters the digest of the run, so two runs of a
//! seed can be compared step by step; in production nobody listens unless told to.

/// One thing that happened. No addresses, no hash order, no wall-clock time: only what a replay repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who.
    pub actor: &'static str,
    /// What.
    pub kind: &'static str,
    /// To which inode, slice or handle.
    pub subject: u64,
    /// A number that says more: bytes, a count, an error number.
    pub detail: u64,
}

/// Listens to events.
pub trait Trace: Send + Sync {
    /// Called where it happens, in order; must be quick.
    fn event(&self, event: Event);
    /// Something went wrong that a person should read, in words: what, and what follows from it.
    fn complain(&self, text: &str) {
        let _ = text;
    }
}

/// Listens to nothing.
pub struct Silent;

impl Trace for Silent {
    fn event(&self, _: Event) {}
}
