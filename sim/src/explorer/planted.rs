//! Are planted bugs found? The ordinary runs, one seed after the other, with one bug switched on, until the court
//! objects.

use super::run;
use crate::judge::Violation;
use crate::plan::draw::setup;
use zest_world::planted::Bug;

/// The first seed below `within` that finds a bug, and what the court said.
#[must_use]
pub fn first_find(bug: Bug, within: u64) -> Option<(u64, Violation)> {
    (0..within)
        .find_map(|seed| run(&setup(seed), Some(bug), false).violation.map(|violation| (seed, violation)))
}

/// The same with wire worlds.
#[must_use]
pub fn first_find_wire(bug: Bug, within: u64) -> Option<(u64, Violation)> {
    (0..within).find_map(|seed| {
        let outcome = crate::wire::run(&crate::wire::draw::setup(seed), Some(bug), false);
        outcome.outcome.violation.map(|violation| (seed, violation))
    })
}
