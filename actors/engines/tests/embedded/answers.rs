//! What the engine answers while records are partly in memory and partly in the file, compared with an engine
//! that has them all in one map.

use crate::disk::TestDisk;
use crate::world::world;
use crate::{Dice, change};
use futures::executor::block_on;
use std::sync::Arc;
use zest_engines::kv::next_scan;
use zest_engines::{EmbeddedEngine, MemoryEngine, OpenError};
use zest_metadata::{CommitError, Counter, Engine, Expect, Key, Record, Scan, Write};
use zest_types::volume::Settings;
use zest_types::{FileType, Ino, Name, SliceRecord};

fn name(n: u64) -> Name {
    Name::new(format!("{n:02}").as_bytes()).unwrap()
}

fn entry(n: u64) -> Record {
    Record::Dentry { kind: FileType::File, ino: Ino(n) }
}

fn random_write(dice: &mut Dice) -> Write {
    let dir = Ino(1 + dice.below(2));
    let n = dice.below(40);
    match dice.below(6) {
        0..=2 => Write::Put(Key::Dentry(dir, name(n)), entry(dice.below(1000))),
        3 => Write::Delete(Key::Dentry(dir, name(n))),
        4 => Write::Append(dir, dice.below(5) as u32, vec![SliceRecord::zeros(n as u32, 1)]),
        _ => Write::Add(Key::Counter(Counter::NextTrash), n as i64),
    }
}

fn all_of(engine: &EmbeddedEngine, mut scan: Scan) -> Vec<(Key, Record)> {
    let mut all = Vec::new();
    loop {
        let found = engine.scan_now(&scan).unwrap();
        let next = next_scan(&scan, &found);
        all.extend(found);
        match next {
            Some(next) => scan = next,
            None => return all,
        }
    }
}

#[test]
fn reads_and_scans_do_not_show_where_a_record_is() {
    for seed in 0..30 {
        let mut dice = Dice(seed);
        let engine = EmbeddedEngine::open(Arc::new(TestDisk::default()), &world()).unwrap();
        let model = MemoryEngine::default();
        for _ in 0..150 {
            let changes = change((0..=dice.below(3)).map(|_| random_write(&mut dice)).collect());
            let applied = engine.commit_now(&changes).unwrap();
            assert_eq!(applied, model.commit_now(&changes).unwrap());
            if dice.below(10) == 0 {
                block_on(engine.sync()).unwrap();
            }
            let (dir, limit) = (Ino(1 + dice.below(2)), 1 + dice.below(12) as usize);
            let after = (dice.below(2) == 0).then(|| name(dice.below(40)));
            let scan = Scan::Dentries { dir, after: after.clone(), limit };
            assert_eq!(engine.scan_now(&scan).unwrap(), model.scan_now(&scan).unwrap(), "seed {seed}");
            let whole = Scan::Dentries { dir, after, limit: 1000 };
            assert_eq!(all_of(&engine, scan), model.scan_now(&whole).unwrap(), "seed {seed}");
            let chunks = Scan::Chunks { ino: dir, from: dice.below(5) as u32, limit };
            assert_eq!(engine.scan_now(&chunks).unwrap(), model.scan_now(&chunks).unwrap());
            let keys: Vec<Key> = (0..40).map(|n| Key::Dentry(dir, name(n))).collect();
            assert_eq!(engine.read_now(&keys).unwrap(), model.read_now(&keys).unwrap());
        }
    }
}

#[test]
fn a_conflict_writes_nothing_and_brings_what_is_there() {
    let engine = EmbeddedEngine::open(Arc::new(TestDisk::default()), &world()).unwrap();
    let key = Key::Dentry(Ino(1), name(1));
    block_on(engine.commit(&change(vec![Write::Put(key.clone(), entry(7))]))).unwrap();
    let mut again = change(vec![Write::Put(key.clone(), entry(8))]);
    again.expect.push(Expect::Absent(key.clone()));
    let error = block_on(engine.commit(&again)).unwrap_err();
    assert_eq!(error, CommitError::Conflict(vec![(key.clone(), Some(entry(7)))]));
    assert_eq!(block_on(engine.read(&[key])).unwrap(), [Some(entry(7))]);
}

#[test]
fn a_volume_in_use_is_refused_until_it_is_given_back() {
    let disk = Arc::new(TestDisk::default());
    let first = EmbeddedEngine::open(disk.clone(), &world()).unwrap();
    let second = EmbeddedEngine::open(disk.clone(), &world());
    let error = second.err().expect("two engines have one volume");
    assert!(matches!(error, OpenError::InUse), "{error}");
    assert!(error.to_string().contains("in use by another process"));
    drop(first);
    let again = EmbeddedEngine::open(disk, &world()).unwrap();
    assert!(!again.was_repaired(), "it was closed well");
}

#[test]
fn settings_can_be_seen_while_another_process_has_the_volume() {
    let disk = Arc::new(TestDisk::default());
    assert!(!EmbeddedEngine::is_formatted(&*disk).unwrap());
    assert!(!zest_world::Disk::exists(&*disk, "zest.redb").unwrap(), "looking made a file");
    let engine = EmbeddedEngine::open(disk.clone(), &world()).unwrap();
    let settings = |days| Settings { trash_days: days, ..Settings::new("vol", "u", "file", "/o/") }.to_json();
    for days in [7, 30] {
        let put = Write::Put(Key::Setting, Record::Bytes(settings(days)));
        block_on(engine.commit(&change(vec![put]))).unwrap();
        block_on(engine.sync()).unwrap();
        assert_eq!(EmbeddedEngine::settings(&*disk).unwrap(), Some(settings(days)));
    }
    drop(engine);
    assert_eq!(EmbeddedEngine::settings(&*disk).unwrap(), Some(settings(30)));
}

#[test]
fn what_is_no_volume_is_refused_and_left_alone() {
    use zest_world::Disk as _;
    let disk = Arc::new(TestDisk::default());
    let file = disk.open("zest.volume", true).unwrap();
    file.write_at(0, b"somebody's notes").unwrap();
    let error = EmbeddedEngine::open(disk.clone(), &world()).err().expect("opened");
    assert!(matches!(error, OpenError::Unusable(_)), "{error}");
    let mut text = [0; 16];
    file.read_at(0, &mut text).unwrap();
    assert_eq!(&text, b"somebody's notes");

    let disk = Arc::new(TestDisk::default());
    drop(EmbeddedEngine::open(disk.clone(), &world()).unwrap());
    let file = disk.open("zest.redb", false).unwrap();
    file.write_at(0, &[7; 4096]).unwrap();
    let error = EmbeddedEngine::open(disk.clone(), &world()).err().expect("opened");
    assert!(matches!(error, OpenError::Unusable(_)), "{error}");
    assert!(file.len().unwrap() > 4096, "the damaged file was cut");
}
