//! Copies that share their content: what they have of what they are copies of, what they cost, and how a copy of
//! a directory comes to its name.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{World, name, unlink, user};
use zest_metadata::op::CloneMode;
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::request::{RenameMode, SetAttr, XattrMode};
use zest_types::{Attr, Errno, FileType, Ino, SliceId, SliceRecord};

const PLAIN: CloneMode = CloneMode { keep: false, umask: 0o022, inside: false };
const KEEP: CloneMode = CloneMode { keep: true, ..PLAIN };
const INSIDE: CloneMode = CloneMode { inside: true, ..KEEP };

fn clone(from: Ino, parent: Ino, text: &str, mode: CloneMode) -> Op {
    Op::Clone { from, parent, name: name(text), mode }
}

#[test]
fn a_file_shares_its_slices_with_its_copy() {
    let mut world = World::new();
    let f = world.file(Ino::ROOT, "f");
    let slice = world.write(f, 0, 0, 5000);
    world.write(f, 2, 9, 700);
    world.run(&Op::SetXattr { ino: f, name: name("user.x"), value: vec![7], mode: XattrMode::Any }).unwrap();
    world.run(&Op::Link { ino: f, parent: Ino::ROOT, name: name("link") }).unwrap();
    let set = SetAttr { mode: Some(0o4777), uid: Some(3), ..SetAttr::default() };
    world.run(&Op::SetAttr { ino: f, set }).unwrap();
    let source = world.attr(f).unwrap();

    let (kept, attr) = world.node(&clone(f, Ino::ROOT, "kept", KEEP));
    assert_eq!(attr, Attr { parent: Ino::ROOT, nlink: 1, ..source.clone() });
    let (plain, attr) = world.node(&clone(f, Ino::ROOT, "plain", PLAIN));
    assert_eq!((attr.uid, attr.mode, attr.mtime.sec), (0, source.mode & !0o022, world.now));
    for ino in [kept, plain] {
        assert_eq!(world.slices(ino, 0), world.slices(f, 0));
        assert_eq!(world.slices(ino, 2), world.slices(f, 2));
        let value = world.records.0.get(&Key::Xattr(ino, name("user.x")));
        assert_eq!(value, Some(&Record::Bytes(vec![7])));
    }
    assert_eq!(world.count(&Key::SliceRef { id: slice.id, size: slice.size }), 2);
    world.check();
    world.run(&unlink(Ino::ROOT, "f")).unwrap();
    world.run(&unlink(Ino::ROOT, "link")).unwrap();
    assert_eq!(world.run(&Op::DropChunk { ino: f, index: 0 }), Ok(Outcome::Unreferenced(vec![])));
    world.check();

    let link = world.make(Ino::ROOT, "s", FileType::Symlink);
    let (copy, attr) = world.node(&clone(link, Ino::ROOT, "s2", KEEP));
    assert_eq!(attr.length, world.attr(link).unwrap().length);
    assert_eq!(world.records.0.get(&Key::Symlink(copy)), world.records.0.get(&Key::Symlink(link)));
    world.node(&clone(world.lookup(Ino::ROOT, "kept").unwrap(), Ino::ROOT, "again", KEEP));
    world.check();
}

#[test]
fn a_file_that_changes_while_it_is_cloned_is_cloned_again() {
    let mut world = World::new();
    let f = world.file(Ino::ROOT, "f");
    world.write(f, 0, 0, 5000);
    let late = world.decide_early(&clone(f, Ino::ROOT, "g", KEEP)).unwrap();
    world.write(f, 0, 0, 10);
    assert!(!world.commit_late(&late));
    world.check();
}

#[test]
fn what_may_not_be_cloned() {
    let mut world = World::with_trash();
    let f = world.file(Ino::ROOT, "f");
    let dir = world.dir(Ino::ROOT, "dir");
    let fixed = world.dir(Ino::ROOT, "fixed");
    let set = SetAttr { flags: Some(1), ..SetAttr::default() };
    world.run(&Op::SetAttr { ino: fixed, set }).unwrap();
    let hour = world.trash.unwrap();
    assert_eq!(world.run(&clone(dir, Ino::ROOT, "x", KEEP)), Err(Errno::EISDIR));
    assert_eq!(world.run(&clone(f, Ino::ROOT, "dir", KEEP)), Err(Errno::EEXIST));
    assert_eq!(world.run(&clone(f, fixed, "x", KEEP)), Err(Errno::EPERM));
    assert_eq!(world.run(&clone(f, f, "x", KEEP)), Err(Errno::ENOTDIR));
    assert_eq!(world.run(&clone(f, hour, "x", KEEP)), Err(Errno::EPERM));
    assert_eq!(world.run(&clone(Ino(99), dir, "x", KEEP)), Err(Errno::ENOENT));
    world.run(&Op::SetAttr { ino: f, set: SetAttr { mode: Some(0o600), ..SetAttr::default() } }).unwrap();
    world.caller = user(9);
    assert_eq!(world.run(&clone(f, Ino::ROOT, "x", KEEP)), Err(Errno::EACCES));
    world.caller = driver::ROOT_USER;
    world.run(&unlink(Ino::ROOT, "f")).unwrap();
    assert_eq!(world.run(&clone(f, dir, "x", KEEP)), Err(Errno::EPERM));
    world.check();
}

#[test]
fn a_directory_is_filled_before_it_has_a_name() {
    let mut world = World::new();
    world.user_quotas = true;
    let quota = Key::DirQuota(Ino::ROOT);
    let limits =
        |space| Op::SetQuota { quota: quota.clone(), max_space: Some(space), max_inodes: None, usage: None };
    world.run(&limits(-1)).unwrap();
    let dir = world.dir(Ino::ROOT, "dir");
    let sub = world.dir(dir, "sub");
    let f = world.file(sub, "f");
    world.write(f, 0, 0, 5000);
    let start = Op::CloneDetached { from: dir, parent: Ino::ROOT, name: name("copy"), mode: KEEP };
    let (copy, _) = world.node(&start);
    world.check();
    let (copied_sub, _) = world.node(&clone(sub, copy, "sub", INSIDE));
    let (copied, _) = world.node(&clone(f, copied_sub, "f", INSIDE));
    world.check();
    assert_eq!(world.lookup(Ino::ROOT, "copy"), None);
    let times = |world: &World, ino| world.attr(ino).map(|a| (a.mtime, a.ctime, a.nlink));
    assert_eq!(times(&world, copy), times(&world, dir), "as old as what it is a copy of");
    let attach = |text| Op::Attach { ino: copy, parent: Ino::ROOT, name: name(text) };
    assert_eq!(world.run(&attach("dir")), Err(Errno::EEXIST));
    let into_itself = Op::Attach { ino: copy, parent: copied_sub, name: name("loop") };
    assert_eq!(world.run(&into_itself), Err(Errno::EIO));
    world.run(&attach("copy")).unwrap();
    assert_eq!(world.run(&attach("again")), Err(Errno::ENOENT));
    world.check();
    assert_eq!(world.lookup(copied_sub, "f"), Some(copied));

    // Given up: what is inside goes first.
    let (copy, _) =
        world.node(&Op::CloneDetached { from: dir, parent: Ino::ROOT, name: name("x"), mode: KEEP });
    world.node(&clone(f, copy, "f", INSIDE));
    assert_eq!(world.run(&Op::Discard { ino: copy }), Err(Errno::ENOTEMPTY));
    world.run(&unlink(copy, "f")).unwrap();
    world.run(&Op::Discard { ino: copy }).unwrap();
    assert_eq!((world.attr(copy), world.run(&Op::Discard { ino: copy })), (None, Ok(Outcome::Done)));
    world.check();
    world.run(&limits(1)).unwrap();
    assert_eq!(world.run(&start), Err(Errno::EEXIST));
    assert_eq!(world.run(&clone(f, Ino::ROOT, "y", KEEP)), Err(Errno::EDQUOT));
}

#[test]
fn a_file_too_large_for_one_step_says_so() {
    let mut world = World::new();
    let f = world.file(Ino::ROOT, "f");
    let many = zest_types::limits::CHANGE_SET_MAX as u64 / 4 + 2;
    let list = (0..many).map(|n| SliceRecord::whole(0, SliceId(n + 1), 10)).collect();
    world.write(f, 0, 0, 10);
    world.records.0.insert(Key::Chunk(f, 0), Record::Slices(list));
    assert_eq!(world.run(&clone(f, Ino::ROOT, "g", KEEP)), Err(Errno::EFBIG));
    let start = Op::CloneDetached { from: f, parent: Ino::ROOT, name: name("g"), mode: KEEP };
    let (g, attr) = world.node(&start);
    assert_eq!(attr.length, 0);
    world.run(&Op::CopyRange { from: f, from_offset: 0, to: g, to_offset: 0, len: 10 }).unwrap();
    world.run(&Op::Attach { ino: g, parent: Ino::ROOT, name: name("g") }).unwrap();
    assert_eq!(world.attr(g).unwrap().length, 10);
}

#[test]
fn a_tree_in_the_trash_is_put_together_again() {
    let mut world = World::with_trash();
    let hour = world.trash.unwrap();
    let dir = world.dir(Ino::ROOT, "dir");
    let f = world.file(dir, "f");
    world.run(&unlink(dir, "f")).unwrap();
    world.run(&driver::rmdir(Ino::ROOT, "dir")).unwrap();
    let entry = |parent: Ino, ino: Ino, text: &str| name(&format!("{parent}-{ino}-{text}"));
    let rename = Op::Rename {
        parent: hour,
        name: entry(dir, f, "f"),
        new_parent: dir,
        new_name: name("f"),
        mode: RenameMode::NoReplace,
    };
    assert_eq!(world.run(&rename), Err(Errno::ENOENT), "only a restore goes there");
    let restore = |from, text: &str, parent| Op::Restore { hour, name: from, parent, new_name: name(text) };
    world.run(&restore(entry(dir, f, "f"), "f", dir)).unwrap();
    world.run(&restore(entry(Ino::ROOT, dir, "dir"), "dir", Ino::ROOT)).unwrap();
    assert_eq!((world.lookup(Ino::ROOT, "dir"), world.lookup(dir, "f")), (Some(dir), Some(f)));
    world.check();
    assert_eq!(
        world.run(&Op::Restore { hour: dir, name: name("f"), parent: Ino::ROOT, new_name: name("g") }),
        Err(Errno::EINVAL)
    );
    world.caller = user(5);
    world.run(&restore(entry(dir, f, "f"), "f", dir)).unwrap_err();
}
