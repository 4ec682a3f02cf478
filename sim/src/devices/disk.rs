//! A simulated directory of files on a disk with a volatile cache. A write is visible at once and durable after
//! a sync; at a crash every write since then is kept, lost or torn at sector borders, each for itself, so that
//! later writes can survive earlier ones. Sectors themselves are never half old, half new. Names that were made,
//! changed or removed since the last sync of names are kept or not, each change for itself and never by half.

use super::chance::SimChance;
use super::faults::{Fates, Fault};
use super::life::Life;
use super::tape::Tape;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zest_world::{Disk, DiskFile, Event, Space, Stamp, Trace};

enum Pending {
    Write { offset: u64, data: Vec<u8> },
    Length(u64),
}

/// What a file holds, whatever its name.
#[derive(Default)]
struct FileMedia {
    durable: Vec<u8>,
    live: Vec<u8>,
    pending: Vec<Pending>,
    /// Counts what was done to it; not what rot does.
    changes: u64,
    /// The open file that has the lock.
    locked: Option<u64>,
}

type Shared = Arc<Mutex<FileMedia>>;

/// A change of names that a crash may undo.
enum Naming {
    Made(String, Shared),
    Removed(String),
    Renamed(String, String),
}

impl Naming {
    fn apply(self, names: &mut BTreeMap<String, Shared>) {
        match self {
            Naming::Made(name, file) => drop(names.insert(name, file)),
            Naming::Removed(name) => drop(names.remove(&name)),
            Naming::Renamed(from, to) => {
                // Where the change that made the first name is lost there is nothing to rename.
                if let Some(file) = names.remove(&from) {
                    names.insert(to, file);
                }
            }
        }
    }
}

#[derive(Default)]
struct Names {
    live: BTreeMap<String, Shared>,
    durable: BTreeMap<String, Shared>,
    pending: Vec<Naming>,
    folders: BTreeMap<String, Arc<DiskMedia>>,
    /// Folders whose own name a crash may take.
    new_folders: Vec<String>,
}

/// The platters. Outlive every client.
#[derive(Default)]
pub struct DiskMedia {
    names: Mutex<Names>,
    /// Bytes that fit here and in all folders below; no end where it is not set.
    room: Mutex<Option<u64>>,
    opened: AtomicU64,
}

/// Files that a disk with an end of room can hold; never reached.
const MANY_FILES: u64 = 1 << 20;

fn put_bytes(image: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let start = offset as usize;
    let end = start + data.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[start..end].copy_from_slice(data);
}

impl DiskMedia {
    /// The power goes: decides what of every unsynced write and of every change of names is still there.
    pub fn crash(&self, chance: &SimChance, fates: &Fates, tape: &Tape) {
        let mood = chance.below(4); // 0 loses all, 1 keeps all, else each write for itself
        let sector = *chance.pick(&[512u64, 4096]);
        let mut names = self.names.lock();
        let mut durable = std::mem::take(&mut names.durable);
        for change in std::mem::take(&mut names.pending) {
            if chance.permille(500) {
                change.apply(&mut durable);
            }
        }
        for (name, file) in &durable {
            crash_file(name, &mut file.lock(), (mood, sector), chance, fates, tape);
        }
        names.live = durable.clone();
        names.durable = durable;
        for folder in std::mem::take(&mut names.new_folders) {
            if !chance.permille(500) {
                names.folders.remove(&folder);
            }
        }
        names.folders.values().for_each(|folder| folder.crash(chance, fates, tape));
    }

    /// The client left in good order: locks are gone, the cache stays.
    pub fn closed(&self) {
        let names = self.names.lock();
        names.live.values().for_each(|file| file.lock().locked = None);
        names.folders.values().for_each(|folder| folder.closed());
    }

    /// Gives the disk an end: so many bytes fit here and in all folders.
    pub fn set_room(&self, room: Option<u64>) {
        *self.room.lock() = room;
    }

    /// Changes one bit of what a file holds, as media do that rot: nothing is told of it.
    pub fn rot(&self, name: &str, at: u64, bit: u8) {
        if let Some(file) = self.names.lock().live.get(name) {
            flip(&mut file.lock(), at as usize, bit);
        }
    }

    /// The folder of this name.
    #[must_use]
    pub fn folder(&self, name: &str) -> Option<Arc<DiskMedia>> {
        self.names.lock().folders.get(name).cloned()
    }

    fn used(&self) -> u64 {
        let names = self.names.lock();
        let files: u64 = names.live.values().map(|file| file.lock().live.len() as u64).sum();
        files + names.folders.values().map(|folder| folder.used()).sum::<u64>()
    }

    fn live(&self, name: &str) -> io::Result<Shared> {
        let found = self.names.lock().live.get(name).cloned();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no file {name}")))
    }
}

fn flip(file: &mut FileMedia, at: usize, bit: u8) {
    for image in [&mut file.live, &mut file.durable] {
        if let Some(byte) = image.get_mut(at) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

fn crash_file(
    name: &str,
    file: &mut FileMedia,
    (mood, sector): (u64, u64),
    chance: &SimChance,
    fates: &Fates,
    tape: &Tape,
) {
    let (mut kept, mut lost, mut torn) = (0u64, 0u64, 0u64);
    for pending in std::mem::take(&mut file.pending) {
        let fate = if mood < 2 { mood } else { chance.below(3) };
        match (pending, fate) {
            (_, 0) => lost += 1,
            (Pending::Length(len), _) => {
                file.durable.resize(len as usize, 0);
                kept += 1;
            }
            (Pending::Write { offset, data }, 1) => {
                put_bytes(&mut file.durable, offset, &data);
                kept += 1;
            }
            (Pending::Write { offset, data }, _) => {
                if tear(&mut file.durable, offset, &data, sector, chance) {
                    torn += 1;
                } else {
                    kept += 1;
                }
            }
        }
    }
    (0..lost).for_each(|_| fates.count(Fault::LostWrite));
    (0..torn).for_each(|_| fates.count(Fault::TornWrite));
    tape.say(|| format!("    disk {name}: of the unsynced writes {kept} kept, {lost} lost, {torn} torn"));
    tape.event(Event { actor: "disk", kind: "crash", subject: lost, detail: torn });
    file.live = file.durable.clone();
    file.locked = None;
}

/// Keeps some sectors of a write; true when some were lost.
fn tear(image: &mut Vec<u8>, offset: u64, data: &[u8], sector: u64, chance: &SimChance) -> bool {
    let mut at = 0usize;
    let mut lost = false;
    while at < data.len() {
        let here = offset + at as u64;
        let take = ((sector - here % sector) as usize).min(data.len() - at);
        if chance.permille(500) {
            put_bytes(image, here, &data[at..at + take]);
        } else {
            lost = true;
        }
        at += take;
    }
    lost
}

/// The disk as one incarnation of the client reaches it.
#[derive(Clone)]
pub struct SimDisk {
    /// The platters.
    pub media: Arc<DiskMedia>,
    /// The platters that count the room: those of the outermost folder.
    pub whole: Arc<DiskMedia>,
    /// Of the faults `FullDisk`, `FailedDisk` and `RottenBit` those that this disk may meet.
    pub may: &'static [Fault],
    /// The incarnation.
    pub life: Arc<Life>,
    /// Draws faults.
    pub fates: Arc<Fates>,
    /// Where effects are told.
    pub tape: Arc<Tape>,
}

struct SimFile {
    disk: SimDisk,
    file: Shared,
    number: u64,
}

fn gone() -> io::Error {
    io::Error::other("the client is dead")
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl SimDisk {
    /// A disk that meets no faults but those of a crash and of a sync.
    #[must_use]
    pub fn sound(media: Arc<DiskMedia>, life: Arc<Life>, fates: Arc<Fates>, tape: Arc<Tape>) -> SimDisk {
        SimDisk { whole: media.clone(), media, may: &[], life, fates, tape }
    }

    fn effect(&self, kind: &'static str, subject: u64, detail: u64) -> io::Result<()> {
        if !self.life.effect("disk", kind) {
            return Err(gone());
        }
        self.tape.event(Event { actor: "disk", kind, subject, detail });
        Ok(())
    }

    fn strikes(&self, fault: Fault) -> bool {
        self.may.contains(&fault) && self.fates.strikes(fault)
    }

    /// An effect on a disk that may be dying.
    fn touch(&self, kind: &'static str, subject: u64, detail: u64) -> io::Result<()> {
        self.effect(kind, subject, detail)?;
        self.well()
    }

    fn well(&self) -> io::Result<()> {
        if self.strikes(Fault::FailedDisk) {
            return Err(io::Error::other("input/output error"));
        }
        Ok(())
    }

    fn room_for(&self, growth: u64) -> io::Result<()> {
        let room = *self.whole.room.lock();
        if self.strikes(Fault::FullDisk) {
            return Err(full());
        }
        match room {
            Some(room) if growth > 0 && self.whole.used() + growth > room => Err(full()),
            _ => Ok(()),
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.touch("open", 0, u64::from(create))?;
        let mut names = self.media.names.lock();
        let file = match names.live.get(name) {
            Some(file) => file.clone(),
            None if !create => {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("no file {name}")));
            }
            None => {
                let file = Shared::default();
                names.live.insert(name.into(), file.clone());
                names.pending.push(Naming::Made(name.into(), file.clone()));
                file
            }
        };
        let number = self.media.opened.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Arc::new(SimFile { disk: self.clone(), file, number }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.media.names.lock().live.contains_key(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.touch("sync names", 0, 0)?;
        let mut names = self.media.names.lock();
        let mut durable = std::mem::take(&mut names.durable);
        std::mem::take(&mut names.pending).into_iter().for_each(|change| change.apply(&mut durable));
        names.durable = durable;
        names.new_folders.clear();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.touch("remove", 0, 0)?;
        self.media.live(name)?;
        let mut names = self.media.names.lock();
        names.live.remove(name);
        names.pending.push(Naming::Removed(name.into()));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.touch("rename", 0, 0)?;
        let file = self.media.live(from)?;
        let mut names = self.media.names.lock();
        names.live.remove(from);
        names.live.insert(to.into(), file);
        names.pending.push(Naming::Renamed(from.into(), to.into()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.touch("list", 0, 0)?;
        Ok(self.media.names.lock().live.keys().cloned().collect())
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        self.touch("folder", 0, 0)?;
        let mut names = self.media.names.lock();
        if !names.folders.contains_key(name) {
            names.folders.insert(name.into(), Arc::default());
            names.new_folders.push(name.into());
        }
        let media = names.folders.get(name).cloned().unwrap_or_default();
        Ok(Arc::new(SimDisk { media, ..self.clone() }))
    }

    fn folders(&self) -> io::Result<Vec<String>> {
        self.touch("list", 0, 1)?;
        Ok(self.media.names.lock().folders.keys().cloned().collect())
    }

    fn space(&self) -> io::Result<Space> {
        self.touch("space", 0, 0)?;
        let total = self.whole.room.lock().unwrap_or(1 << 50);
        let free = total.saturating_sub(self.whole.used());
        Ok(Space { total, free, files_total: MANY_FILES, files_free: MANY_FILES })
    }
}

impl SimFile {
    fn readable(&self, range: Range<u64>) -> io::Result<()> {
        if self.disk.life.is_dead() {
            return Err(gone());
        }
        self.disk.well()?;
        if self.disk.strikes(Fault::RottenBit) {
            let bit = self.disk.fates.below((range.end - range.start).saturating_mul(8));
            flip(&mut self.file.lock(), (range.start + bit / 8) as usize, (bit % 8) as u8);
        }
        Ok(())
    }
}

fn window(file: &FileMedia, range: &Range<u64>) -> io::Result<Range<usize>> {
    let start = usize::try_from(range.start).unwrap_or(usize::MAX);
    let end = usize::try_from(range.end).unwrap_or(usize::MAX);
    if start > end || end > file.live.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(start..end)
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.lock().live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        self.readable(range.clone())?;
        let file = self.file.lock();
        buffer.copy_from_slice(&file.live[window(&file, &range)?]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let alive = self.disk.effect("write", offset, data.len() as u64);
        if alive.is_err() && self.disk.life.last_words() != Some(("disk", "write")) {
            return alive;
        }
        self.disk.well()?;
        let end = offset.saturating_add(data.len() as u64);
        self.disk.room_for(end.saturating_sub(self.len()?))?;
        // The write at which the client dies has reached the cache of the disk, and no further.
        let mut file = self.file.lock();
        put_bytes(&mut file.live, offset, data);
        file.changes += 1;
        file.pending.push(Pending::Write { offset, data: data.to_vec() });
        alive
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.touch("set length", len, 0)?;
        let mut file = self.file.lock();
        file.live.resize(len as usize, 0);
        file.changes += 1;
        file.pending.push(Pending::Length(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.touch("sync", 0, 0)?;
        let failed = self.disk.fates.strikes(Fault::FailedSync);
        let mut file = self.file.lock();
        let pending = std::mem::take(&mut file.pending);
        if failed {
            return Err(io::Error::other("the disk could not write everything"));
        }
        for item in pending {
            match item {
                Pending::Write { offset, data } => put_bytes(&mut file.durable, offset, &data),
                Pending::Length(len) => file.durable.resize(len as usize, 0),
            }
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        let mut file = self.file.lock();
        match file.locked {
            Some(owner) if owner != self.number => Err(io::ErrorKind::WouldBlock.into()),
            _ => {
                file.locked = Some(self.number);
                Ok(())
            }
        }
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.disk.well()?;
        let file = self.file.lock();
        Ok(Stamp { len: file.live.len() as u64, change: file.changes })
    }

    fn map(&self, range: Range<u64>) -> io::Result<Bytes> {
        let len = range.end.saturating_sub(range.start);
        let mut bytes = vec![0; len as usize];
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes.into())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut file = self.file.lock();
        if file.locked == Some(self.number) {
            file.locked = None;
        }
    }
}
