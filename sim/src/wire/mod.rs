//! Wire worlds: several mounts of one volume, each with the production engine for Redis, over simulated TCP against the
//! simulated server. Same actors, same court; what is judged of several clients is said in `life`.

pub mod client;
pub mod counter;
pub mod draw;
pub mod figures;
pub mod ledger;
pub mod life;
pub mod locker;
pub mod plan;

pub use life::{WireOutcome, live};
pub use plan::WireSetup;

use crate::devices::Tape;
use crate::universe::universe;
use std::sync::Arc;
use zest_world::planted::Bug;

/// Runs a plan in a universe of its own, with a planted bug if wanted. A panic in there is a violation too.
#[must_use]
pub fn run(setup: &WireSetup, bug: Option<Bug>, telling: bool) -> WireOutcome {
    let tape = Arc::new(Tape::new(telling));
    let (inside, listening) = (setup.clone(), tape.clone());
    let outcome = universe(setup.seed, move || {
        zest_world::planted::activate(bug);
        live(&inside, listening)
    });
    outcome.unwrap_or_else(|text| WireOutcome::panicked(text, &tape))
}

/// Runs a plan twice.
///
/// # Errors
/// The first event in which the runs differ, with its neighbours.
pub fn twice(setup: &WireSetup) -> Result<WireOutcome, String> {
    let (first, second) = (run(setup, None, false), run(setup, None, false));
    match crate::explorer::twice::difference(&first.outcome, &second.outcome) {
        None => Ok(first),
        Some(text) => Err(text),
    }
}
