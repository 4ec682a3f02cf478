//! After a crash at any call to the disk, whatever it kept of what was not synced, the engine opens and holds
//! exactly the state after one commit, not older than the last acknowledged sync. The same test on a disk whose
//! sync does nothing must find a violation.

use crate::disk::{Sync, TestDisk};
use crate::world::world;
use crate::{Dice, Model, change, content, put};
use futures::executor::block_on;
use std::sync::Arc;
use zest_engines::EmbeddedEngine;
use zest_metadata::{Engine, Key, Record, Write};
use zest_types::Ino;

const INODES: u64 = 60;
/// Holds the number of the last commit.
const COUNTER: u64 = 0;

/// A crash that was taken: the disk then, the last commit and the last acknowledged one.
struct Crash {
    disk: TestDisk,
    committed: usize,
    synced: usize,
}

struct Run {
    /// Length of the file from which the engine records its pages: never, or always.
    recorded_from: u64,
    /// State after each commit; the first is the empty one.
    history: Vec<Model>,
    /// Most bytes the disk held.
    largest: usize,
    crashes: Vec<Crash>,
}

fn target(dice: &mut Dice, long: u64) -> Vec<u8> {
    let len = if dice.below(6) == 0 { dice.below(long) } else { dice.below(200) };
    let byte = dice.roll() as u8;
    vec![byte; len as usize + 1]
}

fn random_change(dice: &mut Dice, model: &mut Model, number: usize, long: u64) -> Vec<Write> {
    let mut writes = Vec::new();
    for _ in 0..=dice.below(4) {
        let ino = 1 + dice.below(INODES - 1);
        if dice.below(4) == 0 {
            model.remove(&ino);
            writes.push(Write::Delete(Key::Symlink(Ino(ino))));
        } else {
            let target = target(dice, long);
            writes.push(put(ino, &target));
            model.insert(ino, target);
        }
    }
    let number = number.to_string().into_bytes();
    writes.push(put(COUNTER, &number));
    model.insert(COUNTER, number);
    writes
}

/// Works on a disk, from empty, and takes crashes on the way. In every third world targets are so long that the
/// file must grow, and shrinks again.
fn run(seed: u64, sync: Sync, commits: usize) -> Run {
    let mut dice = Dice(seed);
    let disk = TestDisk::default();
    disk.set_sync(sync);
    disk.crash_at(1 + dice.below(12));
    let mut model = Model::new();
    let recorded_from = if seed.is_multiple_of(2) { u64::MAX } else { 0 };
    let mut out = Run { recorded_from, history: vec![model.clone()], largest: 0, crashes: Vec::new() };
    let engine = EmbeddedEngine::open_recorded_from(Arc::new(disk.clone()), &world(), recorded_from).unwrap();
    let long = if seed.is_multiple_of(3) { 100_000 } else { 9_000 };
    let mut synced = 0;
    let take = |committed, synced, out: &mut Run, dice: &mut Dice| {
        if let Some(image) = disk.image() {
            out.crashes.push(Crash { disk: image, committed, synced });
            disk.crash_at(disk.calls() + 1 + dice.below(15));
        }
    };
    take(0, 0, &mut out, &mut dice);
    for number in 1..=commits {
        let writes = random_change(&mut dice, &mut model, number, long);
        engine.commit_now(&change(writes)).unwrap();
        out.history.push(model.clone());
        out.largest = out.largest.max(disk.used());
        if dice.below(5) == 0 {
            block_on(engine.sync()).unwrap();
            // Taken within the flush, before the acknowledgement.
            take(number, synced, &mut out, &mut dice);
            synced = number;
        }
    }
    out.crashes.push(Crash { disk: disk.clone(), committed: commits, synced });
    out
}

/// What is wrong after a crash, if anything.
fn judge(run: &Run, crash: &Crash, disk: &TestDisk, seed: u64) -> Result<(), String> {
    let opened = EmbeddedEngine::open_recorded_from(Arc::new(disk.clone()), &world(), run.recorded_from);
    let engine = opened.map_err(|e| e.to_string())?;
    let found = content(&engine, INODES);
    let number = found.get(&COUNTER).map_or(0, |n| String::from_utf8_lossy(n).parse().unwrap());
    if !(crash.synced..=crash.committed).contains(&number) {
        return Err(format!("commit {number} found, {} to {} possible", crash.synced, crash.committed));
    }
    if found != run.history[number] {
        return Err(format!("not the state after commit {number}"));
    }
    // It is a volume that works: one more commit is durable, and there after the next crash.
    engine.commit_now(&change(vec![put(INODES, b"more")])).map_err(|e| format!("{e:?}"))?;
    block_on(engine.sync()).map_err(|e| e.to_string())?;
    let disk = disk.crash(&mut Dice(seed));
    let engine = EmbeddedEngine::open(Arc::new(disk), &world()).map_err(|e| e.to_string())?;
    match engine.read_now(&[Key::Symlink(Ino(INODES))]) {
        Ok(found) if found == [Some(Record::Bytes(b"more".to_vec()))] => Ok(()),
        other => Err(format!("after the next crash {other:?}")),
    }
}

/// Crashes judged, and what the first violation was.
fn sweep(seeds: std::ops::Range<u64>, sync: Sync) -> (u64, Option<String>) {
    let mut judged = 0;
    for seed in seeds {
        let run = run(seed, sync, 120);
        let mut dice = Dice(seed ^ 0xC0FFEE);
        for crash in &run.crashes {
            for _ in 0..2 {
                let disk = crash.disk.crash(&mut dice);
                disk.crash_at(1 + dice.below(8));
                judged += 1;
                // Damage so bad that redb gives up loudly is a violation like any other.
                let verdict = std::panic::catch_unwind(|| judge(&run, crash, &disk, judged));
                let verdict = verdict.unwrap_or_else(|_| Err("a panic".into()));
                if let Err(what) = verdict {
                    return (judged, Some(format!("seed {seed}: {what}")));
                }
                // And once more: a crash while opening after the crash.
                if let Some(image) = disk.image() {
                    judged += 1;
                    if let Err(what) = judge(&run, crash, &image.crash(&mut dice), judged) {
                        return (judged, Some(format!("seed {seed}, crash while opening: {what}")));
                    }
                }
            }
        }
    }
    (judged, None)
}

#[test]
fn the_same_commits_make_the_same_calls_from_the_callers_thread() {
    let trail = |seed| {
        let run = run(seed, Sync::Works, 60);
        let last = run.crashes.last().expect("the end of the run is one");
        last.disk.trail()
    };
    let ((threads, first), (_, again), (_, other)) = (trail(5), trail(5), trail(6));
    assert_eq!(threads, 1);
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn beginning_a_volume_can_be_interrupted_anywhere() {
    let mut interrupted = 0;
    for call in 1..60 {
        let disk = TestDisk::default();
        disk.crash_at(call);
        drop(EmbeddedEngine::open(Arc::new(disk.clone()), &world()).unwrap());
        let Some(image) = disk.image() else { break };
        interrupted = call;
        let run =
            Run { recorded_from: u64::MAX, history: vec![Model::new()], largest: 0, crashes: Vec::new() };
        let crash = Crash { disk: image, committed: 0, synced: 0 };
        for seed in 0..12 {
            let after = crash.disk.crash(&mut Dice(seed));
            judge(&run, &crash, &after, seed ^ 0xAB)
                .unwrap_or_else(|what| panic!("call {call}, seed {seed}: {what}"));
        }
    }
    assert!(interrupted >= 10, "only {interrupted} calls");
}

#[test]
fn some_files_outgrow_their_first_size() {
    let largest = |seed| run(seed, Sync::Works, 120).largest;
    assert!(largest(3) > 2 * largest(1), "{} and {}", largest(3), largest(1));
}

#[test]
fn what_is_found_is_a_prefix_not_older_than_the_last_sync() {
    let (judged, violation) = sweep(0..20, Sync::Works);
    assert_eq!(violation, None);
    assert!(judged >= 500, "only {judged} crashes");
}

#[test]
fn a_disk_whose_sync_does_nothing_is_found_out() {
    let (judged, violation) = sweep(0..24, Sync::DoesNothing);
    let violation = violation.expect("no crash lost anything that was acknowledged");
    assert!(judged <= 100, "found late: {violation}");
}
