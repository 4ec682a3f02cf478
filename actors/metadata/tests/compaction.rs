//! Compaction as a change: the list, the references, what waits, and what was in vain.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{World, unlink};
use zest_metadata::compaction::choose;
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::{Ino, SliceId, SliceRecord};

fn compact(world: &mut World, ino: Ino, delayed: bool) -> Op {
    let choice = choose(&world.slices(ino, 0)).unwrap();
    let record = SliceRecord::whole(choice.pos, SliceId(world.next_slice), choice.size);
    world.next_slice += 1;
    Op::Compact { ino, index: 0, seen: choice.seen, skipped: choice.skipped, record, delayed }
}

/// A file of three overlapping slices.
fn written() -> (World, Ino, [SliceRecord; 3]) {
    let mut world = World::new();
    let f = world.file(Ino::ROOT, "f");
    let slices = [(0, 100), (50, 100), (0, 10)].map(|(pos, len)| world.write(f, 0, pos, len));
    (world, f, slices)
}

#[test]
fn the_first_records_become_one_and_later_ones_stay_behind_it() {
    let (mut world, f, old) = written();
    let attr = world.attr(f);
    let op = compact(&mut world, f, false);
    let late = world.write(f, 0, 20, 5);
    let after = world.attr(f);
    let Ok(Outcome::Unreferenced(gone)) = world.run(&op) else { unreachable!() };
    assert_eq!(gone, old.map(|s| (s.id, s.size)));
    let Op::Compact { record, .. } = op else { unreachable!() };
    assert_eq!(world.slices(f, 0), [record, late]);
    assert_eq!(world.attr(f), after);
    assert_ne!(attr, after, "the write in between");
    world.check();
    for (id, size) in gone {
        world.run(&Op::DropSliceRef { id, size }).unwrap();
    }
    world.run(&Op::DropSliceRef { id: record.id, size: record.size }).unwrap();
    let counts = |key: &Key| matches!(key, Key::SliceRef { .. });
    assert!(!world.records.0.keys().any(counts), "the mark goes, the reference stays");
    world.check();
}

#[test]
fn replaced_slices_wait_as_long_as_the_trash_keeps_things() {
    let (mut world, f, old) = written();
    let g = world.file(Ino::ROOT, "g");
    let copy = Op::CopyRange { from: f, from_offset: 60, to: g, to_offset: 0, len: 20 };
    world.run(&copy).unwrap();
    let op = compact(&mut world, f, true);
    assert_eq!(world.run(&op), Ok(Outcome::Unreferenced(vec![])));
    world.check();
    let Op::Compact { record, .. } = op else { unreachable!() };
    let (stamp, id) = (world.now, record.id);
    let list = world.records.0.get(&Key::DelayedSlices { stamp, id });
    assert_eq!(list, Some(&Record::SliceList(old.map(|s| (s.id, s.size)).to_vec())));
    let Ok(Outcome::Unreferenced(gone)) = world.run(&Op::DropDelayed { stamp, id }) else { unreachable!() };
    assert_eq!(gone, [(old[0].id, 100), (old[2].id, 10)], "one slice is shown by the copy still");
    assert_eq!(world.run(&Op::DropDelayed { stamp, id }), Ok(Outcome::Unreferenced(vec![])));
    world.check();
}

#[test]
fn a_list_that_is_not_what_it_was_makes_the_new_slice_garbage() {
    let (mut world, f, _) = written();
    let (first, second) = (compact(&mut world, f, false), compact(&mut world, f, true));
    world.run(&first).unwrap();
    let Op::Compact { record, .. } = &second else { unreachable!() };
    let garbage = vec![(record.id, record.size)];
    assert_eq!(world.run(&second), Ok(Outcome::Unreferenced(garbage)));
    assert_eq!(world.count(&Key::SliceRef { id: record.id, size: record.size }), -1);
    world.check();
    // A repetition of what was done before changes nothing, and makes nothing garbage.
    let before = world.records.clone();
    assert_eq!(world.run(&first), Ok(Outcome::Unreferenced(vec![])));
    assert_eq!(world.run(&second), Ok(Outcome::Unreferenced(vec![])));
    assert_eq!(world.records, before);

    let (mut world, f, _) = written();
    let op = compact(&mut world, f, true);
    world.run(&unlink(Ino::ROOT, "f")).unwrap();
    world.run(&Op::DropChunk { ino: f, index: 0 }).unwrap();
    assert!(matches!(world.run(&op), Ok(Outcome::Unreferenced(gone)) if gone.len() == 1));
    assert!(world.slices(f, 0).is_empty());
    world.check();
}
