//! Where in the order of key bytes the records of a scan lie, and how a scan goes on behind what it found. Inodes
//! in keys are not in the order of their numbers, so a store cuts such scans somewhere, but always at the same
//! place.

use super::key::Builder;
use zest_metadata::{Key, Record, Scan};

/// Key bytes from `start` on, below `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may be in the range.
    pub start: Vec<u8>,
    /// The first key behind the range.
    pub end: Vec<u8>,
}

impl KeyRange {
    fn of_prefix(prefix: Vec<u8>) -> KeyRange {
        let mut end = prefix.clone();
        // The first key behind all with this prefix: the last byte plus one, with carry. A prefix begins with a
        // letter, so the carry never runs out.
        while let Some(last) = end.pop() {
            if let Some(next) = last.checked_add(1) {
                end.push(next);
                break;
            }
        }
        KeyRange { start: prefix, end }
    }
}

/// The range of a scan. It may hold keys of other lengths, which are no records of the scan.
#[must_use]
pub fn scan_range(scan: &Scan) -> KeyRange {
    let of = |prefix: &[u8]| KeyRange::of_prefix(prefix.to_vec());
    match scan {
        Scan::Dentries { dir, after, .. } => {
            let mut range = KeyRange::of_prefix(Builder::node(*dir, b'D').done());
            if let Some(name) = after {
                // No name has a NUL, so a name and a NUL is the first key behind the name.
                range.start.extend_from_slice(name.as_bytes());
                range.start.push(0);
            }
            range
        }
        Scan::Parents(ino) => KeyRange::of_prefix(Builder::node(*ino, b'P').done()),
        Scan::Xattrs(ino) => KeyRange::of_prefix(Builder::node(*ino, b'X').done()),
        Scan::Chunks { ino, from, .. } => {
            let mut range = KeyRange::of_prefix(Builder::node(*ino, b'C').done());
            range.start.extend_from_slice(&from.to_be_bytes());
            range
        }
        Scan::Deleted { .. } => of(b"D"),
        Scan::Sustained { .. } => of(b"SS"),
        Scan::Sessions { .. } => of(b"SE"),
        Scan::SliceRefs { .. } => of(b"K"),
        Scan::DirQuotas { .. } => of(b"QD"),
        Scan::UserQuotas { .. } => of(b"QU"),
        Scan::GroupQuotas { .. } => of(b"QG"),
        Scan::Delayed { .. } => of(b"L"),
        Scan::Detached { .. } => of(b"N"),
        Scan::Flocks { .. } => of(b"F"),
        Scan::RangeLocks { .. } => of(b"P"),
    }
}

/// How many records a scan wants at most.
#[must_use]
pub fn limit_of(scan: &Scan) -> usize {
    match scan {
        Scan::Parents(_) | Scan::Xattrs(_) | Scan::Flocks { .. } | Scan::RangeLocks { .. } => usize::MAX,
        Scan::Dentries { limit, .. }
        | Scan::Chunks { limit, .. }
        | Scan::Deleted { limit }
        | Scan::Sustained { limit }
        | Scan::Sessions { limit }
        | Scan::SliceRefs { limit }
        | Scan::DirQuotas { limit }
        | Scan::UserQuotas { limit }
        | Scan::GroupQuotas { limit }
        | Scan::Delayed { limit }
        | Scan::Detached { limit } => *limit,
    }
}

/// Whether a key in the range of a scan has the length of the scan's records.
pub(super) fn has_length(scan: &Scan, key: &[u8]) -> bool {
    match scan {
        Scan::Dentries { .. } | Scan::Xattrs(_) => key.len() > 10,
        Scan::Parents(_) | Scan::Sustained { .. } => key.len() == 18,
        Scan::Chunks { .. } => key.len() == 14,
        Scan::Deleted { .. } | Scan::Delayed { .. } => key.len() == 17,
        Scan::Sessions { .. }
        | Scan::DirQuotas { .. }
        | Scan::UserQuotas { .. }
        | Scan::GroupQuotas { .. } => key.len() == 10,
        Scan::Detached { .. } | Scan::Flocks { .. } | Scan::RangeLocks { .. } => key.len() == 9,
        Scan::SliceRefs { .. } => key.len() == 13,
    }
}

/// The scan that goes on behind what was found; `None` when there is nothing behind it, or when the scan has no
/// place to go on from (its records are worked off and removed, then the same scan finds the next ones).
#[must_use]
pub fn next_scan(scan: &Scan, found: &[(Key, Record)]) -> Option<Scan> {
    if found.len() < limit_of(scan) {
        return None;
    }
    match (scan, &found.last()?.0) {
        (Scan::Dentries { dir, limit, .. }, Key::Dentry(_, name)) => {
            Some(Scan::Dentries { dir: *dir, after: Some(name.clone()), limit: *limit })
        }
        (Scan::Chunks { ino, limit, .. }, Key::Chunk(_, index)) => {
            Some(Scan::Chunks { ino: *ino, from: index.checked_add(1)?, limit: *limit })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode_key;
    use super::*;
    use zest_types::{FileType, Ino, Name, SliceId};

    fn holds(scan: &Scan, key: &Key) -> bool {
        let (range, bytes) = (scan_range(scan), encode_key(key));
        range.start <= bytes && bytes < range.end && has_length(scan, &bytes)
    }

    fn name(text: &[u8]) -> Name {
        Name::new(text).unwrap()
    }

    fn entries(dir: u64, after: Option<&[u8]>) -> Scan {
        Scan::Dentries { dir: Ino(dir), after: after.map(name), limit: 2 }
    }

    #[test]
    fn entries_lie_behind_the_name_asked_for() {
        let entry = |text| Key::Dentry(Ino(1), name(text));
        assert!(holds(&entries(1, None), &entry(b"\x01")) && holds(&entries(1, None), &entry(&[0xFF; 255])));
        assert!(
            !holds(&entries(1, Some(b"b")), &entry(b"b")) && !holds(&entries(1, Some(b"b")), &entry(b"a"))
        );
        assert!(
            holds(&entries(1, Some(b"b")), &entry(b"b\x01")) && holds(&entries(1, Some(b"b")), &entry(b"c"))
        );
        assert!(!holds(&entries(2, None), &entry(b"a")));
        assert!(!holds(&entries(1, None), &Key::Symlink(Ino(1))));
    }

    #[test]
    fn each_scan_holds_its_records_and_no_others() {
        let full = Ino(u64::MAX);
        let keys = [
            Key::Parent { ino: full, parent: full },
            Key::Xattr(full, name(b"user.x")),
            Key::Chunk(full, u32::MAX),
            Key::Deleted { ino: full, length: u64::MAX },
            Key::Sustained { session: u64::MAX, ino: full },
            Key::SessionExpiry(u64::MAX),
            Key::SliceRef { id: SliceId(u64::MAX), size: u32::MAX },
            Key::DirQuota(full),
            Key::DelayedSlices { stamp: i64::MAX, id: SliceId(u64::MAX) },
            Key::Detached(full),
            Key::Flocks(full),
            Key::RangeLocks(full),
            Key::UserQuota(u32::MAX),
            Key::GroupQuota(u32::MAX),
            Key::Attr(full),
            Key::SessionInfo(1),
            Key::DirStat(full),
        ];
        let limit = 1;
        let scans = [
            Scan::Parents(full),
            Scan::Xattrs(full),
            Scan::Chunks { ino: full, from: 7, limit },
            Scan::Deleted { limit },
            Scan::Sustained { limit },
            Scan::Sessions { limit },
            Scan::SliceRefs { limit },
            Scan::DirQuotas { limit },
            Scan::Delayed { limit },
            Scan::Detached { limit },
            Scan::Flocks { session: 3 },
            Scan::RangeLocks { session: 3 },
            Scan::UserQuotas { limit },
            Scan::GroupQuotas { limit },
        ];
        for (at, scan) in scans.iter().enumerate() {
            let held: Vec<usize> = (0..keys.len()).filter(|k| holds(scan, &keys[*k])).collect();
            assert_eq!(held, [at], "{scan:?}");
        }
        assert!(!holds(&scans[2], &Key::Chunk(full, 6)) && holds(&scans[2], &Key::Chunk(full, 7)));
    }

    #[test]
    fn a_scan_goes_on_only_when_it_was_cut() {
        let found = |text: &[u8]| {
            (Key::Dentry(Ino(1), name(text)), Record::Dentry { kind: FileType::File, ino: Ino(2) })
        };
        assert_eq!(next_scan(&entries(1, None), &[found(b"a")]), None);
        assert_eq!(next_scan(&entries(1, None), &[found(b"a"), found(b"b")]), Some(entries(1, Some(b"b"))));
        let chunks = |from| Scan::Chunks { ino: Ino(1), from, limit: 1 };
        let chunk = |index| (Key::Chunk(Ino(1), index), Record::Slices(Vec::new()));
        assert_eq!(next_scan(&chunks(0), &[chunk(3)]), Some(chunks(4)));
        assert_eq!(next_scan(&chunks(0), &[chunk(u32::MAX)]), None);
        assert_eq!(next_scan(&Scan::Parents(Ino(1)), &[]), None);
    }
}
