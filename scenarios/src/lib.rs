//! Named situations: each a value that the simulator lives through, with the court of the ordinary sweep. And the
//! saved failures: plans that once broke a rule, shrunk, as text in `saved/`. Knows no actor and no device.

// Scenarios are run by tests and read their saved plans from files.
#![allow(clippy::disallowed_methods)]

pub mod bgsave;
pub mod chunks;
pub mod crash;
pub mod names;
pub mod records;
pub mod saved;
pub mod store;

use zest_sim::plan::Setup;

/// A situation with its name.
pub type Named = (&'static str, fn() -> Setup);

/// Every situation.
#[must_use]
pub fn all() -> Vec<Named> {
    [chunks::ALL, crash::ALL, names::ALL, records::ALL, store::ALL].concat()
}
