//! Usage of quotas against a count: what is counted, what is off, and what is put right and what is not.

use super::rig::{NOW, Rig, run};
use parking_lot::Mutex;
use std::sync::Arc;
use zest_metadata::{Applied, ChangeSet, CommitError, Engine, EngineError, Key, Record, Scan, Write};
use zest_types::{Attr, FileType, Ino, Name, Time};
use zest_upkeep::quota::{self, Found, Which};
use zest_upkeep::reclaim::overdue;
use zest_upkeep::whole::Whole;

/// `/d` (node 2) with `e/` and `e/f`, a hard link of it, and `g`, which user 7 owns.
fn rig() -> Rig {
    let rig = Rig::new(0);
    rig.node(1, "d", 2, FileType::Directory, 0);
    rig.node(2, "e", 3, FileType::Directory, 0);
    rig.node(3, "f", 4, FileType::File, 5000);
    rig.node(2, "g", 5, FileType::File, 1);
    let Some(Record::Attr(mut attr)) = rig.get(&Key::Attr(Ino(5))) else { panic!("no g") };
    (attr.uid, attr.gid) = (7, 8);
    rig.put(Key::Attr(Ino(5)), Record::Attr(attr));
    let Some(Record::Attr(mut attr)) = rig.get(&Key::Attr(Ino(4))) else { panic!("no f") };
    (attr.parent, attr.nlink) = (Ino(0), 2);
    rig.put(Key::Attr(Ino(4)), Record::Attr(attr));
    let name = Name::new(b"h").unwrap();
    rig.put(Key::Dentry(Ino(2), name), Record::Dentry { kind: FileType::File, ino: Ino(4) });
    rig
}

fn set(rig: &Rig, key: Key, used_space: i64, used_inodes: i64) {
    rig.put(key, Record::Quota { max_space: 1 << 30, max_inodes: -1, used_space, used_inodes });
}

fn used(rig: &Rig, key: &Key) -> Option<(i64, i64)> {
    match rig.get(key) {
        Some(Record::Quota { used_space, used_inodes, .. }) => Some((used_space, used_inodes)),
        _ => None,
    }
}

const DIR: Key = Key::DirQuota(Ino(2));

#[test]
fn each_name_counts_below_a_directory_and_each_node_for_its_owner() {
    let rig = rig();
    // e, f, h (the same node), g.
    assert_eq!(run(quota::below(&rig.whole, Ino(2))).unwrap(), (4096 + 2 * 8192 + 4096, 4));
    let owned = run(quota::owned(&rig.whole)).unwrap();
    assert_eq!(owned[&Key::UserQuota(0)], (2 * 4096 + 8192, 3));
    assert_eq!((owned[&Key::UserQuota(7)], owned[&Key::GroupQuota(8)]), ((4096, 1), (4096, 1)));
    // Removed and still open: it has no name and costs its owner.
    let mut attr = Attr::new(FileType::File, 0o600, 7, 8, Ino(2), Time::new(NOW, 0));
    (attr.nlink, attr.length) = (0, 5000);
    rig.put(Key::Attr(Ino(9)), Record::Attr(attr));
    rig.put(Key::Sustained { session: 3, ino: Ino(9) }, Record::Mark);
    // A copy in the making costs, too, with what is in it.
    let attr = Attr::new(FileType::Directory, 0o700, 7, 8, Ino(0), Time::new(NOW, 0));
    rig.put(Key::Attr(Ino(20)), Record::Attr(attr));
    rig.put(Key::Detached(Ino(20)), Record::Stamp(NOW));
    let owned = run(quota::owned(&rig.whole)).unwrap();
    assert_eq!(owned[&Key::UserQuota(7)], (4096 + 8192 + 4096, 3));
}

#[test]
fn what_is_off_is_told_and_only_put_right_when_asked() {
    let rig = rig();
    let real = (4096 + 2 * 8192 + 4096, 4);
    set(&rig, DIR, 5, 4);
    let which = Which::Directories;
    assert_eq!(run(quota::check(&rig.whole, &which, false)).unwrap()[&DIR], Found::Off(real));
    assert_eq!(used(&rig, &DIR), Some((5, 4)));
    assert_eq!(run(quota::check(&rig.whole, &which, true)).unwrap()[&DIR], Found::Repaired(real));
    assert_eq!(used(&rig, &DIR), Some(real));
    assert_eq!(run(quota::check(&rig.whole, &which, false)).unwrap()[&DIR], Found::Right);
    // Limits stay, and a user that was never counted is made.
    assert!(matches!(rig.get(&DIR), Some(Record::Quota { max_space, .. }) if max_space == 1 << 30));
    let found = run(quota::check(&rig.whole, &Which::Owners, true)).unwrap();
    assert_eq!(found[&Key::UserQuota(7)], Found::Repaired((4096, 1)));
    assert_eq!(used(&rig, &Key::GroupQuota(8)), Some((4096, 1)));
}

#[test]
fn a_new_quota_is_counted_and_an_old_one_keeps_its_usage() {
    let rig = rig();
    run(quota::set(&rig.whole, &DIR, Some(100), None)).unwrap();
    assert_eq!(used(&rig, &DIR), Some((4096 + 2 * 8192 + 4096, 4)));
    set(&rig, DIR, 5, 5);
    run(quota::set(&rig.whole, &DIR, None, Some(9))).unwrap();
    let expected = Record::Quota { max_space: 1 << 30, max_inodes: 9, used_space: 5, used_inodes: 5 };
    assert_eq!(rig.get(&DIR), Some(expected));
    run(quota::drop(&rig.whole, &DIR)).unwrap();
    assert_eq!(rig.get(&DIR), None);
}

#[test]
fn the_first_count_forgets_what_is_left_from_before() {
    let rig = rig();
    let nothing = Record::Quota { max_space: -1, max_inodes: -1, used_space: 5, used_inodes: 5 };
    rig.put(Key::UserQuota(99), nothing);
    set(&rig, Key::UserQuota(7), 5, 5);
    let found = run(quota::begin_owners(&rig.whole)).unwrap();
    assert_eq!(rig.get(&Key::UserQuota(99)), None);
    assert_eq!(found[&Key::UserQuota(7)], Found::Repaired((4096, 1)));
    assert!(
        matches!(rig.get(&Key::UserQuota(7)), Some(Record::Quota { max_space, .. }) if max_space == 1 << 30)
    );
    // Statistics that nobody kept meanwhile.
    let stale = Record::DirStat { length: 1, space: 2, inodes: 3 };
    rig.put(Key::DirStat(Ino(3)), stale);
    rig.remove(Key::DirStat(Ino(2)));
    run(quota::begin_statistics(&rig.whole)).unwrap();
    assert_eq!(
        rig.get(&Key::DirStat(Ino(3))),
        Some(Record::DirStat { length: 5000, space: 8192, inodes: 1 })
    );
    let right = Record::DirStat { length: 5001, space: 4096 + 8192 + 4096, inodes: 3 };
    assert_eq!(rig.get(&Key::DirStat(Ino(2))), Some(right));
}

/// A store in which somebody moves a usage between two looks at it.
struct Busy {
    inner: Arc<dyn Engine>,
    /// How often still.
    moves: Mutex<u32>,
}

#[async_trait::async_trait]
impl Engine for Busy {
    async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
        self.inner.read(keys).await
    }

    async fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        let moves = matches!(scan, Scan::DirQuotas { .. }) && {
            let mut moves = self.moves.lock();
            *moves = moves.saturating_sub(1);
            *moves > 0
        };
        let found = self.inner.scan(scan).await?;
        if moves {
            let write = vec![Write::AddQuota { quota: DIR, space: 1, inodes: 1 }];
            self.inner.commit(&ChangeSet { expect: Vec::new(), write }).await.unwrap();
        }
        Ok(found)
    }

    async fn commit(&self, changes: &ChangeSet) -> Result<Applied, CommitError> {
        self.inner.commit(changes).await
    }

    async fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn exclusive(&self) -> bool {
        false
    }
}

#[test]
fn what_moves_while_it_is_counted_is_neither_off_nor_put_right() {
    let rig = rig();
    let busy = |moves| {
        let inner = Arc::clone(&rig.whole.engine);
        Whole { engine: Arc::new(Busy { inner, moves: Mutex::new(moves) }), ..rig.whole.clone() }
    };
    set(&rig, DIR, 0, 0);
    let found = run(quota::check(&busy(1000), &Which::Directories, true)).unwrap();
    assert_eq!(found[&DIR], Found::Moving);
    // Quiet from the second round on: off twice, then put right.
    set(&rig, DIR, 0, 0);
    let found = run(quota::check(&busy(3), &Which::Directories, true)).unwrap();
    assert_eq!(found[&DIR], Found::Repaired((4096 + 2 * 8192 + 4096, 4)));
}

#[test]
fn old_trash_goes_and_its_owners_are_told() {
    let rig = rig();
    let (hour, old, young) = (Ino::TRASH.0 + 1, b"2020-01-01-00", b"2030-03-17-17");
    for (at, name) in [(hour, &old[..]), (hour + 1, young)] {
        rig.node(Ino::TRASH.0, std::str::from_utf8(name).unwrap(), at, FileType::Directory, 0);
        rig.node(at, "1-30-x", 30 + at - hour, FileType::File, 5000);
    }
    // A copy whose maker died yesterday, and one that is being made.
    for (ino, since) in [(40, NOW - 90_000), (41, NOW - 10)] {
        let attr = Attr::new(FileType::Directory, 0o700, 0, 0, Ino(0), Time::new(since, 0));
        rig.put(Key::Attr(Ino(ino)), Record::Attr(attr));
        rig.put(Key::Detached(Ino(ino)), Record::Stamp(since));
    }
    run(quota::begin_owners(&rig.whole)).unwrap();
    let before = used(&rig, &Key::UserQuota(0)).unwrap();
    let done = run(overdue(&rig.whole, 1)).unwrap();
    assert_eq!((done.trash, done.copies), (1, 1));
    assert_eq!(rig.get(&Key::Attr(Ino(30))), None);
    assert!(rig.get(&Key::Attr(Ino(31))).is_some(), "young trash stays");
    assert!(rig.get(&Key::Attr(Ino(40))).is_none() && rig.get(&Key::Attr(Ino(41))).is_some());
    let after = used(&rig, &Key::UserQuota(0)).unwrap();
    assert_eq!((before.0 - after.0, before.1 - after.1), (8192 + 4096, 2));
}
