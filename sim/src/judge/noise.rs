//! Bytes to write: one fixed pool of noise, so that a write's data is a slice of it and costs nothing to keep,
//! and two writes can be told apart by any few of their bytes.

use std::sync::OnceLock;

/// Bytes in the pool; a prime is near, so strides spread well.
const POOL: usize = 4 << 20;

static NOISE: OnceLock<Vec<u8>> = OnceLock::new();

fn pool() -> &'static [u8] {
    NOISE.get_or_init(|| {
        let mut state = 0x2545_F491_4F6C_DD1Du64;
        let mut out = Vec::with_capacity(POOL);
        while out.len() < POOL {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Never zero, so that noise can't be taken for a hole.
            out.extend(state.to_le_bytes().map(|byte| byte.max(1)));
        }
        out
    })
}

/// `len` bytes that belong to write number `number`; at most 2 MiB.
#[must_use]
pub fn noise(number: u64, len: usize) -> &'static [u8] {
    let len = len.min(POOL / 2);
    let start = (number.wrapping_mul(40_503) % (POOL - len) as u64) as usize;
    &pool()[start..start + len]
}

#[cfg(test)]
mod tests {
    use super::noise;

    #[test]
    fn neighbours_differ_and_nothing_is_zero() {
        assert_ne!(noise(1, 16), noise(2, 16));
        assert_eq!(noise(3, 100), noise(3, 100));
        assert!(noise(9, 1 << 16).iter().all(|byte| *byte != 0));
    }
}
