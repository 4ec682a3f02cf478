//! How the clock of a host is wrong: from the beginning, by running fast or slow, and by being set. Timers run as fast as
//! the clock does; only the wall clock is ever set.

use super::chance::SimChance;
use super::faults::{Fates, Fault};
use std::sync::Arc;
use std::time::Duration;

/// Parts in a million by which a clock may run fast or slow.
const DRIFT: u64 = 10_000;
const MILLION: u64 = 1_000_000;
/// Seconds in which a clock may be set.
const SECONDS: u64 = 120;

/// What is wrong with a clock. Draws everything when it is made.
pub struct Wrong {
    /// Nanoseconds by which the wall clock is ahead.
    skew: i64,
    /// What a million of real moments become.
    pace: u64,
    /// When the wall clock is set, and how far ahead it is from then on.
    jumps: Vec<(Duration, i64)>,
    fates: Arc<Fates>,
    met: parking_lot::Mutex<usize>,
}

impl Wrong {
    /// What the faults of a world make of a host's clock, which is at no time wrong by more than `most`. Nothing where it
    /// is right.
    #[must_use]
    pub fn draw(fates: &Arc<Fates>, chance: &SimChance, most: Duration) -> Option<Wrong> {
        let off = || {
            let most = u64::try_from(most.as_nanos()).unwrap_or(0);
            chance.below(most) as i64 * if chance.permille(500) { 1 } else { -1 }
        };
        let skew = if fates.strikes(Fault::SkewedClock) { off() } else { 0 };
        let drifts = fates.strikes(Fault::DriftingClock);
        let pace = if drifts { MILLION - DRIFT + chance.below(2 * DRIFT) } else { MILLION };
        let rate = fates.rate(Fault::JumpingClock);
        let set = (1..SECONDS).filter(|_| chance.permille(rate));
        let jumps: Vec<_> =
            set.map(|second| (Duration::from_millis(second * 1000 - chance.below(1000)), off())).collect();
        let is_right = skew == 0 && pace == MILLION && jumps.is_empty();
        let (fates, met) = (fates.clone(), parking_lot::Mutex::new(0));
        (!is_right).then_some(Wrong { skew, pace, jumps, fates, met })
    }

    /// What the clock's timer shows after so long.
    #[must_use]
    pub fn shown(&self, real: Duration) -> Duration {
        scaled(real, self.pace, MILLION)
    }

    /// How long it really takes until its timer shows that so long has passed.
    #[must_use]
    pub fn real(&self, shown: Duration) -> Duration {
        scaled(shown, MILLION, self.pace)
    }

    /// How far ahead the wall clock is when the timer shows this, and how often it was set. Counts those times.
    #[must_use]
    pub fn offset(&self, shown: Duration) -> (i64, usize) {
        let jumps = self.jumps.iter().take_while(|(at, _)| *at <= shown).count();
        let mut met = self.met.lock();
        (*met..jumps).for_each(|_| self.fates.count(Fault::JumpingClock));
        *met = jumps.max(*met);
        (jumps.checked_sub(1).and_then(|last| self.jumps.get(last)).map_or(self.skew, |(_, off)| *off), jumps)
    }
}

fn scaled(time: Duration, by: u64, of: u64) -> Duration {
    let nanos = time.as_nanos().saturating_mul(u128::from(by)) / u128::from(of.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
