//! How change sets meet records: expectations field by field, commutative writes, derived amounts, damage.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{World, name};
use proptest::prelude::*;
use zest_metadata::apply::{Records, Refused, agrees, apply, changed};
use zest_metadata::map::RecordMap;
use zest_metadata::{
    AttrDelta, AttrFields, ChangeSet, Counter, EngineError, Expect, Key, Record, Scan, Write,
};
use zest_types::{Attr, FileType, Ino, SliceId, SliceRecord, Time};

fn attr() -> Attr {
    Attr::new(FileType::File, 0o644, 1, 2, Ino(1), Time::new(100, 0))
}

const NO_STAT: Record = Record::DirStat { length: 0, space: 0, inodes: 0 };

fn holding(records: &[(Key, Record)]) -> RecordMap {
    RecordMap(records.iter().cloned().collect())
}

fn expecting(expect: Vec<Expect>) -> ChangeSet {
    ChangeSet { expect, write: vec![Write::Put(Key::Setting, Record::Mark)] }
}

fn writing(write: Vec<Write>) -> ChangeSet {
    ChangeSet { expect: Vec::new(), write }
}

#[test]
fn a_conflict_brings_fresh_records_of_everything_expected() {
    let entry = Record::Dentry { kind: FileType::File, ino: Ino(5) };
    let here = Key::Dentry(Ino(1), name("here"));
    let gone = Key::Dentry(Ino(1), name("gone"));
    let records = holding(&[(here.clone(), entry.clone()), (Key::Attr(Ino(5)), Record::Attr(attr()))]);
    let fields = AttrFields::default();
    let seen = Box::new(attr());
    let all = vec![
        Expect::Same(here.clone(), entry.clone()),
        Expect::Absent(gone.clone()),
        Expect::Attr { ino: Ino(5), seen, fields },
        Expect::Empty(Ino(9)),
    ];
    assert_eq!(apply(&expecting(all.clone()), &records).unwrap().len(), 1);
    let mut broken = all;
    broken[1] = Expect::Same(gone.clone(), entry.clone());
    let Err(Refused::Conflict(fresh)) = apply(&expecting(broken), &records) else {
        unreachable!("nothing stands under {gone:?}")
    };
    let attr = (Key::Attr(Ino(5)), Some(Record::Attr(attr())));
    assert_eq!(fresh, [attr, (Key::Attr(Ino(9)), None), (gone, None), (here.clone(), Some(entry))]);
    let full = apply(&expecting(vec![Expect::Empty(Ino(1))]), &records);
    assert!(matches!(full, Err(Refused::Conflict(_))));
    let there = apply(&expecting(vec![Expect::Absent(here)]), &records);
    assert!(matches!(there, Err(Refused::Conflict(_))));
}

#[test]
fn only_the_fields_looked_at_make_a_conflict() {
    let none = AttrFields::default();
    let all = AttrFields { access: true, nlink: true, length: true, parent: true, times: true };
    type Change = fn(&mut Attr);
    let cases: [(Change, AttrFields); 9] = [
        (|a| a.mode = 0, AttrFields { access: true, ..none }),
        (|a| a.uid = 9, AttrFields { access: true, ..none }),
        (|a| a.gid = 9, AttrFields { access: true, ..none }),
        (|a| a.flags = 9, AttrFields { access: true, ..none }),
        (|a| a.nlink = 9, AttrFields { nlink: true, ..none }),
        (|a| a.length = 9, AttrFields { length: true, ..none }),
        (|a| a.parent = Ino(9), AttrFields { parent: true, ..none }),
        (|a| a.mtime = Time::new(9, 9), AttrFields { times: true, ..none }),
        (|a| a.atime = Time::new(9, 9), AttrFields { times: true, ..none }),
    ];
    for (change, field) in cases {
        let mut found = attr();
        change(&mut found);
        assert!(agrees(&found, &attr(), none) && !agrees(&found, &attr(), field));
        let others = AttrFields {
            access: !field.access,
            nlink: !field.nlink,
            length: !field.length,
            parent: !field.parent,
            times: !field.times,
        };
        assert!(agrees(&found, &attr(), others));
        assert!(agrees(&attr(), &attr(), all));
    }
    let other_kind = Attr { kind: FileType::Fifo, ..attr() };
    assert!(!agrees(&other_kind, &attr(), none));
}

#[test]
fn writes_see_earlier_writes() {
    let mut records = RecordMap::default();
    let x = Key::Xattr(Ino(5), name("user.a"));
    records.0.insert(Key::Xattr(Ino(5), name("user.b")), Record::Bytes(vec![]));
    records.0.insert(Key::DirStat(Ino(1)), NO_STAT);
    records
        .commit(&writing(vec![
            Write::Put(Key::Attr(Ino(5)), Record::Attr(attr())),
            Write::Attr(Ino(5), AttrDelta { length: Some(5000), nlink: 2, ..AttrDelta::default() }),
            Write::Usage { ino: Ino(5), sign: 1 },
            Write::Account { dir: Ino(1), ino: Ino(5), sign: 1 },
            Write::Put(x.clone(), Record::Bytes(vec![])),
            Write::DeleteAll(Scan::Xattrs(Ino(5))),
            Write::Add(Key::Counter(Counter::NextTrash), 3),
            Write::Add(Key::Counter(Counter::NextTrash), -1),
        ]))
        .unwrap();
    assert!(records.scan(&Scan::Xattrs(Ino(5))).unwrap().is_empty());
    assert_eq!(records.0[&Key::Counter(Counter::NextTrash)], Record::Count(2));
    // The length grew by 5000 bytes after creation: 4096 more; and then the node as a whole is counted.
    assert_eq!(records.0[&Key::Counter(Counter::UsedSpace)], Record::Count(4096 + 8192));
    let stat = Record::DirStat { length: 10_000, space: 4096 + 8192, inodes: 1 };
    assert_eq!(records.0[&Key::DirStat(Ino(1))], stat);
}

#[test]
fn a_length_counts_once_for_each_name() {
    let mut world = World::new();
    let parents = [(Ino(1), 2), (Ino(8), 1), (Ino(9), 0), (Ino(10), -1)];
    let linked = Attr { parent: Ino(0), nlink: 3, ..attr() };
    world.records.0.insert(Key::Attr(Ino(5)), Record::Attr(linked));
    for (parent, n) in parents {
        world.records.0.insert(Key::Parent { ino: Ino(5), parent }, Record::Count(n));
    }
    for dir in [1, 9] {
        world.records.0.insert(Key::DirStat(Ino(dir)), NO_STAT);
    }
    let grow = AttrDelta { grow_length: Some(10_000), ..AttrDelta::default() };
    world.records.commit(&writing(vec![Write::Attr(Ino(5), grow)])).unwrap();
    let stats: Vec<_> = parents.iter().map(|(dir, _)| world.records.0.get(&Key::DirStat(*dir))).collect();
    let stat = |n: i64| Record::DirStat { length: 10_000 * n, space: 8192 * n, inodes: 0 };
    // Of directory 8 nobody knows what it holds, and a length does not tell.
    assert_eq!(stats, [Some(&stat(2)), None, Some(&stat(0)), None]);
    assert_eq!(world.used(), (8192, 0));
}

#[test]
fn quotas_move_with_what_is_found() {
    let quota = |max, space, inodes| Record::Quota {
        max_space: max,
        max_inodes: max,
        used_space: space,
        used_inodes: inodes,
    };
    let (dir, user, group) = (Key::DirQuota(Ino(1)), Key::UserQuota(1), Key::GroupQuota(2));
    let mut records = holding(&[(Key::Attr(Ino(5)), Record::Attr(attr())), (dir.clone(), quota(50, 100, 1))]);
    let charge = |quota: &Key, sign| Write::Charge { quota: quota.clone(), ino: Ino(5), sign };
    let delta = AttrDelta { grow_length: Some(5000), ..AttrDelta::default() };
    let gone = Key::DirQuota(Ino(9));
    let quotas = vec![dir.clone(), gone.clone(), user.clone(), dir.clone()];
    records
        .commit(&writing(vec![
            charge(&dir, 1),
            charge(&gone, 1),
            charge(&user, 1),
            Write::Resize { ino: Ino(5), delta, quotas },
            charge(&group, -1),
            Write::AddQuota { quota: dir.clone(), space: -10, inodes: 7 },
        ]))
        .unwrap();
    assert_eq!(records.0[&dir], quota(50, 100 + 4096 + 2 * 4096 - 10, 9));
    assert_eq!(records.0[&user], quota(-1, 8192, 1));
    assert_eq!(records.0[&group], quota(-1, -8192, -1));
    assert!(!records.0.contains_key(&gone));
    // A length that stays makes no record of anybody.
    let same = Write::Resize { ino: Ino(5), delta, quotas: vec![Key::UserQuota(8)] };
    records.commit(&writing(vec![same])).unwrap();
    assert!(!records.0.contains_key(&Key::UserQuota(8)));
}

#[test]
fn damage_is_an_error_and_never_a_default() {
    let file = Key::Attr(Ino(5));
    let cases = [
        (vec![], Write::Attr(Ino(5), AttrDelta::default())),
        (vec![(file.clone(), Record::Mark)], Write::Attr(Ino(5), AttrDelta::default())),
        (
            vec![(file.clone(), Record::Attr(attr()))],
            Write::Attr(Ino(5), AttrDelta { nlink: -2, ..AttrDelta::default() }),
        ),
        (
            vec![(file.clone(), Record::Attr(attr()))],
            Write::Attr(Ino(5), AttrDelta { length: Some(u64::MAX), ..AttrDelta::default() }),
        ),
        (vec![(Key::Chunk(Ino(5), 0), Record::Mark)], Write::Append(Ino(5), 0, vec![])),
        (
            vec![(Key::Counter(Counter::UsedSpace), Record::Count(i64::MAX))],
            Write::Add(Key::Counter(Counter::UsedSpace), 1),
        ),
        (vec![(Key::Setting, Record::Bytes(vec![]))], Write::Add(Key::Setting, 1)),
        (
            vec![(file, Record::Attr(attr())), (Key::DirStat(Ino(1)), Record::Count(0))],
            Write::Account { dir: Ino(1), ino: Ino(5), sign: 1 },
        ),
    ];
    for (records, write) in cases {
        let mut records = holding(&records);
        let before = records.clone();
        let result =
            records.commit(&writing(vec![Write::Put(Key::Symlink(Ino(1)), Record::Mark), write.clone()]));
        let damaged = matches!(result, Err(Refused::Engine(EngineError::Damaged { .. })));
        assert!(damaged, "{write:?}: {result:?}");
        assert_eq!(records, before, "all of it or nothing");
    }
}

#[test]
fn a_repeated_commit_of_a_slice_changes_nothing() {
    let slice = SliceRecord::whole(0, SliceId(4), 10);
    let other = SliceRecord::whole(0, SliceId(5), 10);
    let mut records = RecordMap::default();
    let mut append = |added: &[SliceRecord]| {
        records.commit(&writing(vec![Write::Append(Ino(5), 0, added.to_vec())])).unwrap();
        let Record::Slices(list) = records.0[&Key::Chunk(Ino(5), 0)].clone() else { unreachable!() };
        list.len()
    };
    assert_eq!([append(&[slice]), append(&[slice]), append(&[other]), append(&[slice])], [1, 1, 2, 2]);
    let zeros = SliceRecord::zeros(0, 10);
    assert_eq!([append(&[zeros]), append(&[zeros]), append(&[zeros, slice])], [3, 4, 6]);
    let mut records = RecordMap::default();
    let absent = writing(vec![Write::AppendIfPresent(Ino(5), 0, vec![zeros])]);
    assert_eq!(records.commit(&absent), Ok(vec![]));
}

/// A node with a name, and a directory.
fn volume() -> RecordMap {
    holding(&[
        (Key::Attr(Ino(5)), Record::Attr(Attr { nlink: 10, ..attr() })),
        (Key::Counter(Counter::UsedSpace), Record::Count(4096)),
    ])
}

fn commutative() -> impl Strategy<Value = Write> {
    let time = || prop::option::of((0..200i64).prop_map(|sec| Time::new(sec, 0)));
    prop_oneof![
        (time(), time(), prop::option::of(0..20_000u64), -3..4i32).prop_map(|(m, c, grow_length, nlink)| {
            let delta =
                AttrDelta { touch_mtime: m, touch_ctime: c, grow_length, nlink, ..AttrDelta::default() };
            Write::Attr(Ino(5), delta)
        }),
        (-5..6i64).prop_map(|n| Write::Add(Key::Counter(Counter::UsedSpace), n)),
        (-5..6i64).prop_map(|n| Write::Add(Key::SliceRef { id: SliceId(1), size: 2 }, n)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commutative_writes_commute(writes in prop::collection::vec(commutative(), 0..3), more in prop::collection::vec(commutative(), 0..3)) {
        let both = |first: &[Write], second: &[Write]| {
            let mut records = volume();
            records.commit(&writing(first.to_vec())).unwrap();
            records.commit(&writing(second.to_vec())).unwrap();
            // A number that came back to nothing is as good as none.
            records.0.retain(|_, record| *record != Record::Count(0));
            let Some(Record::Attr(attr)) = records.0.get_mut(&Key::Attr(Ino(5))) else { panic!("it is gone") };
            (std::mem::take(&mut attr.mtime), records)
        };
        let ((mtime, records), (other_mtime, others)) = (both(&writes, &more), both(&more, &writes));
        prop_assert_eq!(records, others);
        // Each change of content leaves another time, so that the order shows in nanoseconds.
        let wanted = writes.iter().chain(&more).filter_map(|write| match write {
            Write::Attr(_, delta) => delta.touch_mtime,
            _ => None,
        });
        let least = wanted.max().unwrap_or_default().max(attr().mtime);
        for found in [mtime, other_mtime] {
            prop_assert!(found >= least && found.sec == least.sec && found.nsec <= 4, "{:?}, {:?}", found, least);
        }
    }

    #[test]
    fn content_that_changed_has_another_time(kind in 0..2u8, old in 0..3i64, at in 0..3i64, nsec in prop_oneof![Just(0), Just(999_999_999)]) {
        let kind = if kind == 0 { FileType::File } else { FileType::Directory };
        let old = Attr { kind, mtime: Time::new(old, nsec), ..attr() };
        let delta = AttrDelta { touch_mtime: Some(Time::new(at, nsec)), ..AttrDelta::default() };
        let new = changed(&old, &delta).unwrap().mtime;
        let right = match (Time::new(at, nsec) < old.mtime, kind) {
            (false, _) => Time::new(at, nsec),
            (true, FileType::File) if nsec == 0 => Time::new(old.mtime.sec, 1),
            (true, FileType::File) => Time::new(old.mtime.sec + 1, 0),
            (true, _) => old.mtime,
        };
        prop_assert_eq!(new, right);
    }

    #[test]
    fn a_delta_says_all_there_is(length: Option<u32>, grow in 0..9u64, mode: Option<u16>, nlink in 0..3i32) {
        let delta = AttrDelta {
            length: length.map(u64::from), grow_length: Some(grow), mode, nlink, ..AttrDelta::default()
        };
        let new = changed(&attr(), &delta).unwrap();
        prop_assert_eq!(new.length, length.map_or(0, u64::from).max(grow));
        prop_assert_eq!(new.mode, mode.unwrap_or(0o644));
        prop_assert_eq!(new.nlink as i32, 1 + nlink);
        let rest = Attr { length: 0, mode: 0o644, nlink: 1, ..new };
        prop_assert_eq!(rest, attr());
    }
}
