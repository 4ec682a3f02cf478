//! A simulated directory of files on a disk with a volatile cache. A write is visible at once and durable after
//! a sync; at a crash every write since then is kept, lost or torn at sector borders, each for itself, so that
//! later writes can survive earlier ones. Sectors themselves are never half old, half new.

use super::chance::SimChance;
use super::faults::{Fates, Fault};
use super::life::Life;
use super::tape::Tape;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use zest_world::{Disk, DiskFile, Event, Trace};

enum Pending {
    Write { offset: u64, data: Vec<u8> },
    Length(u64),
}

#[derive(Default)]
struct FileMedia {
    durable: Vec<u8>,
    live: Vec<u8>,
    pending: Vec<Pending>,
    name_is_durable: bool,
    locked: bool,
}

/// The platters. Outlive every client.
#[derive(Default)]
pub struct DiskMedia {
    files: Mutex<BTreeMap<String, FileMedia>>,
}

fn put_bytes(image: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let start = offset as usize;
    let end = start + data.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[start..end].copy_from_slice(data);
}

impl DiskMedia {
    /// The power goes: decides what of every unsynced write is still there. Returns how many bytes of the
    /// durable state changed.
    pub fn crash(&self, chance: &SimChance, fates: &Fates, tape: &Tape) {
        let mood = chance.below(4); // 0 loses all, 1 keeps all, else each write for itself
        let sector = *chance.pick(&[512u64, 4096]);
        let mut files = self.files.lock();
        files.retain(|_, file| file.name_is_durable || chance.permille(500));
        for (name, file) in files.iter_mut() {
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
            tape.say(|| {
                format!("    disk {name}: of the unsynced writes {kept} kept, {lost} lost, {torn} torn")
            });
            tape.event(Event { actor: "disk", kind: "crash", subject: lost, detail: torn });
            file.live = file.durable.clone();
            file.locked = false;
            file.name_is_durable = true;
        }
    }

    /// The client left in good order: locks are gone, the cache stays.
    pub fn closed(&self) {
        self.files.lock().values_mut().for_each(|file| file.locked = false);
    }
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
    /// The incarnation.
    pub life: Arc<Life>,
    /// Draws faults.
    pub fates: Arc<Fates>,
    /// Where effects are told.
    pub tape: Arc<Tape>,
}

struct SimFile {
    disk: SimDisk,
    name: String,
}

fn gone() -> io::Error {
    io::Error::other("the client is dead")
}

impl SimDisk {
    fn effect(&self, kind: &'static str, subject: u64, detail: u64) -> io::Result<()> {
        if !self.life.effect("disk", kind) {
            return Err(gone());
        }
        self.tape.event(Event { actor: "disk", kind, subject, detail });
        Ok(())
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.effect("open", 0, u64::from(create))?;
        let mut files = self.media.files.lock();
        if !files.contains_key(name) {
            if !create {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("no file {name}")));
            }
            files.insert(name.into(), FileMedia::default());
        }
        Ok(Arc::new(SimFile { disk: self.clone(), name: name.into() }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.media.files.lock().contains_key(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.effect("sync names", 0, 0)?;
        self.media.files.lock().values_mut().for_each(|file| file.name_is_durable = true);
        Ok(())
    }
}

impl SimFile {
    fn with<R>(&self, f: impl FnOnce(&mut FileMedia) -> io::Result<R>) -> io::Result<R> {
        match self.disk.media.files.lock().get_mut(&self.name) {
            Some(file) => f(file),
            None => Err(io::Error::new(io::ErrorKind::NotFound, format!("no file {}", self.name))),
        }
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.live.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.disk.life.is_dead() {
            return Err(gone());
        }
        self.with(|file| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let found = start.checked_add(buffer.len()).and_then(|end| file.live.get(start..end));
            let found = found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            buffer.copy_from_slice(found);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let alive = self.disk.effect("write", offset, data.len() as u64);
        if alive.is_err() && self.disk.life.last_words() != Some(("disk", "write")) {
            return alive;
        }
        // The write at which the client dies has reached the cache of the disk, and no further.
        self.with(|file| {
            put_bytes(&mut file.live, offset, data);
            file.pending.push(Pending::Write { offset, data: data.to_vec() });
            Ok(())
        })?;
        alive
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.effect("set length", len, 0)?;
        self.with(|file| {
            file.live.resize(len as usize, 0);
            file.pending.push(Pending::Length(len));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.effect("sync", 0, 0)?;
        let failed = self.disk.fates.strikes(Fault::FailedSync);
        self.with(|file| {
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
        })
    }

    fn lock(&self) -> io::Result<()> {
        self.with(|file| {
            if std::mem::replace(&mut file.locked, true) {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
            Ok(())
        })
    }
}
