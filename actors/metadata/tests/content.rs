//! What files show after slices, truncates, holes and copies, against files that are plain arrays; and sizes at
//! the edge of what a file can have.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{World, commit};
use proptest::prelude::*;
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::attr::flags;
use zest_types::limits::{CHUNK_SIZE, FILE_MAX};
use zest_types::overlay::visible_in;
use zest_types::request::{Fallocate, SetAttr};
use zest_types::slice::chunk_ranges;
use zest_types::{Caller, Errno, FileType, Ino, SliceId, SliceRecord, Time};

const ROOT: Ino = Ino::ROOT;
/// A chunk has eight units; every offset and length is a multiple of one.
const UNIT: u64 = CHUNK_SIZE / 8;
/// Units a file may have in the test against arrays.
const UNITS: u64 = 40;

fn truncate(ino: Ino, length: u64) -> Op {
    Op::Truncate { ino, length, through_handle: false }
}

fn fallocate(ino: Ino, offset: u64, len: u64, mode: Fallocate) -> Op {
    Op::Fallocate { ino, offset, len, mode }
}

fn copy(from: Ino, from_offset: u64, to: Ino, to_offset: u64, len: u64) -> Op {
    Op::CopyRange { from, from_offset, to, to_offset, len }
}

/// Which unit of which slice each unit of a file shows.
fn shown(world: &World, ino: Ino) -> Vec<(u64, u64)> {
    let length = world.attr(ino).unwrap().length;
    let mut units = Vec::new();
    for range in chunk_ranges(0, length) {
        for piece in visible_in(&world.slices(ino, range.index), range.pos, range.len) {
            assert!(u64::from(piece.pos) % UNIT == 0 && u64::from(piece.len) % UNIT == 0);
            for i in 0..u64::from(piece.len) / UNIT {
                let unit = u64::from(piece.off) / UNIT + i;
                units.push(if piece.id.is_zeros() { (0, 0) } else { (piece.id.0, unit) });
            }
        }
    }
    units
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, u64, u64),
    Truncate(usize, u64),
    Fallocate(usize, u64, u64, Fallocate),
    Copy(usize, u64, usize, u64, u64),
}

fn any_change() -> impl Strategy<Value = Change> {
    let (file, at, len) = (0..2usize, 0..UNITS / 2, 1..UNITS / 2);
    prop_oneof![
        (file.clone(), at.clone(), 1..8u64).prop_map(|(f, at, len)| Change::Write(f, at, len)),
        (file.clone(), 0..UNITS).prop_map(|(f, to)| Change::Truncate(f, to)),
        (file.clone(), at.clone(), len.clone(), 0..5usize).prop_map(|(f, at, len, mode)| {
            use Fallocate::{Allocate, KeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize};
            let mode = [Allocate, KeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize][mode];
            Change::Fallocate(f, at, len, mode)
        }),
        (file.clone(), at.clone(), file, at, len)
            .prop_map(|(from, at, to, to_at, len)| Change::Copy(from, at, to, to_at, len)),
    ]
}

/// A file as an array.
type Units = Vec<(u64, u64)>;

fn put(units: &mut Units, at: u64, new: &[(u64, u64)]) {
    let (at, end) = (at as usize, at as usize + new.len());
    units.resize(units.len().max(end), (0, 0));
    units[at..end].copy_from_slice(new);
}

fn change(world: &mut World, inos: [Ino; 2], model: &mut [Units; 2], change: &Change) {
    match change {
        Change::Write(f, at, len) => {
            // A slice stays inside its chunk.
            let len = (*len).min(8 - at % 8);
            let slice = world.write(inos[*f], (at / 8) as u32, (at % 8 * UNIT) as u32, (len * UNIT) as u32);
            let new: Units = (0..len).map(|i| (slice.id.0, i)).collect();
            put(&mut model[*f], *at, &new);
        }
        Change::Truncate(f, to) => {
            world.run(&truncate(inos[*f], to * UNIT)).unwrap();
            model[*f].resize(*to as usize, (0, 0));
        }
        Change::Fallocate(f, at, len, mode) => {
            world.run(&fallocate(inos[*f], at * UNIT, len * UNIT, *mode)).unwrap();
            let (units, start, end) = (&mut model[*f], *at as usize, (at + len) as usize);
            if matches!(mode, Fallocate::Allocate | Fallocate::ZeroRange) {
                units.resize(units.len().max(end), (0, 0));
            }
            if !matches!(mode, Fallocate::Allocate | Fallocate::KeepSize) && start < units.len() {
                let end = end.min(units.len());
                units[start..end].fill((0, 0));
            }
        }
        Change::Copy(from, at, to, to_at, len) => {
            let source = model[*from].len() as u64;
            let len = (*len).min(source.saturating_sub(*at));
            let op = copy(inos[*from], at * UNIT, inos[*to], to_at * UNIT, len * UNIT);
            if from == to && len > 0 && at.abs_diff(*to_at) < len {
                assert_eq!(world.run(&op), Err(Errno::EINVAL));
                return;
            }
            assert_eq!(world.run(&op), Ok(Outcome::Copied(len * UNIT)));
            if len > 0 {
                let new = model[*from][*at as usize..(at + len) as usize].to_vec();
                put(&mut model[*to], *to_at, &new);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_show_what_arrays_show(changes in prop::collection::vec(any_change(), 1..40)) {
        let mut world = World::new();
        let inos = [world.file(ROOT, "a"), world.file(ROOT, "b")];
        let mut model: [Units; 2] = Default::default();
        for c in &changes {
            change(&mut world, inos, &mut model, c);
            for (ino, units) in inos.iter().zip(&model) {
                prop_assert_eq!(&shown(&world, *ino), units, "after {:?}", c);
            }
            world.check();
        }
    }
}

#[test]
fn truncate_writes_the_records_of_the_format() {
    let mut world = World::new();
    let f = world.file(ROOT, "f");
    for index in [0, 1, 3] {
        world.write(f, index, 0, 100);
    }
    let end = 4 * CHUNK_SIZE + 50;
    world.run(&truncate(f, end)).unwrap();
    let last = |world: &World, index| world.slices(f, index).last().copied();
    let whole = CHUNK_SIZE as u32;
    assert_eq!(last(&world, 3), Some(SliceRecord::zeros(100, whole - 100)));
    assert_eq!(last(&world, 4), Some(SliceRecord::zeros(0, 50)));
    world.run(&truncate(f, 30)).unwrap();
    assert_eq!(world.rounds, 1);
    assert_eq!(last(&world, 0), Some(SliceRecord::zeros(30, whole - 30)));
    assert_eq!(last(&world, 1), Some(SliceRecord::zeros(0, whole)));
    assert_eq!(world.slices(f, 2), [], "a hole in the middle needs no record");
    assert_eq!(last(&world, 3), Some(SliceRecord::zeros(0, whole)));
    assert_eq!(last(&world, 4), Some(SliceRecord::zeros(0, 50)));
    let attr = world.attr(f).unwrap();
    assert_eq!((attr.length, attr.mtime, attr.ctime.sec), (30, attr.ctime, world.now));
}

#[test]
fn the_largest_sizes_cost_a_few_records() {
    let mut world = World::new();
    let f = world.file(ROOT, "f");
    world.write(f, 5, 0, 100);
    for length in [FILE_MAX - 1, 7, FILE_MAX - 1, FILE_MAX / 2, 0] {
        world.run(&truncate(f, length)).unwrap();
        assert_eq!(world.attr(f).unwrap().length, length);
        world.check();
    }
    assert_eq!(world.slices(f, 5).len(), 5, "zeroed by whichever truncate passed it");
    let lists = world.records.0.keys().filter(|key| matches!(key, Key::Chunk(..))).count();
    assert!(lists < 6, "{lists} chunk lists");
    assert_eq!(world.run(&truncate(f, FILE_MAX)), Err(Errno::EFBIG));
    let punch = |offset, len, mode| fallocate(f, offset, len, mode);
    assert_eq!(world.run(&punch(FILE_MAX - 10, 10, Fallocate::Allocate)), Err(Errno::EFBIG));
    assert_eq!(world.run(&punch(u64::MAX, 10, Fallocate::PunchHole)), Err(Errno::EFBIG));
    world.run(&punch(1, FILE_MAX - 10, Fallocate::ZeroRange)).unwrap();
    assert_eq!(world.attr(f).unwrap().length, FILE_MAX - 9);
    let g = world.file(ROOT, "g");
    assert!(matches!(world.run(&copy(f, 0, g, 0, u64::MAX)), Ok(Outcome::Copied(n)) if n >= CHUNK_SIZE));
    assert_eq!(world.run(&copy(f, 0, g, FILE_MAX - 5, 10)), Err(Errno::EFBIG));
    let record = SliceRecord::whole(CHUNK_SIZE as u32 - 10, SliceId(9), 10);
    let far = commit(f, (FILE_MAX / CHUNK_SIZE - 1) as u32, record, Time::new(1, 0));
    assert_eq!(world.run(&far), Err(Errno::EFBIG));
    world.check();
}

/// A file with more chunk lists than a change set may touch.
fn dense(world: &mut World, lists: u32) -> Ino {
    let f = world.file(ROOT, "f");
    world.run(&truncate(f, u64::from(lists) * CHUNK_SIZE)).unwrap();
    for index in 0..lists {
        let list = vec![SliceRecord::whole(0, SliceId(u64::from(index) + 1), CHUNK_SIZE as u32)];
        world.records.0.insert(Key::Chunk(f, index), Record::Slices(list));
    }
    f
}

fn all_zeros(world: &World, f: Ino, from: u32, to: u32) -> bool {
    let whole = [SliceRecord::zeros(0, CHUNK_SIZE as u32)];
    (from..to).all(|index| visible_in(&world.slices(f, index), 0, CHUNK_SIZE as u32) == whole)
}

#[test]
fn very_many_chunks_are_zeroed_in_steps() {
    let mut world = World::new();
    let f = dense(&mut world, 5000);
    let step = world.decide(&truncate(f, 0)).unwrap();
    let Outcome::Node { attr, .. } = step.outcome else { unreachable!() };
    assert!(attr.length > 0 && attr.length < 5000 * CHUNK_SIZE, "the first step cuts at the end");
    world.run(&truncate(f, 0)).unwrap();
    assert!(all_zeros(&world, f, 0, 5000) && world.attr(f).unwrap().length == 0);
    world.check();

    let mut world = World::new();
    let f = dense(&mut world, 5000);
    world.run(&fallocate(f, CHUNK_SIZE, 4990 * CHUNK_SIZE, Fallocate::PunchHole)).unwrap();
    assert!(all_zeros(&world, f, 1, 4991));
    assert!(!all_zeros(&world, f, 0, 1) && !all_zeros(&world, f, 4991, 4992));
    world.check();

    let mut world = World::new();
    let f = dense(&mut world, 3000);
    let Some(Record::Attr(attr)) = world.records.0.get_mut(&Key::Attr(f)) else { unreachable!() };
    attr.length = 10;
    world.run(&truncate(f, FILE_MAX - 1)).unwrap();
    assert!(all_zeros(&world, f, 1, 3000), "what lay behind the end stays hidden");
}

#[test]
fn a_sparse_giant_is_cut_in_few_steps() {
    let mut world = World::new();
    let f = dense(&mut world, 3000);
    world.run(&truncate(f, FILE_MAX - 1)).unwrap();
    let mut steps = 0;
    while world.attr(f).unwrap().length > 0 {
        let decision = world.decide(&truncate(f, 0)).unwrap();
        assert!(world.rounds < 40);
        world.commit(&decision).unwrap();
        steps += 1;
        assert!(steps < 40);
    }
    assert!(all_zeros(&world, f, 0, 3000));
}

#[test]
fn what_content_changes_refuse() {
    let mut world = World::new();
    let (f, d) = (world.file(ROOT, "f"), world.dir(ROOT, "d"));
    let fifo = world.make(ROOT, "fifo", FileType::Fifo);
    assert_eq!(world.run(&truncate(d, 0)), Err(Errno::EISDIR));
    assert_eq!(world.run(&truncate(fifo, 0)), Err(Errno::EINVAL));
    assert_eq!(world.run(&truncate(Ino(99), 0)), Err(Errno::ENOENT));
    assert_eq!(world.run(&fallocate(f, 0, 0, Fallocate::Allocate)), Err(Errno::EINVAL));
    assert_eq!(world.run(&fallocate(fifo, 0, 1, Fallocate::Allocate)), Err(Errno::EPIPE));
    assert_eq!(world.run(&copy(d, 0, f, 0, 1)), Err(Errno::EINVAL));
    assert_eq!(world.run(&copy(f, 5, f, 0, 1)), Ok(Outcome::Copied(0)));
    let commit = |ino, record| commit(ino, 0, record, Time::new(1, 0));
    assert_eq!(world.run(&commit(f, SliceRecord::zeros(5, 0))), Err(Errno::EINVAL));
    let beyond = SliceRecord { off: 5, ..SliceRecord::whole(0, SliceId(1), 10) };
    assert_eq!(world.run(&commit(f, beyond)), Err(Errno::EINVAL));
    assert_eq!(world.run(&commit(d, SliceRecord::zeros(0, 5))), Err(Errno::EPERM));
    assert_eq!(world.run(&commit(Ino(99), SliceRecord::zeros(0, 5))), Err(Errno::ENOENT));
    let set = |bits| Op::SetAttr { ino: f, set: SetAttr { flags: Some(bits), ..SetAttr::default() } };
    for bits in [flags::IMMUTABLE, flags::APPEND] {
        world.run(&set(bits)).unwrap();
        assert_eq!(world.run(&truncate(f, 9)), Err(Errno::EPERM));
        assert_eq!(world.run(&fallocate(f, 0, 9, Fallocate::PunchHole)), Err(Errno::EPERM));
        assert_eq!(world.run(&copy(f, 0, f, 0, 1)), Err(Errno::EPERM));
    }
    world.run(&fallocate(f, 0, 9, Fallocate::Allocate)).unwrap();
    world.check();
}

#[test]
fn a_truncate_by_a_stranger_needs_the_right_and_takes_setuid() {
    let mut world = World::new();
    let f = world.file(ROOT, "f");
    let mode = |mode| Op::SetAttr { ino: f, set: SetAttr { mode: Some(mode), ..SetAttr::default() } };
    world.run(&mode(0o6755)).unwrap();
    world.caller = driver::user(5);
    assert_eq!(world.run(&truncate(f, 1)), Err(Errno::EACCES));
    world.run(&Op::Truncate { ino: f, length: 1, through_handle: true }).unwrap();
    assert_eq!(world.attr(f).unwrap().mode, 0o755);
    world.caller = Caller::SYSTEM;
    world.run(&mode(0o6767)).unwrap();
    world.caller = Caller { check: false, ..driver::user(5) };
    world.run(&truncate(f, 2)).unwrap();
    assert_eq!(world.attr(f).unwrap().mode, 0o6767, "the kernel sees to it itself");
}
