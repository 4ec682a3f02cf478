//! The judge itself: a sound volume has no problems, and whatever is broken in it is named.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{World, name, unlink};
use zest_metadata::consistency::problems;
use zest_metadata::map::RecordMap;
use zest_metadata::{Counter, Key, Op, Record};
use zest_types::request::XattrMode;
use zest_types::{FileType, Ino, SliceId, SliceRecord};

const ROOT: Ino = Ino::ROOT;

/// A volume with one of everything: `a` a directory with `sub`, `f` and `g` names of one file, `s` a symlink,
/// `open` removed while open, `dead` removed with its data still there.
fn volume() -> (RecordMap, [Ino; 6]) {
    let mut world = World::new();
    let a = world.dir(ROOT, "a");
    let sub = world.dir(a, "sub");
    let f = world.file(ROOT, "f");
    world.write(f, 0, 0, 5000);
    world.run(&Op::Link { ino: f, parent: a, name: name("g") }).unwrap();
    let s = world.make(ROOT, "s", FileType::Symlink);
    world.run(&Op::SetXattr { ino: f, name: name("user.x"), value: vec![], mode: XattrMode::Any }).unwrap();
    let open = world.file(ROOT, "open");
    world.open.insert(open);
    world.run(&unlink(ROOT, "open")).unwrap();
    let dead = world.file(ROOT, "dead");
    world.write(dead, 0, 0, 700);
    world.run(&unlink(ROOT, "dead")).unwrap();
    world.check();
    (world.records, [a, sub, f, s, open, dead])
}

fn attr(records: &mut RecordMap, ino: Ino) -> &mut zest_types::Attr {
    match records.0.get_mut(&Key::Attr(ino)) {
        Some(Record::Attr(attr)) => attr,
        other => unreachable!("{other:?}"),
    }
}

/// Nearly every record is needed: without it something does not fit.
#[test]
fn a_missing_record_is_noticed() {
    let (whole, _) = volume();
    // Nothing is counted from these, or what is counted is nothing.
    let dispensable = |key: &Key| {
        matches!(key, Key::Xattr(..) | Key::Chunk(..) | Key::DirStat(_)) || *key == Key::Attr(Ino::TRASH)
    };
    let mut needed = 0;
    for (key, _) in whole.0.iter().filter(|(key, _)| !dispensable(key)) {
        let mut broken = whole.clone();
        broken.0.remove(key);
        assert!(!problems(&broken).is_empty(), "nobody misses {key:?}");
        needed += 1;
    }
    assert!(needed > 15, "{needed} records");
}

#[test]
fn a_wrong_record_is_noticed() {
    let (whole, [a, sub, f, s, open, dead]) = volume();
    type Break = Box<dyn Fn(&mut RecordMap)>;
    let put = |key: Key, record: Record| -> Break {
        Box::new(move |r| drop(r.0.insert(key.clone(), record.clone())))
    };
    let entry = |dir, text, kind, ino| put(Key::Dentry(dir, name(text)), Record::Dentry { kind, ino });
    let quota = |key, used_space, used_inodes| {
        put(key, Record::Quota { max_space: -1, max_inodes: -1, used_space, used_inodes })
    };
    let slice = |id, size| Record::Slices(vec![SliceRecord::whole(0, SliceId(id), size)]);
    let breaks: Vec<(&str, Break)> = vec![
        ("link count of a file", Box::new(move |r| attr(r, f).nlink = 3)),
        ("link count of a directory", Box::new(move |r| attr(r, a).nlink = 2)),
        ("length", Box::new(move |r| attr(r, f).length = 50_000)),
        ("parent of a directory", Box::new(move |r| attr(r, sub).parent = ROOT)),
        ("parent of a node", Box::new(move |r| attr(r, s).parent = a)),
        ("length of a symlink", Box::new(move |r| attr(r, s).length = 1)),
        ("parent count", put(Key::Parent { ino: f, parent: a }, Record::Count(2))),
        ("entry that leads nowhere", entry(ROOT, "x", FileType::File, Ino(77))),
        ("entry of another kind", entry(ROOT, "s", FileType::Fifo, s)),
        ("entry in a file", entry(f, "x", FileType::Symlink, s)),
        ("second name of a directory", entry(ROOT, "x", FileType::Directory, sub)),
        ("statistics", put(Key::DirStat(a), Record::DirStat { length: 1, space: 0, inodes: 0 })),
        (
            "statistics of nothing",
            put(Key::DirStat(Ino(77)), Record::DirStat { length: 0, space: 0, inodes: 0 }),
        ),
        ("directory quota", quota(Key::DirQuota(a), 4096 + 4096, 2)),
        ("user quota", quota(Key::UserQuota(0), 1, 1)),
        ("used space", put(Key::Counter(Counter::UsedSpace), Record::Count(4096))),
        ("number of inodes", put(Key::Counter(Counter::TotalInodes), Record::Count(1))),
        ("slice shown twice", put(Key::Chunk(f, 1), slice(1, 5000))),
        ("references too many", put(Key::SliceRef { id: SliceId(1), size: 5000 }, Record::Count(1))),
        ("references of nothing", put(Key::SliceRef { id: SliceId(77), size: 1 }, Record::Count(0))),
        ("chunk list of a directory", put(Key::Chunk(a, 0), slice(9, 1))),
        ("chunk list of nothing", put(Key::Chunk(Ino(77), 0), slice(9, 1))),
        (
            "record beyond its slice",
            put(
                Key::Chunk(f, 1),
                Record::Slices(vec![SliceRecord { off: 9, ..SliceRecord::whole(0, SliceId(9), 5) }]),
            ),
        ),
        ("attribute of nothing", put(Key::Xattr(Ino(77), name("user.x")), Record::Bytes(vec![]))),
        ("target of nothing", put(Key::Symlink(Ino(77)), Record::Bytes(vec![]))),
        ("mark of nothing", put(Key::Sustained { session: 1, ino: dead }, Record::Mark)),
        ("a node that waits for removal", put(Key::Deleted { ino: open, length: 0 }, Record::Stamp(1))),
        ("record of the wrong kind", put(Key::Symlink(s), Record::Mark)),
        (
            "directories in a circle",
            Box::new(move |r| {
                r.0.remove(&Key::Dentry(ROOT, name("a")));
                r.0.insert(Key::Dentry(sub, name("a")), Record::Dentry { kind: FileType::Directory, ino: a });
                attr(r, a).parent = sub;
            }),
        ),
    ];
    for (what, break_it) in breaks {
        let mut broken = whole.clone();
        break_it(&mut broken);
        assert_ne!(broken, whole, "{what} changes nothing");
        assert!(!problems(&broken).is_empty(), "{what} is not noticed");
    }
}
