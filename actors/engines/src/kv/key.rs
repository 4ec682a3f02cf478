//! Logical keys to key bytes and back. Inodes stand in keys with the least significant byte first, all other
//! numbers with the most significant first. Source: volume format, KV engines, keys. Knows no values.

use super::CodecError;
use super::fields::Fields;
use zest_metadata::{Counter, Key};
use zest_types::{Ino, Name, SliceId};

const COUNTERS: [Counter; 11] = [
    Counter::NextInode,
    Counter::NextSlice,
    Counter::NextSession,
    Counter::NextTrash,
    Counter::UsedSpace,
    Counter::TotalInodes,
    Counter::AclMaxId,
    Counter::LastCleanupSessions,
    Counter::LastCleanupFiles,
    Counter::LastCleanupTrash,
    Counter::NextCleanupSlices,
];

/// The format's name of a counter.
pub(crate) fn counter_name(counter: Counter) -> &'static str {
    match counter {
        Counter::NextInode => "nextInode",
        Counter::NextSlice => "nextChunk",
        Counter::NextSession => "nextSession",
        Counter::NextTrash => "nextTrash",
        Counter::UsedSpace => "usedSpace",
        Counter::TotalInodes => "totalInodes",
        Counter::AclMaxId => "aclMaxId",
        Counter::LastCleanupSessions => "lastCleanupSessions",
        Counter::LastCleanupFiles => "lastCleanupFiles",
        Counter::LastCleanupTrash => "lastCleanupTrash",
        Counter::NextCleanupSlices => "nextCleanupSlices",
    }
}

/// A key under construction.
pub(super) struct Builder(Vec<u8>);

impl Builder {
    pub(super) fn new(prefix: &[u8]) -> Builder {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend_from_slice(prefix);
        Builder(bytes)
    }

    /// The prefix of everything that belongs to a node: `A`, the inode, one letter.
    pub(super) fn node(ino: Ino, letter: u8) -> Builder {
        Builder::new(b"A").ino(ino).raw(&[letter])
    }

    pub(super) fn ino(self, ino: Ino) -> Builder {
        self.raw(&ino.0.to_le_bytes())
    }

    pub(super) fn u32(self, n: u32) -> Builder {
        self.raw(&n.to_be_bytes())
    }

    fn u64(self, n: u64) -> Builder {
        self.raw(&n.to_be_bytes())
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Builder {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// The bytes of a key, without any prefix of a store.
#[must_use]
pub fn encode_key(key: &Key) -> Vec<u8> {
    let new = Builder::new;
    match key {
        Key::Setting => new(b"setting"),
        Key::Counter(counter) => new(b"C").raw(counter_name(*counter).as_bytes()),
        Key::Attr(ino) => Builder::node(*ino, b'I'),
        Key::Dentry(dir, name) => Builder::node(*dir, b'D').raw(name.as_bytes()),
        Key::Parent { ino, parent } => Builder::node(*ino, b'P').ino(*parent),
        Key::Chunk(ino, index) => Builder::node(*ino, b'C').u32(*index),
        Key::Symlink(ino) => Builder::node(*ino, b'S'),
        Key::Xattr(ino, name) => Builder::node(*ino, b'X').raw(name.as_bytes()),
        Key::Flocks(ino) => new(b"F").ino(*ino),
        Key::RangeLocks(ino) => new(b"P").ino(*ino),
        Key::Deleted { ino, length } => new(b"D").ino(*ino).u64(*length),
        Key::SliceRef { id, size } => new(b"K").u64(id.0).u32(*size),
        Key::DelayedSlices { stamp, id } => new(b"L").raw(&stamp.to_be_bytes()).u64(id.0),
        Key::SessionExpiry(session) => new(b"SE").u64(*session),
        Key::SessionInfo(session) => new(b"SI").u64(*session),
        Key::Sustained { session, ino } => new(b"SS").u64(*session).ino(*ino),
        Key::DirStat(ino) => new(b"U").ino(*ino),
        Key::Detached(ino) => new(b"N").ino(*ino),
        Key::DirQuota(ino) => new(b"QD").ino(*ino),
        Key::UserQuota(uid) => new(b"QU").u64(u64::from(*uid)),
        Key::GroupQuota(gid) => new(b"QG").u64(u64::from(*gid)),
        Key::AclRule(id) => new(b"R").u32(*id),
    }
    .done()
}

/// The key behind key bytes, without any prefix of a store.
pub fn decode_key(bytes: &[u8]) -> Result<Key, CodecError> {
    parse(bytes).ok_or_else(|| CodecError::unknown(bytes))
}

fn parse(bytes: &[u8]) -> Option<Key> {
    if bytes == b"setting" {
        return Some(Key::Setting);
    }
    let mut fields = Fields(bytes);
    let key = match fields.u8()? {
        b'A' => return parse_node(fields),
        b'C' => return parse_counter(fields.rest()),
        b'S' => parse_session(&mut fields)?,
        b'Q' => parse_quota(&mut fields)?,
        b'F' => Key::Flocks(ino(&mut fields)?),
        b'P' => Key::RangeLocks(ino(&mut fields)?),
        b'D' => Key::Deleted { ino: ino(&mut fields)?, length: fields.u64_be()? },
        b'K' => Key::SliceRef { id: SliceId(fields.u64_be()?), size: fields.u32_be()? },
        b'L' => Key::DelayedSlices { stamp: fields.i64_be()?, id: SliceId(fields.u64_be()?) },
        b'U' => Key::DirStat(ino(&mut fields)?),
        b'N' => Key::Detached(ino(&mut fields)?),
        b'R' => Key::AclRule(fields.u32_be()?),
        _ => return None,
    };
    fields.end()?;
    Some(key)
}

fn ino(fields: &mut Fields<'_>) -> Option<Ino> {
    fields.u64_le().map(Ino)
}

fn parse_node(mut fields: Fields<'_>) -> Option<Key> {
    let node = ino(&mut fields)?;
    let key = match fields.u8()? {
        b'D' => return Some(Key::Dentry(node, Name::new(fields.rest()).ok()?)),
        b'X' => return Some(Key::Xattr(node, Name::attribute(fields.rest()).ok()?)),
        b'I' => Key::Attr(node),
        b'S' => Key::Symlink(node),
        b'P' => Key::Parent { ino: node, parent: ino(&mut fields)? },
        b'C' => Key::Chunk(node, fields.u32_be()?),
        _ => return None,
    };
    fields.end()?;
    Some(key)
}

fn parse_counter(name: &[u8]) -> Option<Key> {
    COUNTERS.into_iter().find(|counter| counter_name(*counter).as_bytes() == name).map(Key::Counter)
}

fn parse_session(fields: &mut Fields<'_>) -> Option<Key> {
    Some(match fields.u8()? {
        b'E' => Key::SessionExpiry(fields.u64_be()?),
        b'I' => Key::SessionInfo(fields.u64_be()?),
        b'S' => Key::Sustained { session: fields.u64_be()?, ino: ino(fields)? },
        _ => return None,
    })
}

fn parse_quota(fields: &mut Fields<'_>) -> Option<Key> {
    Some(match fields.u8()? {
        b'D' => Key::DirQuota(ino(fields)?),
        b'U' => Key::UserQuota(u32::try_from(fields.u64_be()?).ok()?),
        b'G' => Key::GroupQuota(u32::try_from(fields.u64_be()?).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::unhex;
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn keys_are_those_of_the_format() {
        let known = [
            (Key::Setting, "73657474696e67"),
            (Key::Attr(Ino(2)), "41 0200000000000000 49"),
            (Key::Dentry(Ino::ROOT, name("foo")), "41 0100000000000000 44 666f6f"),
            (Key::Chunk(Ino(2), 1), "41 0200000000000000 43 00000001"),
            (Key::Deleted { ino: Ino(2), length: 5000 }, "44 0200000000000000 0000000000001388"),
            (Key::SliceRef { id: SliceId(77), size: 65536 }, "4b 000000000000004d 00010000"),
            (Key::DirQuota(Ino(5)), "51440500000000000000"),
            (Key::UserQuota(1000), "515500000000000003e8"),
            (Key::GroupQuota(1000), "514700000000000003e8"),
            (Key::DirStat(Ino(5)), "550500000000000000"),
            (Key::Sustained { session: 3, ino: Ino(7) }, "535300000000000000030700000000000000"),
            (
                Key::DelayedSlices { stamp: 1_700_000_000, id: SliceId(12) },
                "4c000000006553f100000000000000000c",
            ),
            (Key::Parent { ino: Ino(7), parent: Ino::ROOT }, "410700000000000000500100000000000000"),
            (Key::Flocks(Ino(7)), "46 0700000000000000"),
            (Key::RangeLocks(Ino(7)), "50 0700000000000000"),
            (Key::SessionExpiry(3), "5345 0000000000000003"),
            (Key::SessionInfo(3), "5349 0000000000000003"),
            (Key::Detached(Ino(9)), "4e 0900000000000000"),
            (Key::AclRule(3), "52 00000003"),
            (Key::Counter(Counter::NextSlice), "436e6578744368756e6b"),
        ];
        for (key, hex) in known {
            let bytes = unhex(hex);
            assert_eq!(encode_key(&key), bytes, "{key:?}");
            assert_eq!(decode_key(&bytes), Ok(key));
        }
    }

    #[test]
    fn lengths_tell_records_apart() {
        let lengths = [
            (Key::Chunk(Ino(1), 0), 14),
            (Key::Parent { ino: Ino(1), parent: Ino(1) }, 18),
            (Key::Deleted { ino: Ino(1), length: 0 }, 17),
            (Key::SliceRef { id: SliceId(1), size: 1 }, 13),
            (Key::DelayedSlices { stamp: 0, id: SliceId(1) }, 17),
            (Key::DirStat(Ino(1)), 9),
            (Key::Detached(Ino(1)), 9),
            (Key::DirQuota(Ino(1)), 10),
        ];
        for (key, length) in lengths {
            assert_eq!(encode_key(&key).len(), length, "{key:?}");
        }
    }

    #[test]
    fn every_counter_is_found_by_its_name() {
        for counter in COUNTERS {
            let bytes = encode_key(&Key::Counter(counter));
            assert_eq!(decode_key(&bytes), Ok(Key::Counter(counter)));
        }
    }

    #[test]
    fn other_bytes_are_no_keys() {
        let others: [&[u8]; 10] = [
            b"",
            b"settings",
            b"A",
            b"Cunknown",
            b"XKD\0\0\0\x01",
            b"SH\0\0\0\0\0\0\0\x01",
            b"A\x01\0\0\0\0\0\0\0D",
            b"A\x01\0\0\0\0\0\0\0Da/b",
            b"A\x01\0\0\0\0\0\0\0II",
            b"QU\x01\0\0\0\0\0\0\0",
        ];
        for bytes in others {
            assert!(matches!(decode_key(bytes), Err(CodecError::UnknownKey(_))), "{bytes:?}");
        }
    }
}
