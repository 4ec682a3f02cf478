//! The generator's dice: a small seeded generator, and file content that follows from a seed.

/// Numbers that follow from a seed.
pub struct Chance(u64);

impl Chance {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The bytes a write with this seed puts down. No byte is 0, so that a hole can't be taken for data.
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = 0_u64;
    while bytes.len() < len {
        bytes.extend_from_slice(&(mix(seed.wrapping_add(word)) | 0x0101_0101_0101_0101).to_le_bytes());
        word += 1;
    }
    bytes.truncate(len);
    bytes
}
