//! Chance from a seed, in streams by name, so that one device drawing more does not shift what another draws.

use parking_lot::Mutex;
use zest_world::{Chance, NoSecrets};

/// Mixes sixty-four bits so that near inputs give far outputs.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// One stream of random numbers.
pub struct SimChance(Mutex<u64>);

impl SimChance {
    /// The stream `name` of a seed.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> SimChance {
        let start = name.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)));
        SimChance(Mutex::new(start))
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&self, end: u64) -> u64 {
        // The bias of a remainder does not matter for choosing steps and delays.
        self.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True `permille` times in a thousand.
    pub fn permille(&self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// One of several; the list must not be empty.
    pub fn pick<'a, T>(&self, list: &'a [T]) -> &'a T {
        let at = self.below(list.len() as u64) as usize;
        &list[at]
    }
}

impl Chance for SimChance {
    fn next_u64(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(*state)
    }

    fn secret(&self, bytes: &mut [u8]) -> Result<(), NoSecrets> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}
