//! What the index of a cache directory is written in: records one after the other, each with its length and checksum.
//! Where one is damaged or missing its end, nothing after it is believed.

use bincode::{Decode, Encode};

/// Bytes before each record: its length and its CRC-32C.
const HEAD: usize = 8;
/// No record is longer; what says so is damaged.
const RECORD_MAX: usize = 1 << 20;
/// How the records of this version begin.
const MAGIC: &[u8; 16] = b"ZestFS cache 1\r\n";

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// How the files are laid out; the first record, once.
    Layout {
        /// Bytes of a full block of the volume.
        block_size: u32,
        /// Bytes that have a checksum together.
        part: u32,
    },
    /// Parts of a slice that are in its file now.
    Stored {
        /// The slice.
        slice: u64,
        /// Number of the first part in the slice.
        first: u32,
        /// Checksum of each.
        sums: Vec<u32>,
        /// Bytes together.
        len: u32,
        /// When the file was used last, milliseconds of the epoch.
        used: u64,
    },
    /// A file that is gone.
    Gone {
        /// The slice.
        slice: u64,
    },
    /// The process ended in good order: the index knows every file.
    Closed,
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<RECORD_MAX>()
}

/// Appends a record as it is stored.
pub fn append(record: &Record, out: &mut Vec<u8>) {
    // Encoding into memory fails only for types this one does not have.
    let Ok(body) = bincode::encode_to_vec(record, config()) else { return };
    out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    out.extend_from_slice(&body);
}

/// How an index begins.
pub fn begin(block_size: u32, part: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    append(&Record::Layout { block_size, part }, &mut out);
    out
}

/// The records of an index with this layout, and how many bytes of it they are; `None` for anything else.
pub fn read(bytes: &[u8], block_size: u32, part: u32) -> Option<(Vec<Record>, usize)> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut records = Vec::new();
    while let Some((record, after)) = next(rest) {
        records.push(record);
        rest = after;
    }
    let layout = Record::Layout { block_size, part };
    (records.first() == Some(&layout)).then(|| (records.split_off(1), bytes.len() - rest.len()))
}

fn next(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (len, sum) = head.split_at_checked(4)?;
    let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
    let (body, rest) = rest.split_at_checked(len)?;
    if len > RECORD_MAX || crc32c::crc32c(body).to_le_bytes() != sum {
        return None;
    }
    let (record, used) = bincode::decode_from_slice(body, config()).ok()?;
    (used == len).then_some((record, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<Record> {
        vec![
            Record::Stored { slice: 7, first: 128, sums: vec![1, 2, u32::MAX], len: 70_000, used: 5 },
            Record::Gone { slice: u64::MAX },
            Record::Closed,
        ]
    }

    fn written() -> Vec<u8> {
        let mut bytes = begin(4 << 20, 32 << 10);
        sample().iter().for_each(|record| append(record, &mut bytes));
        bytes
    }

    #[test]
    fn another_layout_or_no_index_is_nothing() {
        assert_eq!(read(&written(), 4 << 20, 32 << 10), Some((sample(), written().len())));
        assert_eq!(read(&written(), 1 << 20, 32 << 10), None);
        assert_eq!(read(&written(), 4 << 20, 4096), None);
        assert_eq!(read(b"", 1, 1), None);
        assert_eq!(read(MAGIC, 1, 1), None);
    }

    proptest! {
        #[test]
        fn what_is_cut_is_a_beginning(cut in any::<prop::sample::Index>()) {
            let bytes = written();
            let cut = cut.index(bytes.len());
            if let Some((records, used)) = read(&bytes[..cut], 4 << 20, 32 << 10) {
                prop_assert!(used <= cut && sample().starts_with(&records) && records.len() < 3);
            }
        }

        #[test]
        fn what_is_damaged_is_not_believed(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = written();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Some((records, _)) = read(&bytes, 4 << 20, 32 << 10) {
                prop_assert!(sample().starts_with(&records) && records.len() < 3);
            }
        }

        #[test]
        fn garbage_is_read_without_harm(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = begin(1 << 16, 1 << 15);
            let whole = bytes.len();
            bytes.extend_from_slice(&tail);
            let read = read(&bytes, 1 << 16, 1 << 15);
            prop_assert!(read.is_some_and(|(_, used)| used >= whole));
        }
    }
}
