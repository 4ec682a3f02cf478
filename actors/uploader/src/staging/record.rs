//! What a record of the staging journal looks like: a head of fixed size, checked by itself, and behind it the
//! object's bytes, checked by a sum in the head. A head knows where it stands, so that bytes of a journal that were
//! written as somebody's data are never taken for records.

use zest_data::BlockId;
use zest_data::checksum::crc32c;
use zest_types::{Ino, SliceId};

/// Bytes of a head. Every record begins at a multiple of it.
pub const HEAD: u64 = 128;
const MAGIC: [u8; 4] = *b"ZST1";
/// Bytes of a head that its sum covers.
const CHECKED: usize = 84;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A segment begins; the volume's UUID follows.
    Segment,
    /// A block waits; its object's bytes follow.
    Block,
    /// A block needs to go nowhere any more.
    Gone,
    /// Nothing: what stood here was torn.
    Void,
    /// Only tells what is synced.
    Mark,
}

const KINDS: [Kind; 5] = [Kind::Segment, Kind::Block, Kind::Gone, Kind::Void, Kind::Mark];

/// A record without the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it says.
    pub kind: Kind,
    /// A number the whole segment shares, and no other.
    pub nonce: u64,
    /// Where in the segment it stands.
    pub offset: u64,
    /// Bytes of the segment that were synced when it was written.
    pub synced: u64,
    /// The file.
    pub ino: Ino,
    /// The block; of a segment, its number.
    pub block: BlockId,
    /// Bytes of the plain block.
    pub plain: u32,
    /// Bytes behind the head.
    pub stored: u32,
    /// CRC-32C of them.
    pub sum: u32,
    /// When the block was staged, unix seconds.
    pub at: i64,
}

impl Head {
    /// A record that is nothing but its kind.
    #[must_use]
    pub fn bare(kind: Kind, nonce: u64, offset: u64, synced: u64) -> Head {
        let (ino, block) = (Ino(0), BlockId::default());
        Head { kind, nonce, offset, synced, ino, block, plain: 0, stored: 0, sum: 0, at: 0 }
    }

    /// Bytes from this record to the next.
    #[must_use]
    pub fn span(&self) -> u64 {
        HEAD + padded(u64::from(self.stored))
    }

    /// The head's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD as usize] {
        let mut out = Vec::with_capacity(HEAD as usize);
        out.extend_from_slice(&MAGIC);
        let kind = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        out.extend_from_slice(&(kind as u32).to_le_bytes());
        for word in [self.nonce, self.offset, self.synced, self.ino.0, self.block.slice.0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.block.index, self.plain, self.stored, self.sum] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.at.to_le_bytes());
        out.resize(CHECKED, 0);
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        out.resize(HEAD as usize, 0);
        let mut head = [0; HEAD as usize];
        head.copy_from_slice(&out);
        head
    }

    /// The head in these bytes, if there is one and it belongs here. `nonce` is unknown for the first one.
    #[must_use]
    pub fn decode(bytes: &[u8], nonce: Option<u64>, offset: u64) -> Option<Head> {
        let (checked, rest) = bytes.split_at_checked(CHECKED)?;
        let sum = u32::from_le_bytes(rest.first_chunk().copied()?);
        let mut from = Reader(checked);
        if sum != crc32c(checked) || from.take::<4>()? != MAGIC {
            return None;
        }
        let kind = *KINDS.get(usize::try_from(from.u32()?).ok()?)?;
        let head = Head {
            kind,
            nonce: from.u64()?,
            offset: from.u64()?,
            synced: from.u64()?,
            ino: Ino(from.u64()?),
            block: BlockId { slice: SliceId(from.u64()?), index: from.u32()? },
            plain: from.u32()?,
            stored: from.u32()?,
            sum: from.u32()?,
            at: from.u64()?.cast_signed(),
        };
        (head.offset == offset && nonce.is_none_or(|nonce| nonce == head.nonce)).then_some(head)
    }
}

/// Bytes that so many bytes take up behind a head.
#[must_use]
pub fn padded(len: u64) -> u64 {
    len.div_ceil(HEAD) * HEAD
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (now, later) = self.0.split_first_chunk()?;
        self.0 = later;
        Some(*now)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_come_back_and_nothing_else_is_one(
            kind in 0usize..5, words in any::<[u64; 5]>(), small in any::<[u32; 4]>(), at: i64, bit in 0usize..CHECKED * 8 + 32,
        ) {
            let head = Head {
                kind: KINDS[kind], nonce: words[0], offset: words[1], synced: words[2], ino: Ino(words[3]),
                block: BlockId { slice: SliceId(words[4]), index: small[0] },
                plain: small[1], stored: small[2], sum: small[3], at,
            };
            let mut bytes = head.encode();
            prop_assert_eq!(Head::decode(&bytes, None, head.offset), Some(head));
            prop_assert_eq!(Head::decode(&bytes, Some(head.nonce), head.offset), Some(head));
            prop_assert_eq!(Head::decode(&bytes, Some(!head.nonce), head.offset), None);
            prop_assert_eq!(Head::decode(&bytes, None, !head.offset), None);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Head::decode(&bytes, None, head.offset), None);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Head::decode(&bytes, None, 0), None);
        }
    }

    #[test]
    fn records_begin_at_multiples() {
        assert_eq!((padded(0), padded(1), padded(128), padded(129)), (0, 128, 128, 256));
        let head = Head { stored: 4096, ..Head::bare(Kind::Block, 1, 0, 0) };
        assert_eq!(head.span(), 4224);
    }
}
