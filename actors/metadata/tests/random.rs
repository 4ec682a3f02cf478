//! Random changes, some decided from records that another change has made old since: whatever is committed
//! leaves a volume in which everything fits, and the same changes leave the same volume.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{Late, World, make_op, name, rmdir, unlink};
use proptest::prelude::*;
use zest_metadata::compaction::choose;
use zest_metadata::op::CloneMode;
use zest_metadata::{Key, Op, Record};
use zest_types::limits::CHUNK_SIZE;
use zest_types::request::{Fallocate, RenameMode, SetAttr, XattrMode};
use zest_types::{Attr, FileType, Ino, Placed, SliceId, SliceRecord, Time};

/// Numbers a step draws what it needs from.
#[derive(Clone, Debug)]
struct Step {
    what: u8,
    a: u8,
    b: u8,
    c: u8,
    d: u8,
    /// The next step's change is decided before this one is committed.
    together: bool,
}

prop_compose! {
    fn any_step()(what in 0..115u8, a: u8, b: u8, c: u8, d: u8, together in prop::bool::weighted(0.5)) -> Step {
        Step { what, a, b, c, d, together }
    }
}

/// Nodes of the world, those in the trash included.
fn nodes(world: &World, wanted: impl Fn(&Attr) -> bool) -> Vec<Ino> {
    let attr = |(key, record): (&Key, &Record)| match (key, record) {
        (Key::Attr(ino), Record::Attr(attr)) if wanted(attr) => Some(*ino),
        _ => None,
    };
    world.records.0.iter().filter_map(attr).collect()
}

fn pick<T: Copy>(from: &[T], n: u8) -> Option<T> {
    from.get(usize::from(n) % from.len().max(1)).copied()
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Most changes happen in few directories, so that they meet.
const DIRS: usize = 6;

fn op(world: &World, step: &Step) -> Option<Op> {
    let mut dirs = nodes(world, Attr::is_dir);
    // The last one may be in the trash.
    dirs = dirs.iter().take(DIRS).chain(dirs.last()).copied().collect();
    let files = nodes(world, Attr::is_file);
    let others = nodes(world, |attr| !attr.is_dir());
    let text = |n: u8| NAMES[usize::from(n) % NAMES.len()];
    let (dir, dir2) = (pick(&dirs, step.a)?, pick(&dirs, step.b)?);
    let offset = |n: u8| u64::from(n) * CHUNK_SIZE / 40;
    Some(match step.what {
        0..=14 => make_op(dir, text(step.c), FileType::File),
        15..=29 => make_op(dir, text(step.c), FileType::Directory),
        30..=33 => make_op(dir, text(step.c), FileType::Symlink),
        34..=36 => make_op(dir, text(step.c), FileType::Fifo),
        37..=44 => unlink(dir, text(step.c)),
        45..=50 => rmdir(dir, text(step.c)),
        51..=64 => Op::Rename {
            parent: dir,
            name: name(text(step.c)),
            new_parent: dir2,
            new_name: name(text(step.d)),
            mode: match step.d / 5 % 4 {
                0 | 1 => RenameMode::Replace,
                2 => RenameMode::NoReplace,
                _ => RenameMode::Exchange,
            },
        },
        65..=70 => Op::Link { ino: pick(&others, step.b)?, parent: dir, name: name(text(step.c)) },
        71..=78 => {
            // A slice that shows in one to three places, in one chunk or in several.
            let part = |n: u32| Placed {
                index: (u32::from(step.b) + n * u32::from(step.d % 2)) % 3,
                record: SliceRecord {
                    pos: (u32::from(step.c) + n) * 4096,
                    id: SliceId(world.next_slice),
                    size: 5000 * (1 + u32::from(step.d) % 3),
                    off: 5000 * n,
                    len: 5000,
                },
            };
            let parts = (0..1 + u32::from(step.d) % 3).map(part).collect();
            Op::CommitSlices { ino: pick(&files, step.a)?, parts, mtime: Time::new(world.now, 5) }
        }
        79..=82 => Op::Truncate { ino: pick(&files, step.a)?, length: offset(step.b), through_handle: true },
        83..=85 => Op::Fallocate {
            ino: pick(&files, step.a)?,
            offset: offset(step.b),
            len: 1 + offset(step.c),
            mode: [Fallocate::Allocate, Fallocate::PunchHole, Fallocate::ZeroRange][usize::from(step.d % 3)],
        },
        86..=90 => Op::CopyRange {
            from: pick(&files, step.a)?,
            from_offset: offset(step.b % 40),
            to: pick(&files, step.c)?,
            to_offset: offset(step.d),
            len: 1 + offset(step.b),
        },
        91 => Op::SetXattr {
            ino: pick(&others, step.a)?,
            name: name("user.x"),
            value: vec![1],
            mode: XattrMode::Any,
        },
        92 => {
            Op::SetAttr { ino: pick(&others, step.a)?, set: SetAttr { uid: Some(5), ..SetAttr::default() } }
        }
        _ => return later_op(world, step, (dir, dir2), &others),
    })
}

/// What gives back, rewrites and copies.
fn later_op(world: &World, step: &Step, (dir, dir2): (Ino, Ino), others: &[Ino]) -> Option<Op> {
    let target = || name(NAMES[usize::from(step.c) % NAMES.len()]);
    let clone = |parent, inside| {
        let from = pick(others, step.b)?;
        Some(Op::Clone { from, parent, name: target(), mode: CloneMode { inside, ..COPY } })
    };
    match step.what {
        93..=95 => gone(world, |key| matches!(key, Key::Sustained { .. }), step.a),
        96 | 97 => gone(world, |key| matches!(key, Key::Chunk(..)), step.a),
        98 => gone(world, |key| matches!(key, Key::Deleted { .. }), step.a),
        99 => gone(world, |key| matches!(key, Key::SliceRef { .. }), step.a),
        100..=104 => compact(world, step),
        105 | 106 => gone(world, |key| matches!(key, Key::DelayedSlices { .. }), step.a),
        107..=110 => clone(dir, false),
        111 => Some(Op::CloneDetached { from: dir2, parent: dir, name: target(), mode: COPY }),
        _ => {
            let copy = detached(world, step.a)?;
            match step.d % 3 {
                0 => Some(Op::Discard { ino: copy }),
                1 => Some(Op::Attach { ino: copy, parent: dir, name: target() }),
                _ => clone(copy, true),
            }
        }
    }
}

const COPY: CloneMode = CloneMode { keep: true, umask: 0, inside: false };

/// A copy of a directory that has no name yet.
fn detached(world: &World, n: u8) -> Option<Ino> {
    let copy = |key: &Key| match key {
        Key::Detached(ino) => Some(*ino),
        _ => None,
    };
    pick(&world.records.0.keys().filter_map(copy).collect::<Vec<_>>(), n)
}

/// A new slice for what a list shows.
fn compact(world: &World, step: &Step) -> Option<Op> {
    let lists: Vec<&Key> = world.records.0.keys().filter(|key| matches!(key, Key::Chunk(..))).collect();
    let Key::Chunk(ino, index) = pick(&lists, step.a)? else { return None };
    let choice = choose(&world.slices(*ino, *index))?;
    let record = SliceRecord::whole(choice.pos, SliceId(world.next_slice), choice.size);
    let (ino, index, skipped, delayed) = (*ino, *index, choice.skipped, step.d.is_multiple_of(2));
    Some(Op::Compact { ino, index, seen: choice.seen, skipped, record, delayed })
}

/// The change that gives back what one of these keys stands for.
fn gone(world: &World, wanted: impl Fn(&Key) -> bool, n: u8) -> Option<Op> {
    let keys: Vec<&Key> = world.records.0.keys().filter(|key| wanted(key)).collect();
    Some(match pick(&keys, n)? {
        Key::Sustained { session, ino } => Op::DropSustained { session: *session, ino: *ino },
        Key::Chunk(ino, index) => Op::DropChunk { ino: *ino, index: *index },
        Key::Deleted { ino, length } => Op::DropDeleted { ino: *ino, length: *length },
        Key::DelayedSlices { stamp, id } => Op::DropDelayed { stamp: *stamp, id: *id },
        Key::SliceRef { id, size } => Op::DropSliceRef { id: *id, size: *size },
        _ => return None,
    })
}

/// Runs all steps; tells how many changes were committed, refused as too old, and answered by an error.
fn run(world: &mut World, steps: &[Step]) -> [usize; 3] {
    let mut counts = [0; 3];
    let mut waiting = Vec::new();
    for step in steps {
        world.now += 1;
        // An open file is one that is removed in another way.
        if let Some(ino) = pick(&nodes(world, Attr::is_file), step.d) {
            if step.d % 2 == 0 {
                world.open.insert(ino)
            } else {
                world.open.remove(&ino)
            };
        }
        let Some(op) = op(world, step) else { continue };
        if matches!(op, Op::CommitSlices { .. } | Op::Compact { .. }) {
            world.next_slice += 1;
        }
        // Who makes a copy attaches it after its content is there.
        if matches!(op, Op::Attach { .. }) {
            commit_all(world, &mut waiting, &mut counts);
        }
        match world.decide_early(&op) {
            Ok(late) => waiting.push(late),
            Err(_) => counts[2] += 1,
        }
        if !step.together {
            commit_all(world, &mut waiting, &mut counts);
        }
    }
    counts
}

fn commit_all(world: &mut World, waiting: &mut Vec<Late>, counts: &mut [usize; 3]) {
    for late in waiting.drain(..) {
        counts[usize::from(!world.commit_late(&late))] += 1;
        let found = zest_metadata::consistency::problems(&world.records);
        assert!(found.is_empty(), "after {:#?}: {found:#?}", late.decision);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_fits_after_every_change(
        steps in prop::collection::vec(any_step(), 1..150), trash: bool, quotas: bool,
    ) {
        let new = || world(trash, quotas);
        let (mut world, mut again) = (new(), new());
        let counts = run(&mut world, &steps);
        prop_assert_eq!(counts, run(&mut again, &steps));
        prop_assert_eq!(&world.records, &again.records);
    }
}

/// A volume, in part with quotas from the beginning: nested ones, and one beside them.
fn world(trash: bool, quotas: bool) -> World {
    let mut world = if trash { World::with_trash() } else { World::new() };
    if quotas {
        world.user_quotas = true;
        let a = world.dir(Ino::ROOT, "a");
        let b = world.dir(a, "b");
        let c = world.dir(Ino::ROOT, "c");
        for (dir, usage) in [(Ino::ROOT, (3 * 4096, 3)), (b, (0, 0)), (c, (0, 0))] {
            let quota = Key::DirQuota(dir);
            let set = Op::SetQuota { quota, max_space: None, max_inodes: None, usage: Some(usage) };
            world.run(&set).unwrap();
        }
    }
    world
}

/// The random test is worth something only when changes of all sorts go through and meet each other.
#[test]
fn random_steps_reach_what_they_are_for() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut counts = [0; 3];
    let mut outcomes = [false; 5];
    for round in 0..60 {
        let steps = prop::collection::vec(any_step(), 150).new_tree(&mut runner).unwrap().current();
        let mut world = if round % 2 == 0 { World::new() } else { World::with_trash() };
        let run = run(&mut world, &steps);
        counts.iter_mut().zip(run).for_each(|(sum, n)| *sum += n);
        let has = |wanted: fn(&Key) -> bool| world.records.0.keys().any(wanted);
        outcomes[0] |= has(|key| matches!(key, Key::Sustained { .. }));
        outcomes[1] |= has(|key| matches!(key, Key::Deleted { .. }));
        outcomes[2] |= has(|key| matches!(key, Key::SliceRef { .. }));
        outcomes[4] |= has(|key| matches!(key, Key::DelayedSlices { .. }));
        outcomes[3] |= has(|key| matches!(key, Key::Dentry(dir, _) if *dir > Ino::TRASH));
    }
    assert!(counts[0] > 1000 && counts[1] > 50 && counts[2] > 100, "{counts:?}");
    assert_eq!(outcomes, [true; 5]);
}
