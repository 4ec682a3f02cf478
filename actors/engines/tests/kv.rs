//! Whatever is stored is read back the same, and whatever bytes are read, the codec answers.

use proptest::collection::vec;
use proptest::prelude::*;
use zest_engines::kv::{decode_key, decode_record, encode_key, encode_record};
use zest_metadata::record::{FlockEntry, LockOwner, LockRange};
use zest_metadata::{Counter, Key, Record};
use zest_types::{Attr, FileType, Ino, Name, SliceId, SliceRecord, Time};

fn ino() -> impl Strategy<Value = Ino> {
    any::<u64>().prop_map(Ino)
}

fn slice_id() -> impl Strategy<Value = SliceId> {
    any::<u64>().prop_map(SliceId)
}

fn name() -> impl Strategy<Value = Name> {
    vec(1..=255_u8, 1..=255).prop_filter_map("no slash", |bytes| Name::new(&bytes).ok())
}

fn xattr_name() -> impl Strategy<Value = Name> {
    vec(1..=255_u8, 1..=255).prop_filter_map("legal", |bytes| Name::attribute(&bytes).ok())
}

fn kind() -> impl Strategy<Value = FileType> {
    (1..=7_u8).prop_filter_map("known", FileType::from_code)
}

fn time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(sec, nsec)| Time { sec, nsec })
}

fn attr() -> impl Strategy<Value = Attr> {
    let words = any::<[u32; 6]>();
    (kind(), any::<u8>(), 0..0x1000_u16, words, [time(), time(), time()], any::<[u64; 2]>(), 0..4_u8)
        .prop_map(|(kind, flags, mode, words, times, longs, tier)| Attr {
            flags,
            kind,
            mode,
            uid: words[0],
            gid: words[1],
            atime: times[0],
            mtime: times[1],
            ctime: times[2],
            nlink: words[2],
            length: longs[0],
            rdev: words[3],
            parent: Ino(longs[1]),
            access_acl: words[4] % 3,
            default_acl: words[5] % 3,
            tier,
        })
}

fn slice() -> impl Strategy<Value = SliceRecord> {
    let whole = (0..1_u32 << 26, slice_id(), 1..=1_u32 << 26, any::<u32>(), any::<u32>());
    whole.prop_map(|(pos, id, size, off, len)| {
        let off = off % size;
        SliceRecord { pos, id, size, off, len: len % (size - off + 1).min((1 << 26) - pos + 1) }
    })
}

fn lock_owner() -> impl Strategy<Value = LockOwner> {
    any::<(u64, u64)>().prop_map(|(session, owner)| LockOwner { session, owner })
}

fn lock_range() -> impl Strategy<Value = LockRange> {
    any::<(u32, u32, u64, u64)>().prop_map(|(kind, pid, start, end)| LockRange { kind, pid, start, end })
}

/// A key and a record that may stand there.
fn stored() -> impl Strategy<Value = (Key, Record)> {
    let bytes = || vec(any::<u8>(), 0..300).prop_map(Record::Bytes);
    let count = || any::<i64>().prop_map(Record::Count);
    let stamp = || any::<i64>().prop_map(Record::Stamp);
    let quota = || {
        any::<[i64; 4]>().prop_map(|[max_space, max_inodes, used_space, used_inodes]| Record::Quota {
            max_space,
            max_inodes,
            used_space,
            used_inodes,
        })
    };
    let flock = (lock_owner(), any::<bool>()).prop_map(|(owner, write)| FlockEntry { owner, write });
    let ranges = vec((lock_owner(), vec(lock_range(), 0..4)), 0..4).prop_map(Record::RangeLocks);
    let stat =
        any::<[i64; 3]>().prop_map(|[length, space, inodes]| Record::DirStat { length, space, inodes });
    prop_oneof![
        (Just(Key::Setting), bytes()),
        (ino().prop_map(Key::Attr), attr().prop_map(Record::Attr)),
        ((ino(), name()), (kind(), ino()))
            .prop_map(|((dir, name), (kind, ino))| (Key::Dentry(dir, name), Record::Dentry { kind, ino })),
        ((ino(), ino()).prop_map(|(ino, parent)| Key::Parent { ino, parent }), count()),
        ((ino(), any::<u32>()), vec(slice(), 0..5))
            .prop_map(|((ino, index), list)| (Key::Chunk(ino, index), Record::Slices(list))),
        (ino().prop_map(Key::Symlink), bytes()),
        ((ino(), xattr_name()).prop_map(|(ino, name)| Key::Xattr(ino, name)), bytes()),
        (ino().prop_map(Key::Flocks), vec(flock, 0..4).prop_map(Record::Flocks)),
        (ino().prop_map(Key::RangeLocks), ranges),
        ((ino(), any::<u64>()).prop_map(|(ino, length)| Key::Deleted { ino, length }), stamp()),
        ((slice_id(), any::<u32>()).prop_map(|(id, size)| Key::SliceRef { id, size }), count()),
        (
            (any::<i64>(), slice_id()).prop_map(|(stamp, id)| Key::DelayedSlices { stamp, id }),
            vec((slice_id(), any::<u32>()), 1..4).prop_map(Record::SliceList)
        ),
        (any::<u64>().prop_map(Key::SessionExpiry), stamp()),
        (any::<u64>().prop_map(Key::SessionInfo), bytes()),
        (
            (any::<u64>(), ino()).prop_map(|(session, ino)| Key::Sustained { session, ino }),
            Just(Record::Mark)
        ),
        (ino().prop_map(Key::DirStat), stat),
        (ino().prop_map(Key::Detached), stamp()),
        (ino().prop_map(Key::DirQuota), quota()),
        (any::<u32>().prop_map(Key::UserQuota), quota()),
        (any::<u32>().prop_map(Key::GroupQuota), quota()),
        (any::<u32>().prop_map(Key::AclRule), bytes()),
        (Just(Key::Counter(Counter::UsedSpace)), count()),
        (Just(Key::Counter(Counter::AclMaxId)), count()),
        (Just(Key::Counter(Counter::LastCleanupTrash)), stamp()),
    ]
}

/// Key bytes that come close to real ones.
fn key_like() -> impl Strategy<Value = Vec<u8>> {
    let letters = prop::sample::select(b"ACDFIKLNPQRSUXEGs".to_vec());
    let noise = vec(any::<u8>(), 0..40);
    prop_oneof![
        noise.clone(),
        (letters.clone(), noise.clone()).prop_map(|(letter, rest)| [&[letter], &rest[..]].concat()),
        (any::<[u8; 8]>(), letters, noise)
            .prop_map(|(ino, letter, rest)| { [b"A", &ino[..], &[letter], &rest[..]].concat() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_stored_is_read_back((key, record) in stored()) {
        let (key_bytes, value) = (encode_key(&key), encode_record(&key, &record).unwrap());
        prop_assert_eq!(decode_key(&key_bytes), Ok(key.clone()));
        prop_assert_eq!(decode_record(&key, &value), Ok(record));
    }

    #[test]
    fn different_keys_have_different_bytes((a, _) in stored(), (b, _) in stored()) {
        prop_assert_eq!(a == b, encode_key(&a) == encode_key(&b));
    }

    #[test]
    fn any_key_bytes_are_answered(bytes in key_like()) {
        if let Ok(key) = decode_key(&bytes) {
            prop_assert_eq!(encode_key(&key), bytes);
        }
    }

    #[test]
    fn any_value_bytes_are_answered((key, record) in stored(), noise in vec(any::<u8>(), 0..120), at in 0..60_usize) {
        let mut spoiled = encode_record(&key, &record).unwrap();
        if let Some(byte) = spoiled.get_mut(at) {
            *byte ^= 0x5A;
        }
        for bytes in [noise, spoiled] {
            if let Ok(record) = decode_record(&key, &bytes) {
                let again = encode_record(&key, &record).unwrap();
                prop_assert_eq!(decode_record(&key, &again), Ok(record));
            }
        }
    }
}
