//! Any bytes as the content of a store: every scan answers, keeps its limit, and paging finds what one long scan
//! finds. Each key and value is preceded by its length in one byte; most keys begin as those of two nodes do.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zest_engines::MemoryEngine;
use zest_engines::kv::next_scan;
use zest_metadata::{Key, Record, Scan};
use zest_types::Ino;

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first()?;
    let (taken, rest) = rest.split_at_checked(usize::from(*length))?;
    *bytes = rest;
    Some(taken)
}

/// A key: as given, or behind the beginning of a node's key that the first byte chooses.
fn key(bytes: &[u8]) -> Vec<u8> {
    let Some((choice, rest)) = bytes.split_first() else { return Vec::new() };
    if choice % 4 == 0 {
        return rest.to_vec();
    }
    let ino = u64::from(choice & 1).to_le_bytes();
    let letter = b"DDDCPX"[usize::from(choice / 4) % 6];
    [b"A", &ino[..], &[letter], rest].concat()
}

fn paged(engine: &MemoryEngine, mut scan: Scan) -> Option<Vec<(Key, Record)>> {
    let mut all = Vec::new();
    loop {
        let found = engine.scan_now(&scan).ok()?;
        assert!(found.len() <= 2);
        let next = next_scan(&scan, &found);
        all.extend(found);
        match next {
            Some(next) => scan = next,
            None => return Some(all),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes;
    let mut content = std::collections::BTreeMap::new();
    while let (Some(key), Some(value)) = (take(&mut bytes), take(&mut bytes)) {
        content.insert(self::key(key), value.to_vec());
    }
    let engine = MemoryEngine::with_content(content);
    for ino in [Ino(0), Ino(1)] {
        let entries = |limit| Scan::Dentries { dir: ino, after: None, limit };
        let chunks = |limit| Scan::Chunks { ino, from: 0, limit };
        assert_eq!(paged(&engine, entries(2)), engine.scan_now(&entries(1 << 20)).ok());
        assert_eq!(paged(&engine, chunks(2)), engine.scan_now(&chunks(1 << 20)).ok());
        let _ = (engine.scan_now(&Scan::Parents(ino)), engine.scan_now(&Scan::Xattrs(ino)));
    }
    let limit = 3;
    let others = [
        Scan::Deleted { limit },
        Scan::Sustained { limit },
        Scan::Sessions { limit },
        Scan::SliceRefs { limit },
    ];
    for scan in others {
        if let Ok(found) = engine.scan_now(&scan) {
            assert!(found.len() <= limit);
        }
    }
});
