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
    let tape = Arc::new(Tape::new(telling));
    let (inside, listening) = (setup.clone(), tape.clone());
    let outcome = universe(setup.seed, move || {
        zest_world::planted::activate(bug);
        live(&inside, listening)
    });
    outcome.unwrap_or_else(|text| Outcome::panicked(text, &tape))
}
