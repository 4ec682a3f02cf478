//! Any text as the key of an object: no block, or the block whose key is exactly this text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_data::block::{block_key, parse_block_key};

fuzz_target!(|input: (bool, &str)| {
    let (hash_prefix, text) = input;
    for key in [text, &format!("vol/chunks/{text}")] {
        if let Some(name) = parse_block_key("vol", hash_prefix, key) {
            let block = name.block;
            assert_eq!(block_key("vol", hash_prefix, block.slice, block.index, name.len), key);
        }
    }
});
