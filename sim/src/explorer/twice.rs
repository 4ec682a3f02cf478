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
    if first.digest == second.digest && first.events == second.events && first.violation == second.violation {
        return Ok(first);
    }
    Err(difference(&first, &second))
}

fn difference(first: &Outcome, second: &Outcome) -> String {
    let same = first.tape.iter().zip(&second.tape).take_while(|(a, b)| a == b).count();
    let near = |outcome: &Outcome| {
        let from = same.saturating_sub(3);
        let lines = outcome.tape.iter().enumerate().skip(from).take(6);
        lines.map(|(at, event)| format!("  {at}: {event:?}")).collect::<Vec<_>>().join("\n")
    };
    format!("event {same} differs; first run:\n{}\nsecond run:\n{}", near(first), near(second))
}
