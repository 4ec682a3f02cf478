//! Quotas: what counts for whom, what is refused and in which order, and what moves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{ROOT_USER, World, make_op, name, rmdir, unlink, user};
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::request::{RenameMode, SetAttr};
use zest_types::{Errno, FileType, Ino};

fn limit(quota: Key, space: i64, inodes: i64) -> Op {
    Op::SetQuota { quota, max_space: Some(space), max_inodes: Some(inodes), usage: None }
}

fn used(world: &World, quota: &Key) -> Option<(i64, i64)> {
    match world.records.0.get(quota) {
        Some(Record::Quota { used_space, used_inodes, .. }) => Some((*used_space, *used_inodes)),
        _ => None,
    }
}

fn rename(parent: Ino, text: &str, new_parent: Ino, mode: RenameMode) -> Op {
    Op::Rename { parent, name: name(text), new_parent, new_name: name(text), mode }
}

/// A volume that counts users; `a` with a quota holds `a/b`, `c` has a quota too.
fn volume() -> (World, [Ino; 3], [Key; 2]) {
    let mut world = World::new();
    world.user_quotas = true;
    let a = world.dir(Ino::ROOT, "a");
    let c = world.dir(Ino::ROOT, "c");
    let (qa, qc) = (Key::DirQuota(a), Key::DirQuota(c));
    world.run(&limit(qa.clone(), -1, -1)).unwrap();
    world.run(&limit(qc.clone(), -1, -1)).unwrap();
    let b = world.dir(a, "b");
    (world, [a, b, c], [qa, qc])
}

#[test]
fn a_quota_counts_what_is_below_and_what_is_owned() {
    let (mut world, [a, b, c], [qa, qc]) = volume();
    let f = world.file(b, "f");
    world.write(f, 0, 0, 10_000);
    assert_eq!(used(&world, &qa), Some((4096 + 12_288, 2)));
    assert_eq!(used(&world, &Key::UserQuota(0)), Some((3 * 4096 + 12_288, 4)));
    world.run(&Op::Link { ino: f, parent: c, name: name("f") }).unwrap();
    world.run(&Op::Link { ino: f, parent: b, name: name("g") }).unwrap();
    assert_eq!(used(&world, &qc), Some((12_288, 1)));
    assert_eq!(used(&world, &qa), Some((4096 + 2 * 12_288, 3)), "once for each name");
    world.run(&Op::Truncate { ino: f, length: 0, through_handle: false }).unwrap();
    assert_eq!(used(&world, &qa), Some((3 * 4096, 3)));
    world.check();
    for op in [unlink(b, "f"), unlink(b, "g"), unlink(c, "f"), rmdir(a, "b")] {
        world.run(&op).unwrap();
        world.check();
    }
    assert_eq!((used(&world, &qa), used(&world, &qc)), (Some((0, 0)), Some((0, 0))));
    assert_eq!(used(&world, &Key::UserQuota(0)), Some((2 * 4096, 2)));
}

#[test]
fn another_owner_takes_the_usage_along() {
    let (mut world, [a, ..], _) = volume();
    let f = world.file(a, "f");
    world.write(f, 0, 0, 5000);
    let set = SetAttr { uid: Some(5), gid: Some(6), ..SetAttr::default() };
    world.run(&Op::SetAttr { ino: f, set }).unwrap();
    assert_eq!(used(&world, &Key::UserQuota(5)), Some((8192, 1)));
    assert_eq!(used(&world, &Key::GroupQuota(6)), Some((8192, 1)));
    world.check();
    world.open.insert(f);
    world.run(&unlink(a, "f")).unwrap();
    assert_eq!(used(&world, &Key::UserQuota(5)), Some((8192, 1)), "while it is open");
    world.run(&Op::Truncate { ino: f, length: 0, through_handle: true }).unwrap();
    world.check();
    world.run(&Op::DropSustained { session: 7, ino: f }).unwrap();
    assert_eq!(used(&world, &Key::UserQuota(5)), Some((0, 0)));
    world.check();
}

#[test]
fn what_is_full_is_refused_in_order() {
    let (mut world, [a, b, _], [qa, _]) = volume();
    let make = make_op(b, "x", FileType::File);
    world.run(&limit(qa.clone(), 4096, -1)).unwrap();
    assert_eq!(world.run(&make), Err(Errno::EDQUOT), "an ancestor's");
    world.capacity = (4096, 0);
    assert_eq!(world.run(&make), Err(Errno::ENOSPC), "the volume comes before directories");
    world.caller = user(9);
    world.caller.check = false;
    world.run(&make).unwrap_err();
    world.caller = ROOT_USER;
    world.run(&limit(Key::UserQuota(9), -1, 0)).unwrap();
    world.run(&limit(Key::GroupQuota(9), -1, 1)).unwrap();
    world.run(&Op::DropQuota { quota: qa.clone() }).unwrap();
    world.capacity = (0, 0);
    world.caller = zest_types::Caller { check: false, ..user(9) };
    let f = world.file(b, "x");
    assert_eq!(world.run(&make_op(b, "y", FileType::File)), Err(Errno::EDQUOT), "the group's");
    world.caller = ROOT_USER;
    world.run(&limit(Key::GroupQuota(9), 8192, -1)).unwrap();
    assert_eq!(world.run(&Op::Truncate { ino: f, length: 8193, through_handle: true }), Err(Errno::EDQUOT));
    assert!(world.run(&Op::Truncate { ino: f, length: 8192, through_handle: true }).is_ok());
    // What is over its limit already may shrink.
    world.run(&limit(Key::GroupQuota(9), 1, -1)).unwrap();
    assert!(world.run(&Op::Truncate { ino: f, length: 1, through_handle: true }).is_ok());
    let foreign = Op::SetQuota { quota: Key::DirQuota(f), max_space: None, max_inodes: None, usage: None };
    assert_eq!(world.run(&foreign), Err(Errno::ENOTDIR));
    world.caller = user(9);
    assert_eq!(world.run(&limit(Key::UserQuota(9), 0, 0)), Err(Errno::EPERM));
    let _ = a;
}

#[test]
fn a_tree_takes_its_usage_to_other_quotas() {
    let (mut world, [a, b, c], [qa, qc]) = volume();
    let sub = world.dir(b, "sub");
    let f = world.file(sub, "f");
    world.write(f, 0, 0, 5000);
    let all = (2 * 4096 + 8192, 3);
    assert_eq!(used(&world, &qa), Some(all));
    world.run(&limit(qc.clone(), 16_383, -1)).unwrap();
    assert_eq!(world.run(&rename(a, "b", c, RenameMode::Replace)), Err(Errno::EDQUOT));
    world.run(&limit(qc.clone(), 16_384, -1)).unwrap();
    // A file in the tree that grows meanwhile is counted again.
    let late = world.decide_early(&rename(a, "b", c, RenameMode::Replace)).unwrap();
    world.write(f, 0, 0, 4000);
    world.run(&Op::Truncate { ino: f, length: 9000, through_handle: true }).unwrap();
    assert!(!world.commit_late(&late));
    world.run(&limit(qc.clone(), -1, -1)).unwrap();
    world.run(&rename(a, "b", c, RenameMode::Replace)).unwrap();
    world.check();
    assert_eq!((used(&world, &qa), used(&world, &qc)), (Some((0, 0)), Some((2 * 4096 + 12_288, 3))));
    // A growth decided under the old quotas is not counted there.
    let late = world.decide_early(&Op::Truncate { ino: f, length: 90_000, through_handle: true }).unwrap();
    world.run(&rename(c, "b", a, RenameMode::Replace)).unwrap();
    assert!(!world.commit_late(&late));
    world.check();
    // A tree with a quota of its own is not counted anew, and keeps it.
    let qb = Key::DirQuota(b);
    world
        .run(&Op::SetQuota {
            quota: qb.clone(),
            max_space: None,
            max_inodes: None,
            usage: Some((4096 + 12_288, 2)),
        })
        .unwrap();
    world.run(&rename(a, "b", c, RenameMode::Replace)).unwrap();
    world.check();
    let x = world.dir(a, "b");
    world.file(x, "y");
    world.run(&rename(a, "b", c, RenameMode::Exchange)).unwrap();
    world.check();
    assert_eq!(used(&world, &qb), Some((4096 + 12_288, 2)));
}

#[test]
fn a_volume_without_quotas_pays_nothing() {
    let mut world = World::new();
    let mut dir = Ino::ROOT;
    for _ in 0..9 {
        dir = world.dir(dir, "d");
    }
    let Ok(decision) = world.decide(&make_op(dir, "f", FileType::File)) else { unreachable!() };
    assert_eq!(world.rounds, 1);
    assert!(matches!(decision.outcome, Outcome::Node { .. }));
    assert!(decision.changes.expect.len() <= 3, "{:?}", decision.changes.expect);
}

#[test]
fn the_trash_counts_for_owners_only() {
    let mut world = World::with_trash();
    world.user_quotas = true;
    let a = world.dir(Ino::ROOT, "a");
    let quota = Key::DirQuota(a);
    world.run(&limit(quota.clone(), -1, -1)).unwrap();
    let f = world.file(a, "f");
    world.write(f, 0, 0, 5000);
    world.run(&unlink(a, "f")).unwrap();
    assert_eq!(used(&world, &quota), Some((0, 0)));
    assert_eq!(used(&world, &Key::UserQuota(0)), Some((4096 + 8192, 2)));
    world.check();
    let hour = world.trash.unwrap();
    let back = Op::Rename {
        parent: hour,
        name: name(&format!("{a}-{f}-f")),
        new_parent: a,
        new_name: name("f"),
        mode: RenameMode::Replace,
    };
    world.run(&back).unwrap();
    assert_eq!(used(&world, &quota), Some((8192, 1)));
    world.check();
    world.run(&rmdir(Ino::ROOT, "a")).unwrap_err();
    assert_eq!(world.run(&limit(Key::DirQuota(hour), 1, 1)), Err(Errno::EINVAL));
}
