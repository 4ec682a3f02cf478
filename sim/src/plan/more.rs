//! What some plans have besides: copies, quotas, moments in which no changes are taken, hours in which nobody is
//! there. Drawn from a stream of its own, so that the rest of a plan stays what it was.

use super::draw::path;
use super::{Ending, Round, Setup, Step};
use crate::devices::SimChance;

/// So long that everything in the trash has had its time.
pub const PAST_TRASH: u64 = 50;

/// Adds to a plan.
pub fn add(setup: &mut Setup) {
    let chance = SimChance::new(setup.seed, "more");
    setup.copies = chance.permille(300);
    setup.quotas = chance.permille(300);
    if setup.copies {
        sprinkle(setup, &chance, 5, |chance| Step::Clone { path: path(chance), slot: chance.below(4) as u8 });
    }
    if chance.permille(150) {
        sprinkle(setup, &chance, 2, |chance| Step::Fence { ms: chance.between(1, 2_000) });
    }
    if setup.trash_days > 0 {
        hours(setup, &chance);
    }
}

/// Puts so many steps of a kind somewhere into what users do in each round.
fn sprinkle(setup: &mut Setup, chance: &SimChance, most: u64, step: impl Fn(&SimChance) -> Step) {
    for round in &mut setup.rounds {
        for _ in 0..chance.between(1, most) {
            let user = chance.below(round.users.len() as u64) as usize;
            let Some(steps) = round.users.get_mut(user) else { continue };
            // Behind the first steps, which make what the others use.
            let at = chance.between(2, steps.len() as u64).min(steps.len() as u64) as usize;
            steps.insert(at, step(chance));
        }
    }
}

fn hours(setup: &mut Setup, chance: &SimChance) {
    if let Some(round) = setup.rounds.get_mut(1).filter(|_| chance.permille(400)) {
        round.later = *chance.pick(&[1, 3, 20]);
    }
    if chance.permille(250) {
        setup.rounds.push(Round { later: PAST_TRASH, ..Round::of(Vec::new(), Ending::Unmount) });
    }
}
