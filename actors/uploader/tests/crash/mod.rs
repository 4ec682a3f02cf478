//! A disk for tests whose unsynced writes are lost, kept or torn when the power goes, and which can be full, fail its
//! syncs, die in the middle of something, and rot.
#![allow(dead_code)] // each test file uses its part

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use zest_world::{Disk, DiskFile};

/// Numbers from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

enum Op {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Default)]
struct Node {
    durable: Vec<u8>,
    live: Vec<u8>,
    pending: Vec<Op>,
    named: bool,
    locked: bool,
}

fn put(image: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[at as usize..end].copy_from_slice(data);
}

#[derive(Default)]
pub struct Media {
    files: BTreeMap<String, Node>,
    /// Removed, but perhaps not for a disk whose power goes.
    removed: BTreeMap<String, Node>,
    /// Effects until the machine dies.
    pub dies_in: Option<u64>,
    /// Bytes it can hold.
    pub capacity: Option<u64>,
    /// Syncs that fail, from now on.
    pub bad_syncs: u64,
    /// Reads that fail, from now on.
    pub bad_reads: u64,
    pub syncs: u64,
    pub sync_failed: bool,
}

impl Media {
    fn effect(&mut self) -> io::Result<()> {
        match &mut self.dies_in {
            Some(0) => Err(io::Error::other("the machine is dead")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub fn is_dead(&self) -> bool {
        self.dies_in == Some(0)
    }

    /// The power goes, and comes back.
    pub fn crash(&mut self, dice: &mut Dice) {
        self.dies_in = None;
        let mood = dice.below(4);
        for (name, node) in std::mem::take(&mut self.removed) {
            if dice.below(2) == 0 {
                self.files.entry(name).or_insert(node);
            }
        }
        self.files.retain(|_, node| node.named || dice.below(2) == 0);
        for node in self.files.values_mut() {
            for op in std::mem::take(&mut node.pending) {
                let fate = if mood < 2 { mood } else { dice.below(3) };
                match (op, fate) {
                    (_, 0) => {}
                    (Op::Length(len), _) => node.durable.resize(len as usize, 0),
                    (Op::Write(at, data), 1) => put(&mut node.durable, at, &data),
                    (Op::Write(at, data), _) => {
                        let mut from = 0;
                        while from < data.len() {
                            let here = at as usize + from;
                            let take = (512 - here % 512).min(data.len() - from);
                            if dice.below(2) == 0 {
                                put(&mut node.durable, here as u64, &data[from..from + take]);
                            }
                            from += take;
                        }
                    }
                }
            }
            node.live = node.durable.clone();
            (node.named, node.locked) = (true, false);
        }
    }

    /// The process ends; the machine stays.
    pub fn kill(&mut self) {
        self.dies_in = None;
        self.files.values_mut().for_each(|node| node.locked = false);
    }

    pub fn names(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    pub fn bytes_of(&self, name: &str) -> Vec<u8> {
        self.files[name].live.clone()
    }

    /// A file as somebody else left it.
    pub fn leave(&mut self, name: &str, bytes: Vec<u8>) {
        let node = Node { durable: bytes.clone(), live: bytes, named: true, ..Node::default() };
        self.files.insert(name.to_owned(), node);
    }

    /// A bit is not what it was.
    pub fn flip(&mut self, name: &str, byte: usize) {
        let node = self.files.get_mut(name).unwrap();
        node.live[byte] ^= 1;
        node.durable[byte] ^= 1;
    }
}

/// A directory of it.
#[derive(Clone, Default)]
pub struct CrashDisk {
    pub media: Arc<Mutex<Media>>,
    prefix: String,
}

impl CrashDisk {
    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl Disk for CrashDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let (mut media, name) = (self.media.lock(), self.full(name));
        if !media.files.contains_key(&name) {
            if !create {
                return Err(io::ErrorKind::NotFound.into());
            }
            media.effect()?;
            media.files.insert(name.clone(), Node::default());
        }
        Ok(Arc::new(CrashFile { media: Arc::clone(&self.media), name }))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.media.lock().files.contains_key(&self.full(name)))
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut media = self.media.lock();
        media.effect()?;
        media.removed.clear();
        media.files.values_mut().for_each(|node| node.named = true);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (mut media, name) = (self.media.lock(), self.full(name));
        media.effect()?;
        let node = media.files.remove(&name).ok_or(io::ErrorKind::NotFound)?;
        media.removed.insert(name, node);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut media, from, to) = (self.media.lock(), self.full(from), self.full(to));
        media.effect()?;
        let node = media.files.remove(&from).ok_or(io::ErrorKind::NotFound)?;
        media.files.insert(to, node);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let media = self.media.lock();
        let here = media.files.keys().filter_map(|name| name.strip_prefix(&self.prefix));
        Ok(here.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(CrashDisk { media: Arc::clone(&self.media), prefix: format!("{}{name}/", self.prefix) }))
    }

    fn folders(&self) -> io::Result<Vec<String>> {
        let media = self.media.lock();
        let here = media.files.keys().filter_map(|name| name.strip_prefix(&self.prefix));
        let folders: BTreeSet<&str> =
            here.filter_map(|name| name.split_once('/')).map(|found| found.0).collect();
        Ok(folders.into_iter().map(str::to_owned).collect())
    }
}

struct CrashFile {
    media: Arc<Mutex<Media>>,
    name: String,
}

impl CrashFile {
    fn with<T>(&self, effect: bool, act: impl FnOnce(&mut Node) -> io::Result<T>) -> io::Result<T> {
        let mut media = self.media.lock();
        if effect {
            media.effect()?;
        }
        // A file that was removed can still be written to by whoever has it open.
        let node = match media.files.contains_key(&self.name) {
            true => media.files.get_mut(&self.name),
            false => media.removed.get_mut(&self.name),
        };
        act(node.ok_or(io::ErrorKind::NotFound)?)
    }
}

impl DiskFile for CrashFile {
    fn len(&self) -> io::Result<u64> {
        self.with(false, |node| Ok(node.live.len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let left = self.media.lock().bad_reads;
        if left > 0 {
            self.media.lock().bad_reads = left - 1;
            return Err(io::Error::other("the disk gives nothing"));
        }
        self.with(false, |node| {
            let bytes = node.live.get(offset as usize..offset as usize + buffer.len());
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let used: u64 = self.media.lock().files.values().map(|node| node.live.len() as u64).sum();
        if self.media.lock().capacity.is_some_and(|most| used + data.len() as u64 > most) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let dead = self.media.lock().is_dead();
        let done = self.with(true, |node| {
            node.pending.push(Op::Write(offset, data.to_vec()));
            put(&mut node.live, offset, data);
            Ok(())
        });
        // The write at which the machine dies may have reached the disk.
        if !dead && self.media.lock().is_dead() { Err(io::Error::other("the machine is dead")) } else { done }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(true, |node| {
            node.live.resize(len as usize, 0);
            node.pending.push(Op::Length(len));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let bad = {
            let mut media = self.media.lock();
            media.syncs += 1;
            let bad = media.bad_syncs > 0;
            media.bad_syncs = media.bad_syncs.saturating_sub(1);
            media.sync_failed |= bad;
            bad
        };
        self.with(true, |node| {
            let pending = std::mem::take(&mut node.pending);
            if bad {
                return Err(io::Error::other("the disk could not write everything"));
            }
            for op in pending {
                match op {
                    Op::Write(at, data) => put(&mut node.durable, at, &data),
                    Op::Length(len) => node.durable.resize(len as usize, 0),
                }
            }
            Ok(())
        })
    }

    fn lock(&self) -> io::Result<()> {
        self.with(false, |node| match std::mem::replace(&mut node.locked, true) {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(()),
        })
    }
}
