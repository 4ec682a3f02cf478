//! Any value bytes under a key of each kind: an error that names the key, or a record that is stored and read back
//! the same. The first byte chooses the key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_engines::kv::{CodecError, decode_record, encode_record};
use zest_metadata::{Counter, Key};
use zest_types::{Ino, Name, SliceId};

fn key(choice: u8) -> Key {
    let (ino, name) = (Ino(7), Name::new(b"name").expect("legal"));
    match choice % 19 {
        0 => Key::Attr(ino),
        1 => Key::Dentry(ino, name),
        2 => Key::Parent { ino, parent: Ino(1) },
        3 => Key::Chunk(ino, 0),
        4 => Key::Symlink(ino),
        5 => Key::Xattr(ino, name),
        6 => Key::Flocks(ino),
        7 => Key::RangeLocks(ino),
        8 => Key::Deleted { ino, length: 1 },
        9 => Key::SliceRef { id: SliceId(1), size: 1 },
        10 => Key::DelayedSlices { stamp: 0, id: SliceId(1) },
        11 => Key::SessionExpiry(1),
        12 => Key::Sustained { session: 1, ino },
        13 => Key::DirStat(ino),
        14 => Key::DirQuota(ino),
        15 => Key::Counter(Counter::UsedSpace),
        16 => Key::Counter(Counter::AclMaxId),
        17 => Key::AclRule(1),
        _ => Key::Counter(Counter::LastCleanupFiles),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, value)) = bytes.split_first() else { return };
    let key = key(*choice);
    match decode_record(&key, value) {
        Ok(record) => {
            let stored = encode_record(&key, &record).expect("what was read can be stored");
            assert_eq!(decode_record(&key, &stored), Ok(record));
        }
        Err(CodecError::Value { key: named, .. }) => assert_eq!(named, format!("{key:?}")),
        Err(other) => panic!("{other}"),
    }
});
