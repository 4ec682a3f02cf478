//! Many threads at once: a read and a scan see one moment, whatever is committed and flushed meanwhile.

use crate::disk::TestDisk;
use crate::world::world;
use crate::{change, put};
use futures::executor::block_on;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zest_engines::EmbeddedEngine;
use zest_metadata::{Engine, Key, Record, Scan, Write};
use zest_types::{FileType, Ino, Name};

const ROUNDS: u64 = 3000;
const LOOKS: u64 = 20_000;

fn name(n: u64) -> Key {
    Key::Dentry(Ino(1), Name::new(format!("{:02}", n % 50).as_bytes()).unwrap())
}

/// One entry moves on through 50 names, and two targets change together, until the readers have seen enough.
/// The last round.
fn write(engine: &EmbeddedEngine, looks: &AtomicU64) -> u64 {
    let entry = Record::Dentry { kind: FileType::File, ino: Ino(9) };
    for round in 0.. {
        // The end comes in any case: a reader that panicked looks no more.
        let enough = looks.load(Ordering::Relaxed) > LOOKS || round > 100 * ROUNDS;
        if round > ROUNDS && enough {
            return round - 1;
        }
        let target = round.to_string();
        let writes = vec![
            Write::Delete(name(round)),
            Write::Put(name(round + 1), entry.clone()),
            put(5, target.as_bytes()),
            put(6, target.as_bytes()),
        ];
        block_on(engine.commit(&change(writes))).unwrap();
    }
    unreachable!("rounds have no end")
}

fn look(engine: &EmbeddedEngine) {
    let both = [Key::Symlink(Ino(5)), Key::Symlink(Ino(6))];
    let found = engine.read_now(&both).unwrap();
    assert_eq!(found[0], found[1], "two records of one commit differ");
    let scan = Scan::Dentries { dir: Ino(1), after: None, limit: 1000 };
    let entries = engine.scan_now(&scan).unwrap();
    // Once the first commit was seen there is one entry, under one name; never two.
    assert_eq!(entries.len(), usize::from(found[0].is_some() || !entries.is_empty()), "{entries:?}");
}

#[test]
fn readers_see_whole_commits_while_flushes_run() {
    let engine = EmbeddedEngine::open(Arc::new(TestDisk::default()), &world()).unwrap();
    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    let until_done = |work: &dyn Fn()| {
        while !done.load(Ordering::Acquire) {
            work();
        }
    };
    let last = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                until_done(&|| {
                    look(&engine);
                    looks.fetch_add(1, Ordering::Relaxed);
                });
            });
        }
        scope.spawn(|| until_done(&|| block_on(engine.sync()).unwrap()));
        let last = write(&engine, &looks);
        done.store(true, Ordering::Release);
        last
    });
    let target = Record::Bytes(last.to_string().into_bytes());
    assert_eq!(engine.read_now(&[Key::Symlink(Ino(6))]).unwrap(), [Some(target)]);
}
