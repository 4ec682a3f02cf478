//! Removed nodes: kept while open, kept in the trash, and given back in steps until nothing is left of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod driver;

use driver::{ROOT_USER, World, make_op, name, rmdir, unlink, user};
use zest_metadata::map::RecordMap;
use zest_metadata::rules::entry_name;
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::attr::flags;
use zest_types::request::{RenameMode, SetAttr, XattrMode};
use zest_types::{Caller, Errno, FileType, Ino, Name, SliceId, SliceRecord, Time};

const ROOT: Ino = Ino::ROOT;

/// Everything a deleted file left goes; tells which slices lost their last reference.
fn reclaim(world: &mut World, ino: Ino, length: u64) -> Vec<(SliceId, u32)> {
    let mut slices = Vec::new();
    assert_eq!(world.run(&Op::DropDeleted { ino, length }), Err(Errno::EBUSY));
    while let Some(index) = world.records.0.keys().find_map(|key| match key {
        Key::Chunk(i, index) if *i == ino => Some(*index),
        _ => None,
    }) {
        match world.run(&Op::DropChunk { ino, index }) {
            Ok(Outcome::Unreferenced(more)) => slices.extend(more),
            other => panic!("{other:?}"),
        }
        world.check();
    }
    world.run(&Op::DropDeleted { ino, length }).unwrap();
    for (id, size) in &slices {
        world.run(&Op::DropSliceRef { id: *id, size: *size }).unwrap();
    }
    world.check();
    slices
}

/// What a truncation left behind the end is still there when the note of the file is to go.
#[test]
fn lists_behind_the_end_of_a_deleted_file_keep_its_note() {
    let mut world = World::new();
    let f = world.file(ROOT, "f");
    world.write(f, 2, 0, 5000);
    world.run(&Op::Truncate { ino: f, length: 0, through_handle: true }).unwrap();
    world.run(&unlink(ROOT, "f")).unwrap();
    world.run(&Op::DropChunk { ino: f, index: 0 }).unwrap();
    let note = Op::DropDeleted { ino: f, length: 0 };
    assert_eq!(world.run(&note), Err(Errno::EBUSY));
    world.run(&Op::DropChunk { ino: f, index: 2 }).unwrap();
    world.run(&note).unwrap();
    world.check();
}

#[test]
fn a_closed_file_leaves_its_data_and_nothing_else() {
    let mut world = World::new();
    let empty = world.records.clone();
    let f = world.file(ROOT, "f");
    world.write(f, 0, 0, 5000);
    world.write(f, 3, 7, 300);
    let xattr = Op::SetXattr { ino: f, name: name("user.x"), value: vec![1], mode: XattrMode::Any };
    world.run(&xattr).unwrap();
    let length = world.attr(f).unwrap().length;
    let gone = Outcome::Removed { ino: f, deleted: Some(length) };
    assert_eq!(world.run(&unlink(ROOT, "f")), Ok(gone));
    assert_eq!(world.records.0.get(&Key::Deleted { ino: f, length }), Some(&Record::Stamp(world.now)));
    assert_eq!(world.used(), (0, 0));
    world.check();
    assert_eq!(reclaim(&mut world, f, length).len(), 2);
    let left = |records: &RecordMap| {
        let lasting = |key: &&Key| !matches!(key, Key::Counter(_) | Key::DirStat(_));
        records.0.keys().filter(lasting).cloned().collect::<Vec<_>>()
    };
    assert_eq!(left(&world.records), left(&empty));
}

#[test]
fn an_open_file_lives_until_it_is_closed() {
    let mut world = World::new();
    let f = world.file(ROOT, "f");
    world.open.insert(f);
    world.write(f, 0, 0, 5000);
    assert_eq!(world.run(&unlink(ROOT, "f")), Ok(Outcome::Removed { ino: f, deleted: None }));
    assert_eq!(world.attr(f).unwrap().nlink, 0);
    assert_eq!(world.used(), (8192, 1));
    world.check();
    world.write(f, 0, 5000, 9000);
    world.run(&Op::Truncate { ino: f, length: 20_000, through_handle: true }).unwrap();
    let link = Op::Link { ino: f, parent: ROOT, name: name("again") };
    assert_eq!(world.run(&link), Err(Errno::ENOENT));
    world.check();
    let close = Op::DropSustained { session: 7, ino: f };
    assert_eq!(world.run(&close), Ok(Outcome::Removed { ino: f, deleted: Some(20_000) }));
    assert_eq!((world.attr(f), world.used()), (None, (0, 0)));
    world.check();
    assert_eq!(world.run(&close), Ok(Outcome::Done), "closing twice is harmless");
}

#[test]
fn a_file_replaced_by_rename_while_open_lives_on() {
    let mut world = World::new();
    let (f, g) = (world.file(ROOT, "f"), world.file(ROOT, "g"));
    world.open.insert(g);
    let rename = Op::Rename {
        parent: ROOT,
        name: name("f"),
        new_parent: ROOT,
        new_name: name("g"),
        mode: RenameMode::Replace,
    };
    assert_eq!(world.run(&rename), Ok(Outcome::Removed { ino: g, deleted: None }));
    assert_eq!((world.lookup(ROOT, "g"), world.attr(g).unwrap().nlink), (Some(f), 0));
    world.check();
}

#[test]
fn other_kinds_are_gone_at_once() {
    let mut world = World::new();
    for kind in [FileType::Symlink, FileType::Fifo, FileType::Socket] {
        let ino = world.make(ROOT, "x", kind);
        world.open.insert(ino);
        assert_eq!(world.run(&unlink(ROOT, "x")), Ok(Outcome::Removed { ino, deleted: None }));
        assert_eq!(world.attr(ino), None);
        world.check();
    }
}

#[test]
fn the_trash_keeps_what_was_removed() {
    let mut world = World::with_trash();
    let hour = world.trash.unwrap();
    assert_eq!(hour, Ino(Ino::TRASH.0 + 1));
    let attr = world.attr(hour).unwrap();
    assert_eq!((attr.mode, attr.parent, attr.nlink), (0o555, Ino::TRASH, 2));
    assert!(world.records.0.contains_key(&Key::DirStat(hour)));
    let again = world.run(&Op::MakeTrashHour { name: name("2026-01-01-00") });
    assert!(matches!(again, Ok(Outcome::Node { ino, created: false, .. }) if ino == hour));
    let next = world.node(&Op::MakeTrashHour { name: name("2026-01-01-01") }).0;
    assert_eq!(next, Ino(Ino::TRASH.0 + 2));

    let (f, d) = (world.file(ROOT, "f"), world.dir(ROOT, "d"));
    world.write(f, 0, 0, 5000);
    let used = world.used();
    world.run(&unlink(ROOT, "f")).unwrap();
    assert_eq!(world.rounds, 2);
    world.run(&rmdir(ROOT, "d")).unwrap();
    world.check();
    assert_eq!(world.used(), used);
    assert_eq!(world.lookup(hour, &format!("1-{f}-f")), Some(f));
    let attr = world.attr(f).unwrap();
    assert_eq!((attr.parent, attr.nlink, attr.ctime.sec), (hour, 1, world.now - 1));
    assert_eq!(world.attr(ROOT).unwrap().nlink, 2);

    let set = Op::SetAttr { ino: f, set: SetAttr { mode: Some(0), ..SetAttr::default() } };
    assert_eq!(world.run(&set), Err(Errno::EPERM));
    let cut = |through_handle| Op::Truncate { ino: f, length: 1, through_handle };
    assert_eq!(world.run(&cut(false)), Err(Errno::EPERM));
    world.run(&cut(true)).unwrap();
    assert_eq!(world.run(&make_op(d, "x", FileType::File)), Err(Errno::ENOENT));
    world.check();

    world.caller = user(5);
    assert_eq!(world.run(&unlink(hour, &format!("1-{f}-f"))), Err(Errno::EPERM));
    world.caller = ROOT_USER;
    let restore = Op::Rename {
        parent: hour,
        name: name(&format!("1-{f}-f")),
        new_parent: ROOT,
        new_name: name("f"),
        mode: RenameMode::NoReplace,
    };
    world.run(&restore).unwrap();
    assert_eq!(world.attr(f).unwrap().parent, ROOT);
    world.check();
    world.run(&rmdir(hour, &format!("1-{d}-d"))).unwrap();
    assert_eq!(world.attr(d), None);
    world.check();
    let drop_hour = rmdir(Ino::TRASH, "2026-01-01-00");
    assert_eq!(world.run(&drop_hour), Err(Errno::EPERM));
    world.caller = Caller::SYSTEM;
    world.run(&drop_hour).unwrap();
    world.check();
}

#[test]
fn removals_that_skip_the_trash() {
    let mut world = World::with_trash();
    let f = world.file(ROOT, "f");
    let skip = SetAttr { flags: Some(flags::SKIP_TRASH), ..SetAttr::default() };
    world.run(&Op::SetAttr { ino: f, set: skip }).unwrap();
    assert_eq!(world.run(&unlink(ROOT, "f")), Ok(Outcome::Removed { ino: f, deleted: Some(0) }));
    // The second name with the same name in the trash is a real unlink.
    let g = world.file(ROOT, "g");
    world.run(&Op::Link { ino: g, parent: ROOT, name: name("h") }).unwrap();
    world.run(&unlink(ROOT, "g")).unwrap();
    assert_eq!(world.attr(g).unwrap().nlink, 2);
    world.run(&Op::Link { ino: g, parent: ROOT, name: name("g") }).unwrap();
    world.run(&unlink(ROOT, "g")).unwrap();
    assert_eq!(world.attr(g).unwrap().nlink, 2);
    world.check();
    let long = "n".repeat(255);
    let l = world.file(ROOT, &long);
    world.run(&unlink(ROOT, &long)).unwrap();
    let cut: Name = entry_name(ROOT, l, &name(&long)).unwrap();
    assert_eq!(cut.as_bytes().len(), 255);
    assert!(world.records.0.contains_key(&Key::Dentry(world.trash.unwrap(), cut)));
    world.trash = Some(Ino(Ino::TRASH.0 + 77));
    world.file(ROOT, "i");
    assert_eq!(
        world.run(&unlink(ROOT, "i")),
        Err(Errno::EBADF),
        "nothing is lost when the trash is not there"
    );
}

#[test]
fn shared_slices_go_with_their_last_reference() {
    let mut world = World::new();
    let (f, g) = (world.file(ROOT, "f"), world.file(ROOT, "g"));
    let slice = world.write(f, 0, 0, 5000);
    world.run(&Op::CopyRange { from: f, from_offset: 0, to: g, to_offset: 100, len: 5000 }).unwrap();
    assert_eq!(world.count(&Key::SliceRef { id: slice.id, size: 5000 }), 1);
    assert_eq!(world.run(&Op::DropChunk { ino: f, index: 0 }), Err(Errno::EBUSY), "the file is there still");
    world.run(&unlink(ROOT, "f")).unwrap();
    assert_eq!(reclaim(&mut world, f, 5000), []);
    world.run(&Op::CopyRange { from: g, from_offset: 100, to: g, to_offset: 9000, len: 50 }).unwrap();
    assert_eq!(world.count(&Key::SliceRef { id: slice.id, size: 5000 }), 1);
    world.run(&unlink(ROOT, "g")).unwrap();
    assert_eq!(reclaim(&mut world, g, 9050), [(slice.id, 5000)]);
    assert!(!world.records.0.keys().any(|key| matches!(key, Key::SliceRef { .. })));
}

#[test]
fn a_very_long_chunk_list_goes_in_parts() {
    let mut world = World::new();
    let f = world.file(ROOT, "f");
    let list: Vec<_> = (1..=3000).map(|id| SliceRecord::whole(0, SliceId(id), 10)).collect();
    world.records.0.insert(Key::Chunk(f, 0), Record::Slices(list));
    world.run(&Op::Truncate { ino: f, length: 10, through_handle: true }).unwrap();
    world.run(&unlink(ROOT, "f")).unwrap();
    assert_eq!(reclaim(&mut world, f, 10).len(), 3000);
}

#[test]
fn an_entry_without_a_node_can_be_removed() {
    let mut world = World::new();
    let kind = FileType::File;
    world.records.0.insert(Key::Dentry(ROOT, name("lost")), Record::Dentry { kind, ino: Ino(50) });
    world.run(&unlink(ROOT, "lost")).unwrap();
    assert_eq!(world.lookup(ROOT, "lost"), None);
    assert_eq!(world.attr(ROOT).unwrap().mtime, Time::new(world.now, 0));
    world.check();
}
