//! A disk in memory with the faults the engine must survive. A crash keeps, of everything written since the last
//! sync of a file, any subset of its sectors (512 or 4,096 bytes), any subset of the changes of length, and any
//! subset of the names made since the names were synced. It never changes what was synced. Besides: no room, and
//! syncs that fail or do nothing.

use crate::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use zest_world::{Disk, DiskFile};

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Clone, Default)]
struct Content {
    synced: Vec<u8>,
    now: Vec<u8>,
    since: Vec<Change>,
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Length(len) => bytes.resize(*len as usize, 0),
            Change::Write(at, data) => {
                let (at, end) = (*at as usize, *at as usize + data.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[at..end].copy_from_slice(data);
            }
        }
    }

    /// Cut into sectors.
    fn pieces(&self, sector: usize) -> Vec<Change> {
        let Change::Write(at, data) = self else { return vec![self.clone()] };
        let mut pieces = Vec::new();
        let mut from = 0;
        while from < data.len() {
            let start = *at as usize + from;
            let to = (from + sector - start % sector).min(data.len());
            pieces.push(Change::Write(start as u64, data[from..to].to_vec()));
            from = to;
        }
        pieces
    }
}

/// How syncs go.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Sync {
    #[default]
    Works,
    DoesNothing,
    Fails,
}

#[derive(Clone, Default)]
struct State {
    files: BTreeMap<String, Content>,
    synced_names: BTreeSet<String>,
    locked: BTreeSet<String>,
    sync: Sync,
    /// Bytes all files together may have.
    room: Option<usize>,
    calls: u64,
    /// Keep what a crash at this call would find.
    crash_at: Option<u64>,
    image: Option<Box<State>>,
    /// Which threads called, and a digest of everything they wrote, in order.
    threads: BTreeSet<String>,
    digest: u64,
}

#[derive(Clone, Default)]
pub struct TestDisk(Arc<Mutex<State>>);

impl TestDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn set_sync(&self, sync: Sync) {
        self.state().sync = sync;
    }

    pub fn set_room(&self, room: Option<usize>) {
        self.state().room = room;
    }

    /// How many bytes the files have now.
    pub fn used(&self) -> usize {
        self.state().files.values().map(|file| file.now.len()).sum()
    }

    /// Writes, changes of length and syncs so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Threads that wrote or synced, and a digest of all these calls in their order.
    pub fn trail(&self) -> (usize, u64) {
        let state = self.state();
        (state.threads.len(), state.digest)
    }

    /// Arms a crash at this call; what it would find is kept, and the disk goes on.
    pub fn crash_at(&self, call: u64) {
        self.state().crash_at = Some(call);
    }

    /// The disk as the armed crash found it, with everything written until then.
    pub fn image(&self) -> Option<TestDisk> {
        let image = self.state().image.take()?;
        Some(TestDisk(Arc::new(Mutex::new(*image))))
    }

    /// What a crash now leaves.
    pub fn crash(&self, dice: &mut Dice) -> TestDisk {
        let before = self.state().clone();
        let mut after = State { sync: before.sync, ..State::default() };
        let sector = if dice.below(2) == 0 { 512 } else { 4096 };
        let keep_of_ten = dice.below(11);
        for (name, file) in &before.files {
            if !before.synced_names.contains(name) && dice.below(2) == 0 {
                continue;
            }
            let mut bytes = file.synced.clone();
            for piece in file.since.iter().flat_map(|change| change.pieces(sector)) {
                if dice.below(10) < keep_of_ten {
                    piece.apply(&mut bytes);
                }
            }
            after.synced_names.insert(name.clone());
            let content = Content { synced: bytes.clone(), now: bytes, since: Vec::new() };
            after.files.insert(name.clone(), content);
        }
        TestDisk(Arc::new(Mutex::new(after)))
    }
}

impl State {
    fn note(&mut self, at: u64, bytes: &[u8]) {
        let words = bytes.iter().map(|byte| u64::from(*byte));
        self.digest = [at].into_iter().chain(words).fold(self.digest, |digest, word| {
            (digest ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(5)
        });
    }

    fn step(&mut self) {
        self.calls += 1;
        self.threads.insert(format!("{:?}", std::thread::current().id()));
        self.note(self.calls, b"");
        if self.crash_at.is_some_and(|at| at == self.calls) {
            self.crash_at = None;
            self.image = Some(Box::new(State { image: None, locked: BTreeSet::new(), ..self.clone() }));
        }
    }

    fn change(&mut self, name: &str, change: Change) -> io::Result<()> {
        self.step();
        match &change {
            Change::Length(len) => self.note(*len, b"length"),
            Change::Write(at, data) => self.note(*at, data),
        }
        let others: usize = self.files.iter().filter(|(n, _)| *n != name).map(|(_, f)| f.now.len()).sum();
        let file = self.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        let end = match &change {
            Change::Length(len) => *len as usize,
            Change::Write(at, data) => *at as usize + data.len(),
        };
        if end > file.now.len() && self.room.is_some_and(|room| others + end > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        change.apply(&mut file.now);
        file.since.push(change);
        Ok(())
    }
}

impl Disk for TestDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        if !state.files.contains_key(name) {
            if !create {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.files.insert(name.into(), Content::default());
        }
        Ok(Arc::new(TestFile { disk: self.clone(), name: name.into(), locked: Mutex::new(false) }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.state().files.contains_key(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.step();
        if state.sync == Sync::Works {
            state.synced_names = state.files.keys().cloned().collect();
        }
        Ok(())
    }
}

struct TestFile {
    disk: TestDisk,
    name: String,
    locked: Mutex<bool>,
}

impl DiskFile for TestFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[&self.name].now.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.disk.state();
        let bytes = &state.files[&self.name].now;
        let end = offset as usize + buffer.len();
        let found = bytes.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.state().change(&self.name, Change::Write(offset, data.to_vec()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.state().change(&self.name, Change::Length(len))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step();
        match state.sync {
            Sync::Fails => return Err(io::Error::other("the disk is gone")),
            Sync::DoesNothing => {}
            Sync::Works => {
                let file = state.files.get_mut(&self.name).ok_or(io::ErrorKind::NotFound)?;
                file.synced = file.now.clone();
                file.since.clear();
            }
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        if !self.disk.state().locked.insert(self.name.clone()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        *self.locked.lock().unwrap() = true;
        Ok(())
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        if *self.locked.lock().unwrap() {
            self.disk.state().locked.remove(&self.name);
        }
    }
}
