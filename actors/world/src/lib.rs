//! What an actor may ask of the outside: time, chance, work elsewhere, objects, disks, and where to tell what
//! happened. Production gives the real ones (`actors/host`), the simulator its own (`sim`). Nothing here
//! decides anything.

pub mod clock;
pub mod dial;
pub mod disk;
#[cfg(feature = "planted")]
mod leaks;
pub mod objects;
pub mod offload;
pub mod planted;
pub mod trace;
pub mod unflushed;

use std::sync::Arc;

pub use clock::{Chance, Clock, NoSecrets};
pub use dial::{Dial, Stream, Target, Tls};
pub use disk::{Disk, DiskFile, Space, Stamp};
pub use objects::{ObjectError, Objects};
pub use offload::Offload;
pub use trace::{Event, Trace};
pub use unflushed::Unflushed;

/// A future that can be sent and kept.
pub type BoxFuture<'a, T> = futures::future::BoxFuture<'a, T>;

/// Everything an actor may ask for. Cheap to clone.
#[derive(Clone)]
pub struct World {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub chance: Arc<dyn Chance>,
    /// Work that blocks.
    pub offload: Arc<dyn Offload>,
    /// The volume's objects.
    pub objects: Arc<dyn Objects>,
    /// Who listens to what happens.
    pub trace: Arc<dyn Trace>,
}

impl World {
    /// Tells what happened; see [`Event`].
    pub fn tell(&self, actor: &'static str, kind: &'static str, subject: u64, detail: u64) {
        self.trace.event(Event { actor, kind, subject, detail });
    }
}
