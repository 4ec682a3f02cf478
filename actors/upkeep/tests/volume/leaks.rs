//! Each way in which the search for leaked objects could take what somebody needs, and what it must take.

use super::rig::{BLOCK, NOW, Rig, run};
use bytes::Bytes;
use zest_metadata::{Key, Record};
use zest_types::{FileType, Ino, SliceId};
use zest_upkeep::failure::Failure;
use zest_upkeep::gc::{Report, Wish, collect};

const OLD: i64 = NOW - 7200;
const DELETE: Wish = Wish { delete: true, fresh_secs: 3600, threads: 4 };

fn delete(rig: &Rig) -> Report {
    run(collect(&rig.whole, DELETE)).unwrap()
}

/// A slice that is leaked stands beside what the test is about: it must go, or the test says nothing.
fn rig() -> Rig {
    let rig = Rig::new(0);
    rig.store(500, BLOCK + 1, OLD);
    rig
}

fn kept(rig: &Rig, slice: u64) {
    let before = rig.stored(slice);
    assert!(before > 0);
    let report = delete(rig);
    assert_eq!(rig.stored(slice), before, "slice {slice} lost objects: {report:?}");
    assert_eq!(
        (rig.stored(500), report.removed.objects),
        (0, 2),
        "the leaked one is still there: {report:?}"
    );
    assert_eq!(report.failed, 0);
}

#[test]
fn what_nobody_refers_to_is_counted_and_removed_only_when_asked() {
    let rig = rig();
    let wish = Wish { delete: false, ..DELETE };
    let report = run(collect(&rig.whole, wish)).unwrap();
    assert_eq!((report.leaked.objects, report.leaked.bytes), (2, u64::from(BLOCK) + 1));
    assert_eq!((report.scanned.objects, report.removed.objects, rig.stored(500)), (2, 0, 2));
    let report = delete(&rig);
    assert_eq!((report.removed.objects, rig.stored(500)), (2, 0));
    assert!(rig.shelf.objects.lock().is_empty(), "nothing of one's own stays behind");
}

#[test]
fn a_file_keeps_its_slices() {
    let rig = rig();
    rig.node(1, "f", 10, FileType::File, 100);
    rig.list(10, 0, &[(3, 100)]);
    rig.store(3, 100, OLD);
    kept(&rig, 3);
}

#[test]
fn lists_behind_the_end_and_of_no_node_keep_theirs() {
    let rig = rig();
    rig.node(1, "f", 10, FileType::File, 100);
    rig.list(10, 7, &[(3, 100)]);
    rig.list(99, 0, &[(4, 100)]);
    rig.store(3, 100, OLD);
    rig.store(4, 100, OLD);
    kept(&rig, 3);
    assert_eq!(rig.stored(4), 1);
}

#[test]
fn what_compaction_replaced_is_kept() {
    let rig = rig();
    rig.put(Key::DelayedSlices { stamp: NOW, id: SliceId(8) }, Record::SliceList(vec![(SliceId(3), 100)]));
    rig.store(3, 100, OLD);
    kept(&rig, 3);
}

#[test]
fn what_is_counted_is_kept() {
    let rig = rig();
    rig.put(Key::SliceRef { id: SliceId(3), size: 100 }, Record::Count(0));
    rig.store(3, 100, OLD);
    kept(&rig, 3);
}

#[test]
fn a_counter_below_zero_is_no_proof_against_a_list() {
    let rig = rig();
    rig.list(10, 0, &[(3, 100)]);
    rig.put(Key::SliceRef { id: SliceId(3), size: 100 }, Record::Count(-1));
    rig.store(3, 100, OLD);
    kept(&rig, 3);
}

#[test]
fn young_objects_are_kept_and_with_them_all_of_their_slice() {
    let rig = rig();
    rig.store(3, BLOCK + 1, OLD);
    rig.shelf.objects.lock().get_mut("vol/chunks/0/0/3_1_1").unwrap().1 = NOW - 60;
    kept(&rig, 3);
}

#[test]
fn age_is_told_by_the_stores_clock() {
    // Two days behind ours: what was written a minute ago looks old to us.
    let rig = Rig::new(-172_800);
    rig.store(500, BLOCK + 1, OLD - 172_800);
    rig.store(3, 100, NOW - 172_800 - 60);
    kept(&rig, 3);
}

#[test]
fn objects_without_a_time_are_kept() {
    let rig = rig();
    rig.store(3, 100, 0);
    kept(&rig, 3);
}

#[test]
fn slices_whose_numbers_are_not_given_out_yet_are_kept() {
    let rig = rig();
    rig.store(1000, 100, OLD);
    kept(&rig, 1000);
}

#[test]
fn what_is_called_like_no_block_is_kept() {
    let rig = rig();
    for key in ["vol/chunks/0/0/3_0", "vol/chunks/x", "vol/chunks/0/9/3_0_100"] {
        rig.shelf.objects.lock().insert(key.into(), (Bytes::from_static(b"x"), OLD));
    }
    assert_eq!(delete(&rig).skipped.objects, 3);
    assert_eq!(rig.shelf.objects.lock().len(), 3);
}

#[test]
fn a_reference_that_moves_while_lists_are_read_is_seen() {
    let rig = rig();
    rig.node(1, "f", 10, FileType::File, 100);
    rig.list(10, 0, &[(3, 100)]);
    rig.store(3, 100, OLD);
    let report = run(collect(&rig.with_others(Key::Chunk(Ino(10), 0)), DELETE)).unwrap();
    assert_eq!((rig.stored(3), rig.stored(500)), (1, 0), "{report:?}");
}

#[test]
fn objects_of_another_volume_are_left_alone() {
    let rig = rig();
    let other = Bytes::from_static(b"00000000-0000-0000-0000-000000000002");
    rig.shelf.objects.lock().insert("vol/juicefs_uuid".into(), (other, OLD));
    let refused = run(collect(&rig.whole, DELETE));
    assert!(matches!(refused, Err(Failure::OtherVolume { .. })), "{refused:?}");
    assert_eq!(rig.stored(500), 2);
}

#[test]
fn deleted_files_lose_their_data_but_not_what_others_share_with_them() {
    let rig = rig();
    let waits = Key::Deleted { ino: Ino(10), length: 100 };
    rig.put(waits.clone(), Record::Stamp(OLD));
    rig.list(10, 0, &[(3, 100), (4, 100)]);
    rig.node(1, "copy", 11, FileType::File, 100);
    rig.list(11, 0, &[(4, 100)]);
    rig.put(Key::SliceRef { id: SliceId(4), size: 100 }, Record::Count(1));
    rig.store(3, 100, OLD);
    rig.store(4, 100, OLD);
    let counted = run(collect(&rig.whole, Wish { delete: false, ..DELETE })).unwrap();
    assert_eq!((counted.files.objects, counted.pending.objects, counted.valid.objects), (1, 1, 1));
    let report = delete(&rig);
    assert_eq!((rig.stored(3), rig.stored(4), report.removed_files), (0, 1, 1), "{report:?}");
    assert_eq!(rig.get(&waits), None);
    assert_eq!(rig.get(&Key::Chunk(Ino(10), 0)), None);
}

#[test]
fn slices_that_lost_their_last_reference_go_with_their_counter() {
    let rig = rig();
    let counter = Key::SliceRef { id: SliceId(3), size: 100 };
    rig.put(counter.clone(), Record::Count(-1));
    rig.store(3, 100, OLD);
    assert_eq!(delete(&rig).pending.objects, 1);
    assert_eq!((rig.stored(3), rig.get(&counter)), (0, None));
}
