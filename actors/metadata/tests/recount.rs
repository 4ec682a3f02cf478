//! Statistics nobody kept: they stay unknown under every change, and are counted on demand.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{World, unlink};
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::{Errno, FileType, Ino};

#[test]
fn absent_statistics_stay_absent_until_they_are_counted() {
    let mut world = World::new();
    let dir = world.dir(Ino::ROOT, "dir");
    let f = world.file(dir, "f");
    world.write(f, 0, 0, 5000);
    world.make(dir, "s", FileType::Symlink);
    let kept = world.records.0.remove(&Key::DirStat(dir)).unwrap();
    world.write(f, 0, 0, 6000);
    world.dir(dir, "sub");
    world.file(dir, "g");
    world.run(&unlink(dir, "g")).unwrap();
    assert!(!world.records.0.contains_key(&Key::DirStat(dir)));

    assert_eq!(world.run(&Op::RecountDirStat { dir }), Ok(Outcome::Done));
    let counted = world.records.0[&Key::DirStat(dir)].clone();
    assert_ne!(counted, kept);
    assert_eq!(counted, Record::DirStat { length: 6000, space: 3 * 4096 + 4096, inodes: 3 });
    world.check();
    world.write(f, 0, 0, 9000);
    assert_eq!(world.run(&Op::RecountDirStat { dir }), Ok(Outcome::Done), "what is known stays");
    world.check();
    assert_eq!(world.run(&Op::RecountDirStat { dir: f }), Err(Errno::ENOTDIR));
}

#[test]
fn a_directory_that_changes_while_it_is_counted_is_counted_again() {
    let mut world = World::new();
    let dir = world.dir(Ino::ROOT, "dir");
    let f = world.file(dir, "f");
    world.records.0.remove(&Key::DirStat(dir));
    type Change = Box<dyn Fn(&mut World)>;
    let changes: [Change; 3] = [
        Box::new(move |w| {
            w.write(f, 0, 0, 70_000);
        }),
        Box::new(move |w| {
            w.file(dir, "g");
        }),
        Box::new(move |w| drop(w.run(&unlink(dir, "f")).unwrap())),
    ];
    for change in changes {
        let late = world.decide_early(&Op::RecountDirStat { dir }).unwrap();
        change(&mut world);
        assert!(!world.commit_late(&late), "{:?}", late.decision);
    }
    world.run(&Op::RecountDirStat { dir }).unwrap();
    world.check();
}

#[test]
fn a_large_directory_is_counted_to_its_end() {
    let mut world = World::new();
    let dir = world.dir(Ino::ROOT, "dir");
    let many = zest_types::limits::READDIR_BATCH + 3;
    for n in 0..many {
        world.file(dir, &format!("f{n}"));
    }
    let kept = world.records.0.remove(&Key::DirStat(dir));
    world.run(&Op::RecountDirStat { dir }).unwrap();
    assert_eq!(world.records.0.get(&Key::DirStat(dir)).cloned(), kept);
}
