//! Does a seed say the same thing twice? Each run is made two times and compared event by event; the second time on a heap
//! that hands out its memory in another order. Or each time by a process of its own, with other variables and addresses.

use super::run;
use crate::devices::SimChance;
use crate::plan::Setup;
use crate::world::Outcome;
use std::process::Command;
use zest_world::planted::Bug;

/// Runs a plan twice.
///
/// # Errors
/// The first event in which the runs differ, with its neighbours.
pub fn twice(setup: &Setup) -> Result<Outcome, String> {
    twice_with(setup, None)
}

/// The same, with a bug.
///
/// # Errors
/// The first event in which the runs differ, with its neighbours.
pub fn twice_with(setup: &Setup, bug: Option<Bug>) -> Result<Outcome, String> {
    let first = run(setup, bug, false);
    let second = run_unsettled(setup, bug);
    match difference(&first, &second) {
        None => Ok(first),
        Some(text) => Err(text),
    }
}

fn run_unsettled(setup: &Setup, bug: Option<Bug>) -> Outcome {
    let seed = setup.seed;
    super::run_after(setup, bug, false, move || unsettled(seed))
}

/// Memory that is handed out next comes from holes in an order of its own.
fn unsettled(seed: u64) -> Vec<Vec<u8>> {
    const EACH: usize = 400;
    let chance = SimChance::new(seed, "heap");
    let mut kept = Vec::new();
    for size in (16..=512).step_by(16) {
        let (mut gone, mut stay) = (Vec::new(), Vec::new());
        for _ in 0..EACH {
            gone.push(Vec::<u8>::with_capacity(size));
            stay.push(Vec::<u8>::with_capacity(size));
        }
        while !gone.is_empty() {
            let at = chance.below(gone.len() as u64) as usize;
            drop(gone.swap_remove(at));
        }
        kept.extend(stay);
    }
    kept
}

/// Has two processes tell a run, each with variables of its own, and compares what they say.
///
/// # Errors
/// What both say, where it differs, or why they say nothing.
pub fn apart(program: &std::path::Path, arguments: &[&str]) -> Result<String, String> {
    let told = |name: &str| {
        let output =
            Command::new(program).arg("run").args(arguments).arg("--quiet").env("ZEST_APART", name).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (one, other) = (told("one")?, told("the other")?);
    match one == other && !one.is_empty() {
        true => Ok(one),
        false => Err(format!("two processes tell different runs; the first:\n{one}the second:\n{other}")),
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
