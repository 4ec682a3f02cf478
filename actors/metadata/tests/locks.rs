//! Locks: whole-file locks by example, ranges against an array of owners for every byte.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::World;
use proptest::prelude::*;
use zest_metadata::record::{LockOwner, LockRange};
use zest_metadata::rules::in_the_way;
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Ino};

const EOF: u64 = i64::MAX as u64;

fn locked() -> (World, Ino) {
    let mut world = World::new();
    let f = world.file(Ino::ROOT, "f");
    (world, f)
}

fn flock(ino: Ino, owner: u64, kind: LockKind) -> Op {
    Op::Flock { ino, owner, kind }
}

fn range(ino: Ino, owner: u64, kind: LockKind, start: u64, end: u64) -> Op {
    Op::SetLock { ino, owner, lock: RangeLock { kind, start, end, pid: owner as u32 } }
}

fn ranges(world: &World, ino: Ino) -> Vec<(LockOwner, Vec<LockRange>)> {
    match world.records.0.get(&Key::RangeLocks(ino)) {
        Some(Record::RangeLocks(owners)) => owners.clone(),
        _ => Vec::new(),
    }
}

#[test]
fn whole_file_locks() {
    use LockKind::{Read, Unlock, Write};
    let (mut world, f) = locked();
    let mut run = |owner, kind| world.run(&flock(f, owner, kind)).unwrap();
    assert_eq!(run(1, Read), Outcome::Done);
    assert_eq!(run(2, Read), Outcome::Done);
    assert_eq!(run(1, Write), Outcome::Blocked, "no upgrade past another reader");
    assert_eq!(run(2, Unlock), Outcome::Done);
    assert_eq!(run(1, Write), Outcome::Done);
    assert_eq!(run(1, Write), Outcome::Held);
    assert_eq!(run(2, Read), Outcome::Blocked);
    assert_eq!(run(1, Read), Outcome::Done);
    assert_eq!(run(2, Read), Outcome::Done);
    assert_eq!(run(1, Unlock), Outcome::Done);
    assert_eq!(run(1, Unlock), Outcome::Done);
    assert_eq!(run(2, Unlock), Outcome::Done);
    assert!(!world.records.0.contains_key(&Key::Flocks(f)));
    assert_eq!(world.run(&flock(Ino(99), 1, Read)), Err(Errno::ENOENT));
    assert_eq!(world.run(&flock(Ino(99), 1, Unlock)), Ok(Outcome::Done));
}

#[test]
fn ranges_split_and_join() {
    use LockKind::{Read, Unlock, Write};
    let (mut world, f) = locked();
    let kinds = |world: &World| -> Vec<(u32, u64, u64)> {
        let owners = ranges(world, f);
        owners.iter().flat_map(|(_, ranges)| ranges.iter().map(|r| (r.kind, r.start, r.end))).collect()
    };
    world.run(&range(f, 1, Write, 0, EOF)).unwrap();
    world.run(&range(f, 1, Unlock, 10, 19)).unwrap();
    assert_eq!(kinds(&world), [(1, 0, 9), (1, 20, EOF)]);
    world.run(&range(f, 1, Read, 5, 24)).unwrap();
    assert_eq!(kinds(&world), [(1, 0, 4), (0, 5, 24), (1, 25, EOF)]);
    world.run(&range(f, 1, Write, 5, 24)).unwrap();
    assert_eq!(kinds(&world), [(1, 0, EOF)]);
    assert_eq!(world.run(&range(f, 2, Read, 7, 7)), Ok(Outcome::Blocked));
    assert_eq!(world.run(&range(f, 2, Read, 7, 6)), Err(Errno::EINVAL));
    let me = LockOwner { session: 7, owner: 2 };
    let ask = RangeLock { kind: Read, start: 7, end: 7, pid: 2 };
    let (owner, found) = in_the_way(&ranges(&world, f), me, &ask).unwrap();
    assert_eq!((owner.owner, found.kind, found.pid, found.start, found.end), (1, 1, 1, 0, EOF));
    world.run(&range(f, 1, Unlock, 0, u64::MAX)).unwrap();
    assert!(!world.records.0.contains_key(&Key::RangeLocks(f)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_has_the_locks_it_should(
        steps in prop::collection::vec((0..3u64, 0..3u8, 0..12u64, 0..12u64), 1..60),
    ) {
        let (mut world, f) = locked();
        // For each byte and owner: unlocked, read or write.
        let mut bytes = [[LockKind::Unlock; 3]; 24];
        for (owner, kind, start, len) in steps {
            let kind = [LockKind::Read, LockKind::Write, LockKind::Unlock][usize::from(kind)];
            let (me, span) = (owner as usize, start as usize..=(start + len) as usize);
            let conflicts = |byte: &[LockKind; 3]| {
                byte.iter().enumerate().any(|(other, held)| {
                    other != me && *held != LockKind::Unlock && (kind == LockKind::Write || *held == LockKind::Write)
                })
            };
            let blocked = kind != LockKind::Unlock && bytes[span.clone()].iter().any(conflicts);
            let outcome = world.run(&range(f, owner, kind, start, start + len)).unwrap();
            let held = kind != LockKind::Unlock && bytes[span.clone()].iter().all(|byte| byte[me] == kind);
            let expected = match (blocked, held) {
                (true, _) => Outcome::Blocked,
                (false, true) => Outcome::Held,
                (false, false) => Outcome::Done,
            };
            prop_assert_eq!(outcome, expected);
            if !blocked {
                bytes[span].iter_mut().for_each(|byte| byte[me] = kind);
            }
            let mut found = [[LockKind::Unlock; 3]; 24];
            for (owner, ranges) in ranges(&world, f) {
                prop_assert!(!ranges.is_empty());
                let apart = |pair: &[LockRange]| {
                    pair[0].end + 1 < pair[1].start || (pair[0].end < pair[1].start && pair[0].kind != pair[1].kind)
                };
                prop_assert!(ranges.windows(2).all(apart), "{:?}", ranges);
                for r in ranges {
                    let kind = if r.kind == 1 { LockKind::Write } else { LockKind::Read };
                    found[r.start as usize..=r.end as usize].iter_mut().for_each(|b| b[owner.owner as usize] = kind);
                }
            }
            prop_assert_eq!(found, bytes);
        }
    }
}

#[test]
fn a_session_that_is_over_leaves_the_locks_of_others() {
    use LockKind::{Read, Write};
    let (mut world, f) = locked();
    let other = LockOwner { session: 8, owner: 1 };
    world.run(&flock(f, 1, Read)).unwrap();
    world.run(&range(f, 1, Write, 0, 9)).unwrap();
    let theirs = (other, vec![LockRange { kind: 1, pid: 1, start: 20, end: 29 }]);
    let mut owners = ranges(&world, f);
    owners.push(theirs.clone());
    world.records.0.insert(Key::RangeLocks(f), Record::RangeLocks(owners.clone()));
    let ask = RangeLock { kind: Write, start: 5, end: 25, pid: 3 };
    let me = LockOwner { session: 7, owner: 3 };
    let holders = zest_metadata::rules::holders(&owners, me, &ask);
    assert_eq!(holders, [LockOwner { session: 7, owner: 1 }, other]);

    let drop = Op::DropLocks { session: 7, ino: f };
    assert_eq!(world.run(&drop), Ok(Outcome::Done));
    assert_eq!(ranges(&world, f), [theirs]);
    assert!(!world.records.0.contains_key(&Key::Flocks(f)));
    assert!(world.decide(&drop).unwrap().changes.is_empty());
    world.run(&Op::DropLocks { session: 8, ino: f }).unwrap();
    assert!(ranges(&world, f).is_empty() && !world.records.0.contains_key(&Key::RangeLocks(f)));
    world.records.0.insert(Key::Flocks(f), Record::Mark);
    assert_eq!(world.run(&drop), Err(Errno::EIO));
}

#[test]
fn a_job_is_done_by_one_client_at_a_time() {
    let mut world = World::new();
    let gate = Op::Gate { job: zest_metadata::Counter::LastCleanupFiles, interval: 50 };
    let late = world.decide_early(&gate).unwrap();
    assert_eq!(world.run(&gate), Ok(Outcome::Done));
    assert!(!world.commit_late(&late), "two clients at once");
    assert_eq!(world.run(&gate), Ok(Outcome::Blocked));
    world.now += 47;
    assert_eq!(world.run(&gate), Ok(Outcome::Blocked));
    assert_eq!(world.run(&gate), Ok(Outcome::Done));
}
