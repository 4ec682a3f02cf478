//! Making, linking, moving and removing names: what POSIX says comes out, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{ROOT_USER, World, commit, make_op, name, rmdir, unlink, user};
use zest_metadata::{Key, Op, Outcome};
use zest_types::attr::flags;
use zest_types::request::{Fallocate, RenameMode, SetAttr, SetTime};
use zest_types::{Caller, Errno, FileType, Ino, SliceId, SliceRecord, Time};

const ROOT: Ino = Ino::ROOT;

fn rename(from: Ino, text: &str, to: Ino, new: &str) -> Op {
    rename_as(from, text, to, new, RenameMode::Replace)
}

fn rename_as(from: Ino, text: &str, to: Ino, new: &str, mode: RenameMode) -> Op {
    Op::Rename { parent: from, name: name(text), new_parent: to, new_name: name(new), mode }
}

fn link(ino: Ino, parent: Ino, text: &str) -> Op {
    Op::Link { ino, parent, name: name(text) }
}

fn set(world: &mut World, ino: Ino, set: SetAttr) {
    world.run(&Op::SetAttr { ino, set }).unwrap();
}

fn mode(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

#[test]
fn a_new_node_is_what_was_asked_for() {
    let mut world = World::new();
    world.caller = user(5);
    let op = Op::Make {
        parent: ROOT,
        name: name("dev"),
        kind: FileType::Fifo,
        mode: 0o6777,
        umask: 0o027,
        rdev: 77,
        target: Vec::new(),
        existing_ok: false,
    };
    let (ino, attr) = world.node(&op);
    assert_eq!((attr.mode, attr.uid, attr.gid, attr.nlink, attr.rdev), (0o6750, 5, 5, 1, 77));
    assert_eq!((attr.atime, attr.mtime, attr.ctime), (Time::new(1001, 0), attr.atime, attr.atime));
    assert_eq!(world.attr(ino), Some(attr));
    assert_eq!(world.rounds, 1, "a warm create is one round");
    let parent = world.attr(ROOT).unwrap();
    assert_eq!((parent.mtime, parent.ctime, parent.nlink), (Time::new(1001, 0), parent.mtime, 2));
    let link = world.make(ROOT, "s", FileType::Symlink);
    assert_eq!(world.attr(link).unwrap().length, 9);
    assert_eq!(world.used(), (8192, 2));
    world.dir(ROOT, "d");
    assert_eq!(world.attr(ROOT).unwrap().nlink, 3);
    world.check();
}

#[test]
fn group_and_setgid_come_from_a_setgid_directory() {
    let mut world = World::new();
    let dir = world.dir(ROOT, "d");
    set(&mut world, dir, SetAttr { gid: Some(40), mode: Some(0o2777), ..SetAttr::default() });
    set(&mut world, dir, mode(0o2777));
    world.caller = user(5);
    let sub = world.dir(dir, "sub");
    let attr = world.attr(sub).unwrap();
    assert_eq!((attr.gid, attr.mode & 0o7000), (40, 0o2000));
    let mut op = make_op(dir, "f", FileType::File);
    if let Op::Make { mode, .. } = &mut op {
        *mode = 0o2775;
    }
    let (_, attr) = world.node(&op);
    assert_eq!((attr.gid, attr.mode), (40, 0o755), "a stranger to the group makes no setgid program");
}

#[test]
fn makes_that_are_refused() {
    let mut world = World::new();
    let file = world.file(ROOT, "f");
    let dir = world.dir(ROOT, "d");
    let new = |parent, text| make_op(parent, text, FileType::File);
    assert_eq!(world.run(&new(Ino(99), "x")), Err(Errno::ENOENT));
    assert_eq!(world.run(&new(file, "x")), Err(Errno::ENOTDIR));
    assert_eq!(world.run(&new(ROOT, "f")), Err(Errno::EEXIST));
    assert_eq!(world.run(&new(ROOT, "..")), Err(Errno::EEXIST));
    assert_eq!(world.run(&new(ROOT, ".trash")), Err(Errno::EPERM));
    assert_eq!(world.run(&new(Ino::TRASH, "x")), Err(Errno::EPERM));
    set(&mut world, dir, mode(0o700));
    world.caller = user(5);
    assert_eq!(world.run(&new(dir, "x")), Err(Errno::EACCES));
    assert_eq!(world.run(&make_op(ROOT, "x", FileType::CharDevice)), Err(Errno::EPERM));
    world.caller = Caller { check: false, ..world.caller };
    world.run(&new(dir, "x")).unwrap();
    world.caller = ROOT_USER;
    set(&mut world, dir, SetAttr { flags: Some(flags::IMMUTABLE), ..SetAttr::default() });
    assert_eq!(world.run(&new(dir, "y")), Err(Errno::EPERM));
    set(&mut world, dir, SetAttr { flags: Some(flags::APPEND | flags::SKIP_TRASH), ..SetAttr::default() });
    let inherits = world.file(dir, "y");
    assert_eq!(world.attr(inherits).unwrap().flags, flags::SKIP_TRASH);
    assert_eq!(world.run(&unlink(dir, "y")), Err(Errno::EPERM), "append-only directories lose nothing");
    world.check();
}

#[test]
fn an_existing_file_can_be_the_answer() {
    let mut world = World::new();
    let file = world.file(ROOT, "f");
    world.dir(ROOT, "d");
    let mut ask = |text| {
        let mut op = make_op(ROOT, text, FileType::File);
        if let Op::Make { existing_ok, .. } = &mut op {
            *existing_ok = true;
        }
        world.run(&op)
    };
    assert!(matches!(ask("f"), Ok(Outcome::Node { ino, created: false, .. }) if ino == file));
    assert!(matches!(ask("g"), Ok(Outcome::Node { created: true, .. })));
    assert_eq!(ask("d"), Err(Errno::EEXIST));
}

#[test]
fn a_full_volume_takes_nothing_more() {
    let mut world = World::new();
    world.file(ROOT, "a");
    world.capacity = (0, 1);
    assert_eq!(world.run(&make_op(ROOT, "b", FileType::File)), Err(Errno::ENOSPC));
    world.capacity = (8192, 0);
    let file = world.file(ROOT, "b");
    assert_eq!(world.run(&make_op(ROOT, "c", FileType::File)), Err(Errno::ENOSPC));
    let grow = |length| Op::Truncate { ino: file, length, through_handle: true };
    world.run(&grow(4096)).unwrap();
    assert_eq!(world.run(&grow(4097)), Err(Errno::ENOSPC));
    let fallocate = |mode, len| Op::Fallocate { ino: file, offset: 0, len, mode };
    assert_eq!(world.run(&fallocate(Fallocate::Allocate, 4097)), Err(Errno::ENOSPC));
    assert_eq!(world.run(&fallocate(Fallocate::ZeroRange, 4097)), Err(Errno::ENOSPC));
    world.run(&fallocate(Fallocate::KeepSize, 1 << 40)).unwrap();
    let record = SliceRecord::whole(0, SliceId(1), 4097);
    let commit = commit(file, 0, record, Time::new(1, 0));
    assert_eq!(world.run(&commit), Err(Errno::ENOSPC));
    let copy = Op::CopyRange { from: file, from_offset: 0, to: file, to_offset: 4096, len: 1 };
    assert_eq!(world.run(&copy), Err(Errno::ENOSPC));
    world.check();
}

#[test]
fn links_are_counted_by_directory() {
    let mut world = World::new();
    let (f, d) = (world.file(ROOT, "f"), world.dir(ROOT, "d"));
    world.write(f, 0, 0, 5000);
    let (_, attr) = world.node(&link(f, d, "g"));
    assert_eq!((attr.nlink, attr.parent, attr.ctime), (2, Ino(0), Time::new(world.now, 0)));
    assert_eq!(world.rounds, 1);
    world.run(&link(f, d, "h")).unwrap();
    assert_eq!(world.count(&Key::Parent { ino: f, parent: d }), 2);
    world.check();
    world.write(f, 0, 4000, 9000);
    world.check();
    assert_eq!(world.run(&link(f, d, "h")), Err(Errno::EEXIST));
    assert_eq!(world.run(&link(d, ROOT, "x")), Err(Errno::EPERM));
    assert_eq!(world.run(&link(Ino(99), ROOT, "x")), Err(Errno::ENOENT));
    world.run(&unlink(ROOT, "f")).unwrap();
    world.run(&rename(d, "h", ROOT, "f")).unwrap();
    world.check();
    world.run(&unlink(d, "g")).unwrap();
    assert_eq!(world.attr(f).unwrap().nlink, 1);
    world.run(&rename(ROOT, "f", d, "f")).unwrap();
    world.check();
    world.run(&unlink(d, "f")).unwrap();
    assert_eq!(world.attr(f), None);
    world.check();
}

#[test]
fn directories_go_when_they_are_empty() {
    let mut world = World::new();
    let d = world.dir(ROOT, "d");
    let inner = world.dir(d, "e");
    assert_eq!(world.run(&rmdir(ROOT, "d")), Err(Errno::ENOTEMPTY));
    assert_eq!(world.run(&unlink(ROOT, "d")), Err(Errno::EPERM));
    assert_eq!(world.run(&rmdir(ROOT, ".")), Err(Errno::EINVAL));
    assert_eq!(world.run(&rmdir(ROOT, "..")), Err(Errno::ENOTEMPTY));
    assert_eq!(world.run(&rmdir(ROOT, "none")), Err(Errno::ENOENT));
    world.run(&rmdir(d, "e")).unwrap();
    assert!(world.rounds <= 2);
    assert_eq!((world.attr(inner), world.attr(d).unwrap().nlink), (None, 2));
    world.file(d, "f");
    assert_eq!(world.run(&rmdir(d, "f")), Err(Errno::ENOTDIR));
    world.run(&unlink(d, "f")).unwrap();
    world.run(&rmdir(ROOT, "d")).unwrap();
    assert_eq!(world.used(), (0, 0));
    world.check();
}

#[test]
fn only_owners_remove_from_a_sticky_directory() {
    let mut world = World::new();
    let d = world.dir(ROOT, "d");
    set(&mut world, d, SetAttr { uid: Some(1), ..mode(0o777) });
    set(&mut world, d, mode(0o1777));
    world.caller = user(2);
    world.file(d, "of2");
    world.file(d, "other2");
    world.dir(d, "dir2");
    world.caller = user(3);
    assert_eq!(world.run(&unlink(d, "of2")), Err(Errno::EPERM));
    assert_eq!(world.run(&rmdir(d, "dir2")), Err(Errno::EPERM));
    assert_eq!(world.run(&rename(d, "of2", d, "x")), Err(Errno::EPERM));
    world.file(d, "of3");
    assert_eq!(world.run(&rename(d, "of3", d, "of2")), Err(Errno::EPERM));
    world.caller = user(2);
    world.run(&unlink(d, "of2")).unwrap();
    world.caller = user(1);
    world.run(&unlink(d, "other2")).unwrap();
    world.caller = ROOT_USER;
    world.run(&rmdir(d, "dir2")).unwrap();
    world.check();
}

#[test]
fn rename_moves_and_replaces() {
    let mut world = World::new();
    let (a, b) = (world.dir(ROOT, "a"), world.dir(ROOT, "b"));
    let f = world.file(a, "f");
    world.run(&rename(a, "f", b, "g")).unwrap();
    assert_eq!(world.rounds, 2);
    assert_eq!((world.lookup(a, "f"), world.lookup(b, "g")), (None, Some(f)));
    let attr = world.attr(f).unwrap();
    assert_eq!((attr.parent, attr.ctime), (b, Time::new(world.now, 0)));
    for dir in [a, b] {
        assert_eq!(world.attr(dir).unwrap().mtime, Time::new(world.now, 0));
    }
    let g = world.file(a, "f");
    assert_eq!(world.run(&rename(a, "f", b, "g")), Ok(Outcome::Removed { ino: f, deleted: Some(0) }));
    assert_eq!((world.attr(f), world.lookup(b, "g")), (None, Some(g)));
    let sub = world.dir(a, "sub");
    world.dir(b, "sub");
    world.run(&rename(a, "sub", b, "sub")).unwrap();
    assert_eq!(world.lookup(b, "sub"), Some(sub));
    let links = [a, b, ROOT].map(|d| world.attr(d).unwrap().nlink);
    assert_eq!((links, world.attr(sub).unwrap().parent), ([2, 3, 4], b));
    world.check();
}

#[test]
fn renames_that_are_refused_or_do_nothing() {
    let mut world = World::new();
    let (a, f) = (world.dir(ROOT, "a"), world.file(ROOT, "f"));
    let b = world.dir(a, "b");
    let c = world.dir(b, "c");
    world.dir(ROOT, "empty");
    let before = world.records.clone();
    for (op, errno) in [
        (rename(ROOT, "none", ROOT, "x"), Errno::ENOENT),
        (rename(Ino(99), "f", ROOT, "x"), Errno::ENOENT),
        (rename(f, "x", ROOT, "x"), Errno::ENOTDIR),
        (rename(ROOT, "f", f, "x"), Errno::ENOTDIR),
        (rename(ROOT, "f", ROOT, "empty"), Errno::EISDIR),
        (rename(ROOT, "empty", ROOT, "f"), Errno::ENOTDIR),
        (rename(ROOT, "empty", ROOT, "a"), Errno::ENOTEMPTY),
        (rename(ROOT, "a", a, "x"), Errno::EINVAL),
        (rename(ROOT, "a", b, "x"), Errno::EINVAL),
        (rename(ROOT, "a", c, "x"), Errno::EINVAL),
        (rename(b, "c", ROOT, "a"), Errno::ENOTEMPTY),
        (rename(ROOT, "f", ROOT, ".."), Errno::EINVAL),
        (rename(ROOT, "f", ROOT, ".trash"), Errno::EPERM),
        (rename(ROOT, "f", Ino::TRASH, "x"), Errno::EPERM),
        (rename_as(ROOT, "f", ROOT, "a", RenameMode::NoReplace), Errno::EEXIST),
        (rename_as(ROOT, "f", ROOT, "x", RenameMode::Exchange), Errno::ENOENT),
        (rename_as(b, "c", ROOT, "a", RenameMode::Exchange), Errno::EINVAL),
        (rename_as(ROOT, "a", b, "c", RenameMode::Exchange), Errno::EINVAL),
    ] {
        assert_eq!(world.run(&op), Err(errno), "{op:?}");
    }
    assert_eq!(world.run(&rename(ROOT, "f", ROOT, "f")), Ok(Outcome::Done));
    assert_eq!(world.records, before);
    world.run(&link(f, a, "f2")).unwrap();
    let before = world.records.clone();
    assert_eq!(world.run(&rename(ROOT, "f", a, "f2")), Ok(Outcome::Done));
    assert_eq!(world.records, before, "both names of one node stay");
}

#[test]
fn exchange_swaps_nodes_of_any_kind() {
    let mut world = World::new();
    let (a, b) = (world.dir(ROOT, "a"), world.dir(ROOT, "b"));
    let (f, d) = (world.file(a, "x"), world.dir(b, "y"));
    world.write(f, 0, 0, 10_000);
    world.run(&rename_as(a, "x", b, "y", RenameMode::Exchange)).unwrap();
    assert_eq!((world.lookup(a, "x"), world.lookup(b, "y")), (Some(d), Some(f)));
    assert_eq!([a, b].map(|dir| world.attr(dir).unwrap().nlink), [3, 2]);
    assert_eq!((world.attr(d).unwrap().parent, world.attr(f).unwrap().parent), (a, b));
    world.check();
    world.run(&rename_as(ROOT, "a", ROOT, "b", RenameMode::Exchange)).unwrap();
    assert_eq!((world.lookup(ROOT, "a"), world.lookup(ROOT, "b")), (Some(b), Some(a)));
    world.check();
}

#[test]
fn a_directory_one_may_not_write_stays_in_its_place() {
    let mut world = World::new();
    let (a, b) = (world.dir(ROOT, "a"), world.dir(ROOT, "b"));
    set(&mut world, a, mode(0o777));
    set(&mut world, b, mode(0o777));
    let d = world.dir(a, "d");
    set(&mut world, d, mode(0o700));
    let locked = world.dir(ROOT, "locked");
    world.file(locked, "f");
    world.file(a, "f");
    world.caller = user(5);
    assert_eq!(world.run(&rename(locked, "f", a, "g")), Err(Errno::EACCES));
    assert_eq!(world.run(&rename(a, "f", locked, "g")), Err(Errno::EACCES));
    assert_eq!(world.run(&unlink(locked, "f")), Err(Errno::EACCES));
    assert_eq!(world.run(&link(locked, ROOT, "x")), Err(Errno::EPERM));
    world.run(&rename(a, "d", a, "e")).unwrap();
    assert_eq!(world.run(&rename(a, "e", b, "e")), Err(Errno::EACCES));
    world.caller = Caller { check: false, ..user(5) };
    world.run(&rename(a, "e", b, "e")).unwrap();
    world.check();
}

#[test]
fn parent_times_come_back_from_the_future() {
    let mut world = World::new();
    let d = world.dir(ROOT, "d");
    let future = Some(SetTime::At(Time::new(9_000_000, 0)));
    set(&mut world, d, SetAttr { mtime: future, ..SetAttr::default() });
    assert_eq!(world.attr(d).unwrap().mtime.sec, 9_000_000);
    let f = world.file(d, "f");
    assert_eq!(world.attr(d).unwrap().mtime, Time::new(world.now, 0));
    set(&mut world, f, SetAttr { mtime: future, ..SetAttr::default() });
    world.write(f, 0, 0, 10);
    assert_eq!(world.attr(f).unwrap().mtime, Time::new(world.now, 0));
}
