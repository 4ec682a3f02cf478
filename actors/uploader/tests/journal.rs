//! The staging journal on a disk that loses and tears what was not synced: what was answered is there after any
//! crash, nothing comes back with other bytes, and what is wrong with the disk is told, not thrown away.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod crash;

use crash::{CrashDisk, Dice};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use zest_data::BlockId;
use zest_types::{Ino, SliceId};
use zest_uploader::staging::journal::{Item, Place};
use zest_uploader::staging::{Bounds, Journal, Recovered, StagingError};
use zest_world::planted::{Bug, activate};
use zest_world::{Chance, Disk};

const UUID: &str = "00000000-0000-0000-0000-000000000007";
const SMALL: Bounds = Bounds { bytes: 1 << 20, keep_free: 0, segment: 16 << 10 };

struct Counting(parking_lot::Mutex<Dice>);

impl Chance for Counting {
    fn next_u64(&self) -> u64 {
        self.0.lock().next()
    }
}

fn open(disk: &CrashDisk, seed: u64) -> Result<(Journal, Recovered), StagingError> {
    let chance = Arc::new(Counting(parking_lot::Mutex::new(Dice(seed))));
    Journal::open(Arc::new(disk.clone()), UUID, chance, SMALL)
}

fn block(n: u64) -> BlockId {
    BlockId { slice: SliceId(n), index: 0 }
}

fn content(n: u64) -> Vec<u8> {
    let len = [1, 100, 128, 700, 4096, 5000][n as usize % 6];
    let mut dice = Dice(n);
    (0..len).map(|_| dice.next() as u8).collect()
}

fn item(n: u64) -> Item {
    Item { ino: Ino(n % 3), block: block(n), plain: content(n).len() as u32, at: 5, data: content(n).into() }
}

/// Lives of one journal, one after the other, each ending somewhere in the middle of something.
struct Story {
    disk: CrashDisk,
    dice: Dice,
    /// Answered and not forgotten.
    owed: BTreeSet<u64>,
    /// All that are there; a write that failed may be, too, for a while.
    known: BTreeMap<u64, Place>,
    last: u64,
}

impl Story {
    fn new(seed: u64) -> Story {
        Story {
            disk: CrashDisk::default(),
            dice: Dice(seed),
            owed: BTreeSet::new(),
            known: BTreeMap::new(),
            last: 0,
        }
    }

    /// One life. With `power` everything unsynced is at stake in the end.
    fn live(&mut self, power: bool) -> Result<(), String> {
        let seed = self.dice.next();
        let (journal, found) = open(&self.disk, seed).map_err(|error| error.to_string())?;
        self.look(&journal, &found)?;
        let dies_in = self.dice.below(60);
        self.disk.media.lock().dies_in = Some(dies_in);
        for _ in 0..40 {
            if self.disk.media.lock().is_dead() {
                break;
            }
            match self.dice.below(10) {
                0..6 => self.append(&journal),
                6..9 => self.forget(&journal),
                _ => {
                    let bad = self.dice.below(8) == 0;
                    self.disk.media.lock().bad_syncs = u64::from(bad);
                }
            }
        }
        drop(journal);
        let mut media = self.disk.media.lock();
        media.bad_syncs = 0;
        // After a failed sync the machine shows what its disk has not: it is not used any further.
        if power || std::mem::take(&mut media.sync_failed) {
            media.crash(&mut self.dice)
        } else {
            media.kill()
        }
        Ok(())
    }

    fn append(&mut self, journal: &Journal) {
        let numbers: Vec<u64> = (0..self.dice.below(4) + 1).map(|n| self.last + 1 + n).collect();
        self.last += numbers.len() as u64;
        let items: Vec<Item> = numbers.iter().map(|n| item(*n)).collect();
        if let Ok(places) = journal.append(&items) {
            self.owed.extend(&numbers);
            self.known.extend(numbers.into_iter().zip(places));
        }
    }

    fn forget(&mut self, journal: &Journal) {
        let some = self.dice.below(5) as usize;
        // The oldest mostly, as uploads go.
        let skip = if self.dice.below(4) == 0 { self.dice.below(3) as usize } else { 0 };
        let gone: Vec<u64> = self.known.keys().copied().skip(skip).take(some).collect();
        let pairs: Vec<(BlockId, u64)> = gone.iter().map(|n| (block(*n), self.known[n].segment)).collect();
        let _ = journal.forget(&pairs);
        gone.iter().for_each(|n| {
            self.owed.remove(n);
            self.known.remove(n);
        });
    }

    fn look(&mut self, journal: &Journal, found: &Recovered) -> Result<(), String> {
        if !found.troubles.is_empty() {
            return Err(format!("a sound disk is blamed: {:?}", found.troubles));
        }
        let mut places = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (head, place) in &found.blocks {
            let n = head.block.slice.0;
            let read = journal.read(place).map_err(|error| format!("block {n} can't be read: {error}"))?;
            if read != content(n) || head.ino != Ino(n % 3) || head.plain as usize != content(n).len() {
                return Err(format!("block {n} comes back with other bytes"));
            }
            if !seen.insert(n) {
                return Err(format!("block {n} comes back twice"));
            }
            places.insert(n, *place);
        }
        if let Some(lost) = self.owed.iter().find(|n| !places.contains_key(*n)) {
            return Err(format!("block {lost} was answered and is lost"));
        }
        let order: Vec<u64> = found.blocks.iter().map(|(head, _)| head.block.slice.0).collect();
        if !order.is_sorted() {
            return Err(format!("the order of staging is lost: {order:?}"));
        }
        // What comes back although nobody was told of it, or although it was forgotten, is used like any other.
        self.known = places;
        Ok(())
    }
}

fn story(seed: u64) -> Result<(), String> {
    let mut story = Story::new(seed);
    for life in 0..6 {
        let power = story.dice.below(3) > 0;
        story.live(power).map_err(|text| format!("life {life}: {text}"))?;
    }
    Ok(())
}

fn first_failure(seeds: u64) -> Option<(u64, String)> {
    (0..seeds).find_map(|seed| story(seed).err().map(|text| (seed, text)))
}

#[test]
fn what_was_answered_survives_a_crash_at_any_effect() {
    assert_eq!(first_failure(600), None);
}

#[test]
fn bugs_of_the_journal_are_found() {
    for (bug, word) in [
        (Bug::TornTailBelieved, "other bytes"),
        (Bug::ReplyBeforeGroupSync, "lost"),
        (Bug::TrimDropsStaged, "staged"),
    ] {
        activate(Some(bug));
        let found = first_failure(600);
        activate(None);
        let (seed, text) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        assert!(text.contains(word), "{bug:?}: seed {seed}: {text}");
    }
}

#[test]
fn many_share_a_sync() {
    let disk = CrashDisk::default();
    let (journal, _) = open(&disk, 1).unwrap();
    journal.append(&[item(1)]).unwrap();
    let before = disk.media.lock().syncs;
    journal.append(&(2..20).map(item).collect::<Vec<_>>()).unwrap();
    assert_eq!(disk.media.lock().syncs, before + 1);
}

#[test]
fn a_second_process_is_refused() {
    let disk = CrashDisk::default();
    let first = open(&disk, 1).unwrap();
    assert!(matches!(open(&disk, 2), Err(StagingError::InUse)));
    drop(first);
}

#[test]
fn what_is_full_takes_nothing_and_gives_its_room_back() {
    let disk = CrashDisk::default();
    let (journal, _) = open(&disk, 1).unwrap();
    let mut places = BTreeMap::new();
    let error = loop {
        let n = places.len() as u64 * 6 + 5;
        match journal.append(&[item(n)]) {
            Ok(found) => places.extend([(n, found[0])]),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(places.len() > 180 && journal.bytes() <= SMALL.bytes);
    let gone: Vec<_> = places.iter().map(|(n, place)| (block(*n), place.segment)).collect();
    journal.forget(&gone).unwrap();
    assert!(journal.bytes() < 8 << 10, "{} bytes are left", journal.bytes());
    journal.append(&[item(1)]).unwrap();
    disk.media.lock().capacity = Some(0);
    assert_eq!(journal.append(&[item(2)]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.media.lock().capacity = None;
    journal.append(&[item(3)]).unwrap();
    drop(journal);
    disk.media.lock().crash(&mut Dice(1));
    let numbers: Vec<u64> =
        open(&disk, 2).unwrap().1.blocks.iter().map(|(head, _)| head.block.slice.0).collect();
    assert_eq!(numbers, [1, 3]);
}

/// A journal with blocks 1 to 9 of 4096 or 5000 bytes, and the process killed.
fn nine(disk: &CrashDisk) -> BTreeMap<u64, Place> {
    let (journal, _) = open(disk, 1).unwrap();
    let items: Vec<Item> = (1..10).map(item).collect();
    let places = journal.append(&items).unwrap();
    drop(journal);
    disk.media.lock().kill();
    (1..10).zip(places).collect()
}

#[test]
fn a_damaged_record_in_the_middle_is_kept_and_told() {
    for (byte, told_at) in [(3, "open"), (128, "read")] {
        let disk = CrashDisk::default();
        let places = nine(&disk);
        let name = disk.media.lock().names().into_iter().find(|name| name.starts_with("journal-")).unwrap();
        let at = places[&4].offset as usize + byte;
        disk.media.lock().flip(&name, at);
        let before = disk.media.lock().bytes_of(&name);
        let (journal, found) = open(&disk, 2).unwrap();
        assert_eq!(found.troubles.len(), usize::from(byte == 3 || found.blocks.len() == 8), "{told_at}");
        for (head, place) in &found.blocks {
            let n = head.block.slice.0;
            match journal.read(place) {
                Ok(bytes) => assert_eq!(bytes, content(n)),
                Err(_) => assert_eq!(n, 4),
            }
        }
        let sound: Vec<(BlockId, u64)> = (1..10).filter(|n| *n != 4).map(|n| (block(n), 1)).collect();
        if found.blocks.len() == 9 {
            journal.damaged(1);
        }
        journal.forget(&sound).unwrap();
        journal.finish();
        drop(journal);
        disk.media.lock().kill();
        let kept = disk.media.lock().names().into_iter().find(|name| name.starts_with("damaged-")).unwrap();
        let now = disk.media.lock().bytes_of(&kept);
        assert_eq!(now[..places[&9].offset as usize], before[..places[&9].offset as usize]);
        let (_journal, found) = open(&disk, 3).unwrap();
        assert!(found.blocks.is_empty());
        assert_eq!(found.troubles.len(), 1, "{:?}", found.troubles);
    }
}

#[test]
fn a_strangers_journal_is_left_alone() {
    let disk = CrashDisk::default();
    nine(&disk);
    let files = disk.media.lock().names();
    let chance = Arc::new(Counting(parking_lot::Mutex::new(Dice(9))));
    let disk_again: Arc<dyn Disk> = Arc::new(disk.clone());
    let (journal, found) = Journal::open(disk_again, "another", chance, SMALL).unwrap();
    assert!(found.blocks.is_empty() && found.troubles[0].contains("another volume"), "{:?}", found.troubles);
    let place = journal.append(&[item(100)]).unwrap()[0];
    journal.forget(&[(block(100), place.segment)]).unwrap();
    journal.finish();
    drop(journal);
    assert!(files.iter().all(|name| disk.media.lock().names().contains(name)));
    disk.media.lock().kill();
    assert_eq!(open(&disk, 2).unwrap().1.blocks.len(), 9);
}

#[test]
fn bytes_of_a_journal_that_are_somebodys_data_are_no_records() {
    let disk = CrashDisk::default();
    nine(&disk);
    let copy = disk.media.lock().bytes_of("journal-000000000001");
    let other = CrashDisk::default();
    let (journal, _) = open(&other, 5).unwrap();
    let data = bytes::Bytes::from(copy);
    let own = Item { data, ..item(77) };
    let place = journal.append(&[own]).unwrap()[0];
    drop(journal);
    other.media.lock().kill();
    // Its own head is damaged, so that records are looked for in what follows.
    other.media.lock().flip("journal-000000000001", place.offset as usize + 9);
    let (_journal, found) = open(&other, 6).unwrap();
    assert_eq!((found.blocks.len(), found.troubles.len()), (0, 1), "{:?}", found.troubles);
}
