//! The simulated devices do what they say: what was synced survives, what was not may go, faults are counted.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_sim::devices::clock::DAWN;
use zest_sim::devices::{
    DiskMedia, Fates, Fault, Life, ObjectMedia, SimChance, SimClock, SimDisk, SimObjects, Tape,
};
use zest_sim::universe::universe;
use zest_world::{Disk, Objects};

fn disk(media: &Arc<DiskMedia>, life: &Arc<Life>) -> SimDisk {
    let fates = Arc::new(Fates::new(BTreeMap::new(), 0));
    SimDisk::sound(media.clone(), life.clone(), fates, Arc::new(Tape::new(false)))
}

fn crash(media: &DiskMedia, seed: u64) -> Fates {
    let fates = Fates::new(BTreeMap::new(), seed);
    media.crash(&SimChance::new(seed, "crash"), &fates, &Tape::new(false));
    fates
}

/// A synced file of ones with an unsynced run of twos in it, after a crash.
fn after_crash(seed: u64) -> (Vec<u8>, Fates) {
    let media = Arc::new(DiskMedia::default());
    let life = Arc::new(Life::new(None));
    let file = disk(&media, &life).open("f", true).unwrap();
    disk(&media, &life).sync_names().unwrap();
    file.write_at(0, &[1; 20_000]).unwrap();
    file.sync().unwrap();
    file.write_at(1000, &[2; 9000]).unwrap();
    let fates = crash(&media, seed);
    let file = disk(&media, &life).open("f", false).unwrap();
    let mut bytes = vec![0; 20_000];
    file.read_at(0, &mut bytes).unwrap();
    (bytes, fates)
}

#[test]
fn a_crash_keeps_what_was_synced_and_loses_or_tears_the_rest() {
    let (mut whole, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..60 {
        let (bytes, fates) = after_crash(seed);
        assert!(bytes[..1000].iter().chain(&bytes[10_000..]).all(|byte| *byte == 1), "seed {seed}");
        let kept = bytes.iter().filter(|byte| **byte == 2).count();
        match kept {
            0 => lost += 1,
            9000 => whole += 1,
            _ => torn += 1,
        }
        // What is torn is torn at sectors.
        let borders = (1001..10_000).filter(|at| bytes[*at] != bytes[at - 1]);
        assert!(borders.into_iter().all(|at| at % 512 == 0), "seed {seed}");
        let counted = fates.fired();
        assert_eq!(
            counted.contains_key(&Fault::LostWrite) || counted.contains_key(&Fault::TornWrite),
            kept < 9000
        );
    }
    assert!(whole > 0 && lost > 0 && torn > 0, "{whole} {lost} {torn}");
}

#[test]
fn a_name_that_was_not_synced_may_vanish() {
    let vanished = (0..40).filter(|seed| {
        let media = Arc::new(DiskMedia::default());
        let life = Arc::new(Life::new(None));
        disk(&media, &life).open("f", true).unwrap();
        crash(&media, *seed);
        !disk(&media, &life).exists("f").unwrap()
    });
    let vanished = vanished.count();
    assert!(0 < vanished && vanished < 40, "{vanished}");
}

#[test]
fn a_lock_holds_until_its_owner_is_gone() {
    let media = Arc::new(DiskMedia::default());
    let life = Arc::new(Life::new(None));
    let open = || disk(&media, &life).open("f", true).unwrap();
    let owner = open();
    owner.lock().unwrap();
    assert_eq!(open().lock().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    media.closed();
    let next = open();
    next.lock().unwrap();
    // The file of an incarnation that is gone gives back nothing that is not its own.
    drop(owner);
    assert_eq!(open().lock().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(next);
    open().lock().unwrap();
}

fn named(media: &Arc<DiskMedia>) -> (Vec<String>, Vec<u64>) {
    let disk = disk(media, &Arc::new(Life::new(None)));
    let names = disk.list().unwrap();
    let lengths = names.iter().map(|name| disk.open(name, false).unwrap().len().unwrap());
    let lengths = lengths.collect();
    (names, lengths)
}

#[test]
fn a_rename_is_done_or_not_at_a_crash_and_a_removal_too() {
    let mut seen = BTreeMap::new();
    for seed in 0..60 {
        let media = Arc::new(DiskMedia::default());
        let disk = disk(&media, &Arc::new(Life::new(None)));
        for (name, len) in [("a", 1), ("b", 2), ("c", 3)] {
            let file = disk.open(name, true).unwrap();
            file.write_at(0, &vec![7; len]).unwrap();
            file.sync().unwrap();
        }
        disk.sync_names().unwrap();
        disk.rename("a", "b").unwrap();
        disk.remove("c").unwrap();
        assert_eq!(named(&media), (vec!["b".into()], vec![1]));
        crash(&media, seed);
        *seen.entry(named(&media).1).or_insert(0) += 1;
    }
    let possible = [vec![1], vec![1, 2], vec![1, 2, 3], vec![1, 3]];
    assert_eq!(seen.into_keys().collect::<Vec<_>>(), possible);
}

#[test]
fn names_that_were_synced_survive_and_removed_files_live_on_for_who_has_them_open() {
    let media = Arc::new(DiskMedia::default());
    let disk = disk(&media, &Arc::new(Life::new(None)));
    let file = disk.open("a", true).unwrap();
    file.write_at(0, b"abc").unwrap();
    file.sync().unwrap();
    disk.rename("a", "b").unwrap();
    disk.sync_names().unwrap();
    (0..9).for_each(|seed| drop(crash(&media, seed)));
    assert_eq!(named(&media), (vec!["b".into()], vec![3]));
    let file = disk.open("b", false).unwrap();
    disk.remove("b").unwrap();
    assert_eq!(&file.map(1..3).unwrap()[..], b"bc");
    assert_eq!(file.map(1..4).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(disk.remove("b").unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert_eq!(disk.rename("b", "c").unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn folders_have_files_of_their_own_and_share_the_room() {
    let media = Arc::new(DiskMedia::default());
    let disk = disk(&media, &Arc::new(Life::new(None)));
    media.set_room(Some(10));
    let folder = disk.folder("f").unwrap();
    folder.open("x", true).unwrap().write_at(0, &[1; 8]).unwrap();
    assert_eq!((disk.list().unwrap().len(), disk.folders().unwrap()), (0, vec!["f".to_owned()]));
    assert_eq!((folder.space().unwrap().free, disk.space().unwrap().free), (2, 2));
    let file = disk.open("y", true).unwrap();
    assert_eq!(file.write_at(0, &[1; 3]).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 0);
    file.write_at(0, &[1; 2]).unwrap();
    disk.folder("f").unwrap().remove("x").unwrap();
    file.write_at(0, &[1; 10]).unwrap();
}

#[test]
fn only_disks_that_may_be_lost_are_full_dying_or_rotten() {
    for (fault, tried) in [(Fault::FullDisk, 1u64), (Fault::FailedDisk, 1), (Fault::RottenBit, 0)] {
        let media = Arc::new(DiskMedia::default());
        let sound = disk(&media, &Arc::new(Life::new(None)));
        let fates = Arc::new(Fates::new(BTreeMap::from([(fault, 1000)]), 1));
        let frail = SimDisk { may: &Fault::OF_SPARE_DISKS, fates: fates.clone(), ..sound.clone() };
        let other = SimDisk { fates: fates.clone(), ..sound.clone() };
        other.open("f", true).unwrap().write_at(0, &[0; 64]).unwrap();
        assert_eq!(other.open("f", true).unwrap().map(0..64).unwrap(), [0; 64][..]);
        assert!(fates.fired().is_empty());
        let written = frail.open("f", true).and_then(|file| file.write_at(0, &[0; 64]));
        assert_eq!(u64::from(written.is_err()), tried, "{}", fault.name());
        let read = frail.open("f", true).and_then(|file| file.map(0..64));
        match fault {
            Fault::RottenBit => {
                assert_eq!(read.unwrap().iter().map(|byte| byte.count_ones()).sum::<u32>(), 1)
            }
            _ => assert_eq!(read.is_err(), fault == Fault::FailedDisk),
        }
        assert!(fates.fired()[&fault] >= 1);
    }
}

#[test]
fn the_dead_have_no_effect() {
    let media = Arc::new(DiskMedia::default());
    let life = Arc::new(Life::new(Some(3)));
    let file = disk(&media, &life).open("f", true).unwrap();
    file.write_at(0, &[1; 10]).unwrap();
    assert!(file.sync().is_err() && life.is_dead());
    assert_eq!(life.last_words(), Some(("disk", "sync")));
    assert!(file.write_at(0, &[2; 10]).is_err());
}

/// Puts and gets through a store with one fault that always strikes.
fn store_with(fault: Fault, permille: u32) -> (Vec<String>, BTreeMap<Fault, u64>, BTreeMap<String, u64>) {
    universe(1, move || {
        let media = Arc::new(ObjectMedia::default());
        let fates = Arc::new(Fates::new(BTreeMap::from([(fault, permille)]), 1));
        let store = |clock| SimObjects {
            media: media.clone(),
            clock: Arc::new(clock),
            life: Arc::new(Life::new(None)),
            chance: Arc::new(SimChance::new(1, "objects")),
            fates: fates.clone(),
            tape: Arc::new(Tape::new(false)),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let told = runtime.block_on(async {
            let store = store(SimClock::new(Duration::ZERO));
            let put = store.put("k", Bytes::from_static(&[7; 100])).await;
            let get = store.get("k", Some(10..200)).await.map(|body| body.len());
            if permille == 0 {
                let listed = store.list("k", "", 9).await.unwrap();
                assert!((DAWN..DAWN + 60).contains(&listed[0].modified), "{listed:?}");
            }
            vec![format!("{put:?}"), format!("{get:?}")]
        });
        (told, fates.fired(), media.sizes())
    })
    .unwrap()
}

#[test]
fn an_object_store_without_faults_keeps_and_shows() {
    let (told, fired, stored) = store_with(Fault::RefusedObject, 0);
    assert_eq!(told, ["Ok(())", "Ok(90)"]);
    assert!(fired.is_empty());
    assert_eq!(stored, BTreeMap::from([("k".into(), 100)]));
}

#[test]
fn each_fault_of_the_object_store_does_what_its_name_says() {
    let (told, fired, stored) = store_with(Fault::RefusedObject, 1000);
    assert!(told[0].contains("Transient") && stored.is_empty() && fired[&Fault::RefusedObject] == 2);
    let (told, fired, stored) = store_with(Fault::LostObjectReply, 1000);
    assert!(told[0].contains("Transient") && stored.len() == 1 && fired[&Fault::LostObjectReply] == 2);
    let (told, fired, stored) = store_with(Fault::DeniedPut, 1000);
    assert!(told[0].contains("Refused") && stored.is_empty() && fired[&Fault::DeniedPut] == 1);
    let (told, fired, _) = store_with(Fault::ShortBody, 1000);
    assert!(told[1].starts_with("Ok(") && told[1] != "Ok(90)" && fired[&Fault::ShortBody] == 1);
}
