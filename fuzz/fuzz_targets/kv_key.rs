//! Any key bytes: an error, or a key that has exactly these bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_engines::kv::{decode_key, encode_key};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(key) = decode_key(bytes) {
        assert_eq!(encode_key(&key), bytes);
    }
});
