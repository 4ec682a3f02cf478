//! Two changes decided from the same records: whichever is committed first, the other one is refused or does
//! what it would do if it were decided now. Every pair of a list of changes, with and without trash.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{World, commit, make_op, name, rmdir, unlink};
use zest_metadata::apply::Refused;
use zest_metadata::{Key, Op, Outcome, Snapshot};
use zest_types::limits::CHUNK_SIZE;
use zest_types::request::{Fallocate, LockKind, RangeLock, RenameMode, SetAttr, XattrMode};
use zest_types::{FileType, Ino, Placed, SliceId, SliceRecord, Time};

/// What the changes work on.
struct Nodes {
    a: Ino,
    b: Ino,
    empty: Ino,
    f: Ino,
    linked: Ino,
    open: Ino,
    gone: Ino,
}

fn volume(trash: bool) -> (World, Nodes) {
    let mut world = if trash { World::with_trash() } else { World::new() };
    let root = Ino::ROOT;
    let a = world.dir(root, "a");
    let b = world.dir(a, "b");
    let empty = world.dir(root, "empty");
    world.dir(b, "deep");
    let f = world.file(root, "f");
    world.write(f, 0, 0, 8192);
    world.write(f, 1, 100, 5000);
    let linked = world.file(a, "linked");
    world.write(linked, 0, 0, 100);
    world.run(&Op::Link { ino: linked, parent: root, name: name("linked2") }).unwrap();
    let open = world.file(root, "open");
    world.open.insert(open);
    world.make(root, "s", FileType::Symlink);
    world.run(&Op::SetXattr { ino: f, name: name("user.x"), value: vec![1], mode: XattrMode::Any }).unwrap();
    let gone = world.file(root, "gone");
    world.write(gone, 0, 0, 300);
    world.run(&Op::CopyRange { from: gone, from_offset: 0, to: f, to_offset: 0, len: 100 }).unwrap();
    world.open.insert(gone);
    let hour = world.trash.take();
    world.run(&unlink(root, "gone")).unwrap();
    let dead = world.file(root, "dead");
    world.write(dead, 0, 0, 700);
    world.run(&unlink(root, "dead")).unwrap();
    world.trash = hour;
    world.check();
    (world, Nodes { a, b, empty, f, linked, open, gone })
}

fn rename(from: Ino, text: &str, to: Ino, new: &str, mode: RenameMode) -> Op {
    Op::Rename { parent: from, name: name(text), new_parent: to, new_name: name(new), mode }
}

fn changes_of_names(n: &Nodes) -> Vec<Op> {
    use RenameMode::{Exchange, NoReplace, Replace};
    let root = Ino::ROOT;
    let mut ops = vec![
        unlink(root, "f"),
        unlink(root, "linked2"),
        unlink(n.a, "linked"),
        unlink(root, "open"),
        unlink(root, "s"),
        unlink(root, "new"),
        rmdir(root, "empty"),
        rmdir(root, "a"),
        rmdir(n.b, "deep"),
        Op::Link { ino: n.f, parent: n.empty, name: name("new") },
        Op::Link { ino: n.f, parent: root, name: name("new") },
        Op::Link { ino: n.linked, parent: root, name: name("new") },
        Op::Link { ino: n.open, parent: n.b, name: name("f") },
        Op::Link { ino: n.gone, parent: n.b, name: name("f") },
        rename(root, "f", root, "new", Replace),
        rename(root, "new", root, "f", Replace),
        rename(root, "f", n.empty, "new", Replace),
        rename(root, "f", n.empty, "new", NoReplace),
        rename(root, "f", root, "open", Replace),
        rename(root, "open", root, "f", Replace),
        rename(root, "f", root, "linked2", Replace),
        rename(n.a, "linked", root, "linked2", Replace),
        rename(n.a, "linked", root, "new", Replace),
        rename(root, "f", n.a, "linked", Exchange),
        rename(root, "f", root, "s", Exchange),
        rename(root, "empty", n.a, "b", Exchange),
        rename(root, "a", root, "empty", Replace),
        rename(root, "a", n.empty, "new", Replace),
        rename(root, "empty", n.b, "new", Replace),
        rename(root, "empty", n.b, "deep", Replace),
        rename(n.a, "b", root, "new", Replace),
        rename(n.a, "b", n.empty, "new", Replace),
        rename(n.b, "deep", root, "new", Replace),
        rename(n.b, "deep", root, "empty", Replace),
    ];
    for kind in [FileType::File, FileType::Directory, FileType::Symlink, FileType::Fifo] {
        ops.extend([root, n.empty, n.b].map(|dir| make_op(dir, "new", kind)));
        ops.push(make_op(n.b, "f", kind));
    }
    ops
}

fn changes_of_nodes(n: &Nodes) -> Vec<Op> {
    let slice = |id: u64, pos, len| SliceRecord::whole(pos, SliceId(id), len);
    let mtime = Time::new(2000, 0);
    let commit = |ino, index, record| commit(ino, index, record, mtime);
    let copy = |from, to, to_offset| Op::CopyRange { from, from_offset: 0, to, to_offset, len: 5000 };
    let truncate = |ino, length| Op::Truncate { ino, length, through_handle: true };
    let fallocate = |ino, offset, len, mode| Op::Fallocate { ino, offset, len, mode };
    let set = |ino, set| Op::SetAttr { ino, set };
    let lock = |owner, kind, start, end| Op::SetLock {
        ino: n.f,
        owner,
        lock: RangeLock { kind, start, end, pid: 1 },
    };
    let mut ops = vec![
        copy(n.f, n.linked, 0),
        copy(n.linked, n.f, CHUNK_SIZE - 50),
        copy(n.f, n.f, 2 * CHUNK_SIZE),
        set(n.f, SetAttr { mode: Some(0o4711), ..SetAttr::default() }),
        set(n.f, SetAttr { uid: Some(3), ..SetAttr::default() }),
        set(n.empty, SetAttr { mode: Some(0o2777), gid: Some(9), ..SetAttr::default() }),
        set(n.f, SetAttr { flags: Some(1), ..SetAttr::default() }),
        set(n.f, SetAttr { flags: Some(0x20), ..SetAttr::default() }),
        set(n.empty, SetAttr { flags: Some(1), ..SetAttr::default() }),
        set(Ino::ROOT, SetAttr { flags: Some(2), ..SetAttr::default() }),
        Op::SetXattr { ino: n.f, name: name("user.x"), value: vec![2], mode: XattrMode::Replace },
        Op::SetXattr { ino: n.f, name: name("user.y"), value: vec![3], mode: XattrMode::Create },
        Op::SetXattr { ino: n.f, name: name("user.y"), value: vec![4], mode: XattrMode::Any },
        Op::RemoveXattr { ino: n.f, name: name("user.x") },
        Op::Flock { ino: n.f, owner: 1, kind: LockKind::Read },
        Op::Flock { ino: n.f, owner: 2, kind: LockKind::Write },
        lock(1, LockKind::Write, 0, 10),
        lock(1, LockKind::Read, 5, 20),
        lock(2, LockKind::Write, 11, 30),
        Op::DropSustained { session: 7, ino: n.gone },
        Op::DropChunk { ino: Ino(n.gone.0 + 1), index: 0 },
        Op::DropSliceRef { id: SliceId(4), size: 300 },
        Op::MakeTrashHour { name: name("2026-01-01-01") },
    ];
    for ino in [n.f, n.linked, n.gone] {
        ops.extend([0, 50, CHUNK_SIZE + 200, 3 * CHUNK_SIZE + 1].map(|length| truncate(ino, length)));
        ops.extend([commit(ino, 0, slice(100 + ino.0, 4000, 100)), commit(ino, 2, slice(200 + ino.0, 0, 9))]);
        ops.push(fallocate(ino, 3, 2 * CHUNK_SIZE, Fallocate::Allocate));
        ops.push(fallocate(ino, 3, CHUNK_SIZE, Fallocate::PunchHole));
        ops.push(fallocate(ino, 3, 2 * CHUNK_SIZE, Fallocate::ZeroRange));
    }
    ops
}

#[test]
fn no_two_changes_slip_past_each_other() {
    let (mut pairs, mut refused) = (0, 0);
    for trash in [false, true] {
        let (_, nodes) = volume(trash);
        let ops = [changes_of_names(&nodes), changes_of_nodes(&nodes)].concat();
        for first in &ops {
            for second in &ops {
                let (mut world, _) = volume(trash);
                world.now += 1;
                let (Ok(first), Ok(second)) = (world.decide_early(first), world.decide_early(second)) else {
                    continue;
                };
                assert!(world.commit_late(&first), "nobody else was there");
                world.check();
                pairs += 1;
                refused += i32::from(!world.commit_late(&second));
                world.check();
            }
        }
    }
    assert!(pairs > 5000 && refused > 500, "{refused} of {pairs} pairs");
}

/// The point of commutative changes: work in one directory does not meet.
#[test]
fn different_names_in_one_directory_do_not_conflict() {
    let (mut world, n) = volume(true);
    let ops = [
        make_op(Ino::ROOT, "x1", FileType::File),
        make_op(Ino::ROOT, "x2", FileType::Directory),
        unlink(Ino::ROOT, "f"),
        rmdir(Ino::ROOT, "empty"),
        rename(n.b, "deep", Ino::ROOT, "x3", RenameMode::Replace),
        Op::Link { ino: n.open, parent: Ino::ROOT, name: name("x4") },
    ];
    let late: Vec<_> = ops.iter().map(|op| world.decide_early(op).unwrap()).collect();
    for late in late {
        assert!(world.commit_late(&late), "{:?} was refused", late.op);
        world.check();
    }
}

/// Writers of one file do not meet either, and a repeated commit of a slice changes nothing.
#[test]
fn slices_of_one_file_do_not_conflict() {
    let (mut world, n) = volume(false);
    let before = world.slices(n.f, 0).len();
    let commit = |id, len| commit(n.f, 0, SliceRecord::whole(0, SliceId(id), len), Time::new(2000, 0));
    let late: Vec<_> = [commit(80, 10), commit(81, 20), commit(80, 10)]
        .iter()
        .map(|op| world.decide_early(op).unwrap())
        .collect();
    for late in &late {
        world.records.commit(&late.decision.changes).unwrap();
    }
    assert_eq!(world.slices(n.f, 0).len(), before + 2);
    assert!(matches!(late[0].decision.outcome, Outcome::Node { .. }));
    world.check();
}

/// Slice 80 in one place, slice 81 in three of two chunks.
fn shared(ino: Ino) -> Op {
    let part = |index, pos, off| Placed {
        index,
        record: SliceRecord { pos, id: SliceId(81), size: 300, off, len: 100 },
    };
    let whole = Placed { index: 0, record: SliceRecord::whole(50, SliceId(80), 10) };
    let parts = vec![whole, part(0, 7000, 0), part(1, 0, 100), part(0, 7050, 200)];
    Op::CommitSlices { ino, parts, mtime: Time::new(2000, 0) }
}

/// Slices are committed all at once, each place is a reference, and a try whose answer was lost is known by them.
#[test]
fn a_slice_shown_in_several_places_is_committed_once() {
    let (mut world, n) = volume(false);
    let before = (world.slices(n.f, 0), world.slices(n.f, 1));
    let again = world.decide_early(&shared(n.f)).unwrap();
    world.run(&shared(n.f)).unwrap();
    let mut found = Snapshot::default();
    match world.records.commit(&again.decision.changes) {
        Err(Refused::Conflict(fresh)) => found.learn(fresh),
        other => panic!("{other:?}"),
    }
    let decision = world.decide_knowing(&shared(n.f), found).unwrap();
    assert!(decision.changes.is_empty() && matches!(decision.outcome, Outcome::Node { .. }));
    world.check();
    let added = |index, before: Vec<_>| world.slices(n.f, index).split_off(before.len());
    let offs = |list: Vec<SliceRecord>| list.iter().map(|r| (r.id.0, r.off)).collect::<Vec<_>>();
    assert_eq!(offs(added(0, before.0)), [(80, 0), (81, 0), (81, 200)]);
    assert_eq!(offs(added(1, before.1)), [(81, 100)]);
    assert_eq!(world.count(&Key::SliceRef { id: SliceId(81), size: 300 }), 2);
    let attr = world.attr(n.f).unwrap();
    assert!(attr.length >= CHUNK_SIZE + 100 && attr.mtime == Time::new(2000, 0));
}
