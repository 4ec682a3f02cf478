//! Any bytes as an access rule, stored or in an extended attribute: no rule, or one that is stored and shown and read
//! back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_metadata::acl::Rule;

fuzz_target!(|bytes: &[u8]| {
    if let Some(rule) = Rule::decode(bytes) {
        assert_eq!(rule.encode(), bytes);
    }
    if let Ok(rule) = Rule::from_xattr(bytes) {
        let mode = rule.mode();
        let full = rule.filled(mode);
        assert_eq!(Rule::from_xattr(&full.to_xattr()).as_ref(), Ok(&full));
        assert_eq!(Rule::decode(&full.encode()), Some(full));
    }
});
