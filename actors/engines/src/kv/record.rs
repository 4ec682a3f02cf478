//! Records to value bytes and back, as the key says. Counts have the least significant byte first, everything
//! else the most significant first. Source: volume format, KV engines, values; slice records; lock records.

use super::fields::Fields;
use super::{CodecError, attr};
use zest_metadata::record::{FlockEntry, LockOwner, LockRange};
use zest_metadata::{Counter, Key, Record};
use zest_types::{FileType, Ino, SliceId, SliceRecord};

/// Bytes of a slice record and of a lock record.
const ENTRY: usize = 24;

/// What shape of value stands under a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Attr,
    Dentry,
    Count,
    Stamp,
    Slices,
    Bytes,
    Flocks,
    RangeLocks,
    SliceList,
    DirStat,
    Quota,
    Mark,
}

fn shape(key: &Key) -> Shape {
    match key {
        Key::Setting | Key::Symlink(_) | Key::Xattr(..) | Key::SessionInfo(_) | Key::AclRule(_) => {
            Shape::Bytes
        }
        Key::Counter(counter) => match counter {
            Counter::LastCleanupSessions
            | Counter::LastCleanupFiles
            | Counter::LastCleanupTrash
            | Counter::NextCleanupSlices => Shape::Stamp,
            Counter::NextInode
            | Counter::NextSlice
            | Counter::NextSession
            | Counter::NextTrash
            | Counter::UsedSpace
            | Counter::TotalInodes
            | Counter::AclMaxId => Shape::Count,
        },
        Key::Parent { .. } | Key::SliceRef { .. } => Shape::Count,
        Key::Deleted { .. } | Key::SessionExpiry(_) | Key::Detached(_) => Shape::Stamp,
        Key::Attr(_) => Shape::Attr,
        Key::Dentry(..) => Shape::Dentry,
        Key::Chunk(..) => Shape::Slices,
        Key::Flocks(_) => Shape::Flocks,
        Key::RangeLocks(_) => Shape::RangeLocks,
        Key::DelayedSlices { .. } => Shape::SliceList,
        Key::Sustained { .. } => Shape::Mark,
        Key::DirStat(_) => Shape::DirStat,
        Key::DirQuota(_) | Key::UserQuota(_) | Key::GroupQuota(_) => Shape::Quota,
    }
}

/// Whether a plain number stands under this key, and then whether it is a count (a time otherwise).
#[must_use]
pub fn is_number(key: &Key) -> Option<bool> {
    match shape(key) {
        Shape::Count => Some(true),
        Shape::Stamp => Some(false),
        _ => None,
    }
}

/// The value bytes of a record. What is encoded can be decoded again: a record of another kind than the key's,
/// or one that breaks the format, is an error.
pub fn encode_record(key: &Key, record: &Record) -> Result<Vec<u8>, CodecError> {
    let wrong = |why| CodecError::value(key, why);
    let out = match (shape(key), record) {
        (Shape::Attr, Record::Attr(attributes)) => attr::encode(attributes).map_err(wrong)?,
        (Shape::Dentry, Record::Dentry { kind, ino }) => {
            let mut out = vec![kind.code()];
            out.extend_from_slice(&ino.0.to_be_bytes());
            out
        }
        (Shape::Count, Record::Count(n)) => n.to_le_bytes().to_vec(),
        (Shape::Stamp, Record::Stamp(n)) => n.to_be_bytes().to_vec(),
        (Shape::Slices, Record::Slices(list)) => encode_slices(list).map_err(wrong)?,
        (Shape::Bytes, Record::Bytes(bytes)) => bytes.clone(),
        (Shape::Flocks, Record::Flocks(list)) => encode_flocks(list),
        (Shape::RangeLocks, Record::RangeLocks(list)) => encode_range_locks(list).map_err(wrong)?,
        (Shape::SliceList, Record::SliceList(list)) => encode_slice_list(list).map_err(wrong)?,
        (Shape::DirStat, Record::DirStat { length, space, inodes }) => {
            be_numbers(&[*length, *space, *inodes])
        }
        (Shape::Quota, Record::Quota { max_space, max_inodes, used_space, used_inodes }) => {
            be_numbers(&[*max_space, *max_inodes, *used_space, *used_inodes])
        }
        (Shape::Mark, Record::Mark) => vec![1],
        _ => return Err(wrong("a record of another kind was to be stored there")),
    };
    Ok(out)
}

/// The record in value bytes.
pub fn decode_record(key: &Key, bytes: &[u8]) -> Result<Record, CodecError> {
    let wrong = |why| CodecError::value(key, why);
    let mut fields = Fields(bytes);
    let record = match shape(key) {
        Shape::Attr => return attr::decode(bytes).map(Record::Attr).map_err(wrong),
        Shape::Bytes => return Ok(Record::Bytes(bytes.to_vec())),
        Shape::Mark => return Ok(Record::Mark),
        Shape::Slices => return decode_slices(bytes).map(Record::Slices).map_err(wrong),
        Shape::Dentry => decode_dentry(&mut fields),
        Shape::Count => fields.i64_le().map(Record::Count),
        Shape::Stamp => fields.i64_be().map(Record::Stamp),
        Shape::Flocks => decode_flocks(&mut fields).map(Record::Flocks),
        Shape::RangeLocks => decode_range_locks(&mut fields).map(Record::RangeLocks),
        Shape::SliceList => decode_slice_list(&mut fields).map(Record::SliceList),
        Shape::DirStat => decode_dir_stat(&mut fields),
        Shape::Quota => decode_quota(&mut fields),
    };
    let record = record.ok_or_else(|| wrong("its bytes are too few or not those of its kind"))?;
    fields.end().ok_or_else(|| wrong("it has bytes too many"))?;
    Ok(record)
}

fn be_numbers(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

fn decode_dentry(fields: &mut Fields<'_>) -> Option<Record> {
    let kind = FileType::from_code(fields.u8()?)?;
    Some(Record::Dentry { kind, ino: Ino(fields.u64_be()?) })
}

fn decode_dir_stat(fields: &mut Fields<'_>) -> Option<Record> {
    Some(Record::DirStat { length: fields.i64_be()?, space: fields.i64_be()?, inodes: fields.i64_be()? })
}

fn decode_quota(fields: &mut Fields<'_>) -> Option<Record> {
    Some(Record::Quota {
        max_space: fields.i64_be()?,
        max_inodes: fields.i64_be()?,
        used_space: fields.i64_be()?,
        used_inodes: fields.i64_be()?,
    })
}

const UNSOUND: &str = "a slice record reaches beyond its slice or its chunk";

fn encode_slices(list: &[SliceRecord]) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(list.len().saturating_mul(ENTRY));
    for slice in list {
        if !slice.is_sound() {
            return Err(UNSOUND);
        }
        out.extend_from_slice(&slice.pos.to_be_bytes());
        out.extend_from_slice(&slice.id.0.to_be_bytes());
        for n in [slice.size, slice.off, slice.len] {
            out.extend_from_slice(&n.to_be_bytes());
        }
    }
    Ok(out)
}

fn decode_slices(bytes: &[u8]) -> Result<Vec<SliceRecord>, &'static str> {
    let (entries, rest) = bytes.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        return Err("the length of the slice list is no multiple of 24");
    }
    entries.iter().map(|entry| decode_slice(entry).filter(SliceRecord::is_sound).ok_or(UNSOUND)).collect()
}

fn decode_slice(entry: &[u8; ENTRY]) -> Option<SliceRecord> {
    let mut fields = Fields(entry);
    Some(SliceRecord {
        pos: fields.u32_be()?,
        id: SliceId(fields.u64_be()?),
        size: fields.u32_be()?,
        off: fields.u32_be()?,
        len: fields.u32_be()?,
    })
}

fn encode_flocks(list: &[FlockEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(list.len().saturating_mul(17));
    for entry in list {
        out.extend_from_slice(&entry.owner.session.to_be_bytes());
        out.extend_from_slice(&entry.owner.owner.to_be_bytes());
        out.push(if entry.write { b'W' } else { b'R' });
    }
    out
}

fn owner(fields: &mut Fields<'_>) -> Option<LockOwner> {
    Some(LockOwner { session: fields.u64_be()?, owner: fields.u64_be()? })
}

fn decode_flocks(fields: &mut Fields<'_>) -> Option<Vec<FlockEntry>> {
    let mut list = Vec::new();
    while fields.left() > 0 {
        let owner = owner(fields)?;
        let write = match fields.u8()? {
            b'W' => true,
            b'R' => false,
            _ => return None,
        };
        list.push(FlockEntry { owner, write });
    }
    Some(list)
}

fn encode_range_locks(list: &[(LockOwner, Vec<LockRange>)]) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::new();
    for (owner, ranges) in list {
        let bytes = ranges.len().checked_mul(ENTRY).and_then(|n| u32::try_from(n).ok());
        out.extend_from_slice(&owner.session.to_be_bytes());
        out.extend_from_slice(&owner.owner.to_be_bytes());
        out.extend_from_slice(&bytes.ok_or("an owner has too many locks")?.to_be_bytes());
        for range in ranges {
            out.extend_from_slice(&range.kind.to_be_bytes());
            out.extend_from_slice(&range.pid.to_be_bytes());
            out.extend_from_slice(&range.start.to_be_bytes());
            out.extend_from_slice(&range.end.to_be_bytes());
        }
    }
    Ok(out)
}

fn decode_range_locks(fields: &mut Fields<'_>) -> Option<Vec<(LockOwner, Vec<LockRange>)>> {
    let mut list = Vec::new();
    while fields.left() > 0 {
        let owner = owner(fields)?;
        let bytes = usize::try_from(fields.u32_be()?).ok()?;
        let mut entries = Fields(fields.bytes(bytes)?);
        let mut ranges = Vec::new();
        while entries.left() > 0 {
            ranges.push(LockRange {
                kind: entries.u32_be()?,
                pid: entries.u32_be()?,
                start: entries.u64_be()?,
                end: entries.u64_be()?,
            });
        }
        list.push((owner, ranges));
    }
    Some(list)
}

fn encode_slice_list(list: &[(SliceId, u32)]) -> Result<Vec<u8>, &'static str> {
    if list.is_empty() {
        return Err("a list of replaced slices has at least one");
    }
    let mut out = Vec::with_capacity(list.len().saturating_mul(12));
    for (id, size) in list {
        out.extend_from_slice(&id.0.to_be_bytes());
        out.extend_from_slice(&size.to_be_bytes());
    }
    Ok(out)
}

fn decode_slice_list(fields: &mut Fields<'_>) -> Option<Vec<(SliceId, u32)>> {
    let mut list = Vec::new();
    loop {
        list.push((SliceId(fields.u64_be()?), fields.u32_be()?));
        if fields.left() == 0 {
            return Some(list);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use zest_types::Name;

    /// Bytes written as hexadecimal digits; blanks are skipped.
    pub(in super::super) fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn owner(session: u64, owner: u64) -> LockOwner {
        LockOwner { session, owner }
    }

    fn slices() -> Key {
        Key::Chunk(Ino(2), 0)
    }

    fn vectors() -> Vec<(Key, Record, &'static str)> {
        let entry = Key::Dentry(Ino::ROOT, Name::new(b"n").unwrap());
        let zeros = |pos, len| Record::Slices(vec![SliceRecord::zeros(pos, len)]);
        let read_lock = LockRange { kind: 0, pid: 42, start: 0, end: 99 };
        vec![
            (entry.clone(), Record::Dentry { kind: FileType::File, ino: Ino(2) }, "010000000000000002"),
            (entry, Record::Dentry { kind: FileType::Directory, ino: Ino(300) }, "02000000000000012c"),
            (slices(), zeros(100, 67_108_764), "000000640000000000000000000000000000000003ffff9c"),
            (slices(), zeros(0, 67_108_864), "000000000000000000000000000000000000000004000000"),
            (
                slices(),
                Record::Slices(vec![SliceRecord::whole(4096, SliceId(77), 65536)]),
                "00001000000000000000004d000100000000000000010000",
            ),
            (
                Key::DelayedSlices { stamp: 1, id: SliceId(2) },
                Record::SliceList(vec![(SliceId(10), 65536), (SliceId(11), 4096)]),
                "000000000000000a00010000000000000000000b00001000",
            ),
            (
                Key::DirQuota(Ino(5)),
                Record::Quota { max_space: 1 << 30, max_inodes: -1, used_space: 8192, used_inodes: 2 },
                "0000000040000000ffffffffffffffff00000000000020000000000000000002",
            ),
            (
                Key::DirStat(Ino(5)),
                Record::DirStat { length: 5000, space: 8192, inodes: 1 },
                "000000000000138800000000000020000000000000000001",
            ),
            (Key::Counter(Counter::UsedSpace), Record::Count(12288), "0030000000000000"),
            (Key::Counter(Counter::NextInode), Record::Count(1025), "0104000000000000"),
            (Key::Parent { ino: Ino(7), parent: Ino(1) }, Record::Count(-1), "ffffffffffffffff"),
            (Key::Counter(Counter::LastCleanupFiles), Record::Stamp(1_700_000_000), "000000006553f100"),
            (
                Key::Flocks(Ino(7)),
                Record::Flocks(vec![FlockEntry { owner: owner(3, 0xABC), write: true }]),
                "00000000000000030000000000000abc57",
            ),
            (
                Key::RangeLocks(Ino(7)),
                Record::RangeLocks(vec![(owner(3, 1), vec![read_lock])]),
                "0000000000000003000000000000000100000018\
                 000000000000002a00000000000000000000000000000063",
            ),
            (
                Key::RangeLocks(Ino(7)),
                Record::RangeLocks(vec![(
                    owner(0, 0),
                    vec![LockRange { kind: 1, pid: 4242, start: 0, end: i64::MAX as u64 }],
                )]),
                "0000000000000000000000000000000000000018\
                 000000010000109200000000000000007fffffffffffffff",
            ),
            (Key::Sustained { session: 3, ino: Ino(7) }, Record::Mark, "01"),
        ]
    }

    #[test]
    fn values_are_those_of_the_format() {
        for (key, record, hex) in vectors() {
            assert_eq!(encode_record(&key, &record).unwrap(), unhex(hex), "{key:?}");
            assert_eq!(decode_record(&key, &unhex(hex)), Ok(record));
        }
    }

    #[test]
    fn values_of_other_lengths_are_refused() {
        for (key, record, hex) in vectors() {
            let bytes = unhex(hex);
            let shorter = decode_record(&key, &bytes[..bytes.len() - 1]);
            let longer = decode_record(&key, &[&bytes[..], b"\0"].concat());
            if record == Record::Mark {
                assert_eq!((shorter, longer), (Ok(Record::Mark), Ok(Record::Mark)));
            } else {
                assert!(matches!(shorter, Err(CodecError::Value { .. })), "{key:?}");
                assert!(matches!(longer, Err(CodecError::Value { .. })), "{key:?}");
            }
        }
    }

    #[test]
    fn zero_records_may_say_anything_about_their_slice() {
        let odd = unhex("00000000 0000000000000000 00000000 00000007 00000010");
        assert!(decode_record(&slices(), &odd).is_ok());
        let beyond_slice = unhex("00000000 0000000000000001 00000008 00000007 00000010");
        assert!(decode_record(&slices(), &beyond_slice).is_err());
        let beyond_chunk = unhex("03ffffff 0000000000000000 00000000 00000000 ffffffff");
        assert!(decode_record(&slices(), &beyond_chunk).is_err());
    }

    #[test]
    fn a_record_of_another_kind_is_not_stored() {
        let stored = encode_record(&Key::Counter(Counter::LastCleanupFiles), &Record::Count(1));
        assert!(matches!(stored, Err(CodecError::Value { .. })));
        let stored = encode_record(&Key::Attr(Ino(1)), &Record::Mark);
        assert!(matches!(stored, Err(CodecError::Value { .. })));
        let unsound = Record::Slices(vec![SliceRecord { len: 2, ..SliceRecord::whole(0, SliceId(1), 1) }]);
        assert!(encode_record(&slices(), &unsound).is_err());
    }
}
