//! The search: a seed becomes a run, a run a verdict. Runs are repeated and compared, swept over many seeds,
//! searched for planted bugs, and shrunk when they fail.

pub mod marks;
pub mod planted;
pub mod shrink;
pub mod sweep;
pub mod twice;

use crate::devices::Tape;
use crate::plan::Setup;
use crate::universe::universe;
use crate::world::{Outcome, live};
use std::sync::Arc;
use zest_world::planted::Bug;

/// Runs a plan in a universe of its own, with a planted bug if wanted. A panic in there is a violation too.
#[must_use]
pub fn run(setup: &Setup, bug: Option<Bug>, telling: bool) -> Outcome {
    run_after(setup, bug, telling, || ())
}

/// The same, where something else happened in the universe's thread before. What that leaves is dropped at the end.
#[must_use]
pub(crate) fn run_after<T>(
    setup: &Setup,
    bug: Option<Bug>,
    telling: bool,
    before: impl FnOnce() -> T + Send + 'static,
) -> Outcome {
    let tape = Arc::new(Tape::new(telling));
    let (inside, listening) = (setup.clone(), tape.clone());
    let outcome = universe(setup.seed, move || {
        let _kept = before();
        zest_world::planted::activate(bug);
        live(&inside, listening)
    });
    outcome.unwrap_or_else(|text| Outcome::panicked(text, &tape))
}
