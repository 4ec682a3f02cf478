//! The judges of a whole volume: a volume that is right is left alone, and each rule has a hand-made one that breaks it,
//! and is named.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_sim::judge::invariants::{Volume, check, check_leaks};
use zest_types::{Attr, FileType, Ino, Name, SliceId, SliceRecord, Time};

const DIR: Ino = Ino(2);
const FILE: Ino = Ino(3);
const SLICE: SliceId = SliceId(7);
const LENGTH: u64 = 5000;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn attr(kind: FileType, parent: Ino, nlink: u32) -> Attr {
    Attr { nlink, ..Attr::new(kind, 0o755, 1, 1, parent, Time::new(1, 0)) }
}

/// `/d/f`, a file of 5,000 bytes in one slice, below a quota.
fn right() -> Volume {
    let mut volume = Volume { name: "v".into(), block_size: 65_536, ..Volume::default() };
    volume.attrs.insert(Ino::ROOT, attr(FileType::Directory, Ino::ROOT, 3));
    volume.attrs.insert(DIR, attr(FileType::Directory, Ino::ROOT, 2));
    volume.attrs.insert(FILE, Attr { length: LENGTH, ..attr(FileType::File, DIR, 1) });
    volume.dentries.insert((Ino::ROOT, name("d")), (FileType::Directory, DIR));
    volume.dentries.insert((DIR, name("f")), (FileType::File, FILE));
    let record = SliceRecord { pos: 0, id: SLICE, size: 5000, off: 0, len: 5000 };
    volume.chunks.insert((FILE, 0), vec![record]);
    volume.objects.insert("v/chunks/0/0/7_0_5000".into(), LENGTH);
    volume.statistics.insert(Ino::ROOT, (0, 4096, 1));
    volume.statistics.insert(DIR, (5000, 8192, 1));
    volume.used = (4096 + 8192, 2);
    volume.quotas.insert(DIR, (8192, 1));
    let owners = [(1, (4096 + 8192, 2))].into();
    volume.owners = Some([std::collections::BTreeMap::clone(&owners), owners]);
    volume
}

fn broken(change: impl FnOnce(&mut Volume)) -> &'static str {
    let mut volume = right();
    change(&mut volume);
    check(&volume).expect_err("nobody objects").rule
}

#[test]
fn a_volume_that_is_right_is_left_alone() {
    assert_eq!(check(&right()), Ok(()));
    assert_eq!(check_leaks(&right()), Ok(()));
}

#[test]
fn every_invariant_has_a_volume_that_breaks_it() {
    assert_eq!(broken(|v| v.attrs.get_mut(&FILE).unwrap().nlink = 2), "links");
    assert_eq!(
        broken(|v| {
            v.attrs.remove(&FILE);
        }),
        "links"
    );
    assert_eq!(broken(|v| v.attrs.get_mut(&FILE).unwrap().parent = Ino::ROOT), "parents");
    assert_eq!(broken(|v| v.used.0 += 1), "usage");
    assert_eq!(broken(|v| v.statistics.get_mut(&DIR).unwrap().2 += 1), "statistics");
    assert_eq!(broken(|v| v.objects.clear()), "blocks");
    assert_eq!(
        broken(|v| {
            v.references.insert((SLICE, 5000), 1);
        }),
        "references"
    );
    assert_eq!(broken(|v| v.quotas.get_mut(&DIR).unwrap().0 -= 4096), "quotas");
    assert_eq!(broken(|v| v.owners.as_mut().unwrap()[1].get_mut(&1).unwrap().1 += 1), "owners");
}

#[test]
fn what_nobody_can_reach_is_a_leak() {
    let leaks = |change: fn(&mut Volume)| {
        let mut volume = right();
        change(&mut volume);
        check_leaks(&volume).expect_err("nobody objects").rule
    };
    assert_eq!(
        leaks(|v| {
            v.objects.insert("v/chunks/0/0/9_0_1".into(), 1);
        }),
        "leaks"
    );
    assert_eq!(
        leaks(|v| {
            v.deleted.insert(Ino(9));
        }),
        "leaks"
    );
    assert_eq!(
        leaks(|v| {
            v.sustained.insert(Ino(9));
        }),
        "leaks"
    );
    assert_eq!(
        leaks(|v| {
            v.references.insert((SliceId(9), 1), 0);
        }),
        "leaks"
    );
}
