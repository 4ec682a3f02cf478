//! Does a seed say the same thing twice? Each run is made two times and compared event by event.

use super::run;
use crate::plan::Setup;
use crate::world::Outcome;

/// Runs a plan twice.
///
/// # Errors
/// The first event in which the runs differ, with its neighbours.
pub fn twice(setup: &Setup) -> Result<Outcome, String> {
    let (first, second) = (run(setup, None, false), run(setup, None, false));
    match difference(&first, &second) {
        None => Ok(first),
        Some(text) => Err(text),
    }
}

/// The first event in which two runs differ, with its neighbours; nothing where they do not.
#[must_use]
pub fn difference(first: &Outcome, second: &Outcome) -> Option<String> {
    if first.digest == second.digest && first.events == second.events && first.violation == second.violation {
        return None;
    }
    let same = first.tape.iter().zip(&second.tape).take_while(|(a, b)| a == b).count();
    let near = |outcome: &Outcome| {
        let from = same.saturating_sub(3);
        let lines = outcome.tape.iter().enumerate().skip(from).take(6);
        lines.map(|(at, event)| format!("  {at}: {event:?}")).collect::<Vec<_>>().join("\n")
    };
    Some(format!("event {same} differs; first run:\n{}\nsecond run:\n{}", near(first), near(second)))
}
