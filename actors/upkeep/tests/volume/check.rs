//! The check of a volume: each kind of damage is found where it is, a sound volume has none, and remedies help.

use super::rig::{BLOCK, NOW, Rig, run};
use zest_metadata::{Counter, Key, Record};
use zest_types::{Attr, FileType, Ino, Name};
use zest_upkeep::fsck::{self, Blocks};
use zest_upkeep::repair::repair;
use zest_upkeep::tree::{Problem, Scope, Seen, look};

fn rig() -> Rig {
    let rig = Rig::new(0);
    rig.node(1, "d", 2, FileType::Directory, 0);
    rig.node(2, "e", 3, FileType::Directory, 0);
    rig.node(2, "f", 4, FileType::File, u64::from(BLOCK) + 5);
    rig.list(4, 0, &[(7, BLOCK + 5)]);
    rig.store(7, BLOCK + 5, NOW);
    rig
}

fn problems(rig: &Rig) -> Vec<Problem> {
    let mut seen = Seen::default();
    let scope = Scope { recursive: true, statistics: true, uncounted: false, files: false };
    run(async {
        look(&rig.whole, Ino::ROOT, "/", scope, &mut seen).await.unwrap();
        look(&rig.whole, Ino::TRASH, "/.trash", scope, &mut seen).await.unwrap();
        seen.settle(&rig.whole).await.unwrap();
    });
    seen.problems
}

fn texts(rig: &Rig) -> Vec<String> {
    problems(rig).into_iter().map(|problem| problem.text).collect()
}

fn change(rig: &Rig, ino: u64, change: impl FnOnce(&mut Attr)) {
    let Some(Record::Attr(mut attr)) = rig.get(&Key::Attr(Ino(ino))) else { panic!("no {ino}") };
    change(&mut attr);
    rig.put(Key::Attr(Ino(ino)), Record::Attr(attr));
}

/// One problem that is found, told with this word, and gone after its repair.
fn found_and_repaired(rig: &Rig, word: &str) {
    let found = problems(rig);
    let told: Vec<&Problem> = found.iter().filter(|problem| problem.text.contains(word)).collect();
    assert_eq!(told.len(), 1, "{word}: {found:?}");
    assert!(run(repair(&rig.whole, told[0], 0o700)).unwrap());
    assert_eq!(texts(rig), Vec::<String>::new());
}

#[test]
fn a_sound_volume_has_no_problems() {
    let rig = rig();
    assert_eq!(texts(&rig), Vec::<String>::new());
    let blocks = run(fsck::all(&rig.whole)).unwrap();
    assert_eq!((blocks.found.objects, blocks.slices.objects, blocks.lost_in_all.objects), (2, 1, 0));
}

#[test]
fn lost_and_torn_blocks_are_found_for_their_file() {
    let rig = rig();
    let torn = "vol/chunks/0/0/7_1_5";
    rig.shelf.objects.lock().remove("vol/chunks/0/0/7_0_65536").unwrap();
    rig.shelf.objects.lock().get_mut(torn).unwrap().0.truncate(3);
    let blocks = run(fsck::all(&rig.whole)).unwrap();
    assert_eq!((blocks.lost.len(), blocks.lost_in_all.bytes), (2, u64::from(BLOCK) + 5), "{blocks:?}");
    assert!(blocks.lost.iter().all(|lost| lost.ino == Ino(4)));
    assert_eq!(run(rig.whole.paths(Ino(4))).unwrap(), ["/d/f"]);
    let mut one = Blocks::default();
    run(fsck::file(&rig.whole, Ino(4), &mut one)).unwrap();
    assert_eq!((one.lost.len(), one.found.objects), (2, 0), "{one:?}");
}

#[test]
fn a_block_that_came_after_the_listing_is_not_lost() {
    let rig = rig();
    rig.shelf.hidden.lock().insert("vol/chunks/0/0/7_0_65536".into());
    let blocks = run(fsck::all(&rig.whole)).unwrap();
    assert_eq!((blocks.found.objects, blocks.lost.len()), (1, 0));
}

#[test]
fn a_deleted_file_misses_nothing() {
    let rig = rig();
    rig.list(99, 0, &[(8, 5)]);
    let blocks = run(fsck::all(&rig.whole)).unwrap();
    assert_eq!((blocks.lost.len(), blocks.orphans), (0, 1));
}

#[test]
fn link_counts_of_directories() {
    let rig = rig();
    change(&rig, 2, |attr| attr.nlink = 9);
    found_and_repaired(&rig, "link count 9, not 3");
}

#[test]
fn parents() {
    let rig = rig();
    change(&rig, 4, |attr| attr.parent = Ino(3));
    found_and_repaired(&rig, "/d/f (node 4) says that it is in node 3, not 2");
    change(&rig, 3, |attr| attr.parent = Ino(1));
    let found = problems(&rig);
    assert!(run(repair(&rig.whole, &found[0], 0)).unwrap());
    assert_eq!(texts(&rig), Vec::<String>::new());
}

#[test]
fn directories_without_a_node_are_made_anew() {
    let rig = rig();
    rig.remove(Key::Attr(Ino(3)));
    let found = problems(&rig);
    let lost = found.iter().find(|problem| problem.text.contains("/d/e leads to node 3")).unwrap();
    assert!(!lost.drift);
    assert!(run(repair(&rig.whole, lost, 0o700)).unwrap());
    assert_eq!(texts(&rig), Vec::<String>::new());
    let Some(Record::Attr(attr)) = rig.get(&Key::Attr(Ino(3))) else { panic!("not there") };
    assert_eq!((attr.mode, attr.parent), (0o700, Ino(2)));
}

#[test]
fn statistics_and_usage_drift() {
    let rig = rig();
    rig.put(Key::DirStat(Ino(2)), Record::DirStat { length: 1, space: 2, inodes: 3 });
    assert!(problems(&rig).iter().all(|problem| problem.drift));
    found_and_repaired(&rig, "statistics");
    rig.remove(Key::DirStat(Ino(2)));
    assert_eq!(texts(&rig), Vec::<String>::new(), "what was never counted is not wrong");
    let mut seen = Seen::default();
    let scope = Scope { recursive: false, statistics: true, uncounted: true, files: false };
    run(look(&rig.whole, Ino(2), "/d", scope, &mut seen)).unwrap();
    assert!(run(repair(&rig.whole, &seen.problems[0], 0)).unwrap(), "it is counted when asked");
    assert!(rig.get(&Key::DirStat(Ino(2))).is_some());
    assert_eq!(texts(&rig), Vec::<String>::new());
    rig.put(Key::Counter(Counter::UsedSpace), Record::Count(1));
    let found = problems(&rig);
    assert!(found.len() == 1 && found[0].drift && found[0].text.contains("used space is 1"), "{found:?}");
}

#[test]
fn files_with_several_names() {
    let rig = rig();
    change(&rig, 4, |attr| (attr.nlink, attr.parent) = (2, Ino(0)));
    let entry = Record::Dentry { kind: FileType::File, ino: Ino(4) };
    rig.put(Key::Dentry(Ino(3), Name::new(b"g").unwrap()), entry);
    rig.remove(Key::DirStat(Ino(3)));
    for dir in [2, 3] {
        rig.put(Key::Parent { ino: Ino(4), parent: Ino(dir) }, Record::Count(1));
    }
    assert_eq!(texts(&rig), Vec::<String>::new());
    rig.remove(Key::Parent { ino: Ino(4), parent: Ino(3) });
    let found = texts(&rig);
    assert!(found.iter().any(|text| text.contains("/d/e/g (node 4) does not know")), "{found:?}");
    rig.remove(Key::Dentry(Ino(3), Name::new(b"g").unwrap()));
    let found = texts(&rig);
    assert!(found.iter().any(|text| text.contains("1 names and link count 2")), "{found:?}");
}

#[test]
fn a_remedy_that_came_too_late_does_nothing() {
    let rig = rig();
    change(&rig, 2, |attr| attr.nlink = 9);
    let found = problems(&rig);
    rig.remove(Key::Attr(Ino(2)));
    assert!(!run(repair(&rig.whole, &found[0], 0o755)).unwrap());
}
