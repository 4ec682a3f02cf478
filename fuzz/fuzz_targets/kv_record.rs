//! Any value bytes under any key: an error that names the key, or a record that is stored and read back the same.
//! The first byte is the length of the key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_engines::kv::{CodecError, decode_key, decode_record, encode_record};

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first() else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(*length)) else { return };
    let Ok(key) = decode_key(key) else { return };
    match decode_record(&key, value) {
        Ok(record) => {
            let stored = encode_record(&key, &record).expect("what was read can be stored");
            assert_eq!(decode_record(&key, &stored), Ok(record));
        }
        Err(CodecError::Value { key: named, .. }) => assert_eq!(named, format!("{key:?}")),
        Err(other) => panic!("{other}"),
    }
});
