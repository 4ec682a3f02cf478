//! Staged blocks on a local disk: files that only grow, one after the other. What [`Journal::append`] answered with
//! `Ok` survives a crash. A file goes when none of its blocks waits any more, the oldest first; one with damage is
//! kept under another name. Calls block; knows no store and no order of uploads.

use super::record::{HEAD, Head, Kind, padded};
use super::recovery::{self, Recovered};
use super::{Bounds, StagingError};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use zest_data::BlockId;
use zest_data::checksum::crc32c;
use zest_types::{Ino, SliceId};
use zest_world::planted::{Bug, active};
use zest_world::{Chance, Disk, DiskFile};

/// Contents at least this large are written from where they are, without a copy.
const LARGE: usize = 64 << 10;

/// A block to be staged.
#[derive(Clone, Debug)]
pub struct Item {
    /// The file.
    pub ino: Ino,
    /// The block.
    pub block: BlockId,
    /// Bytes of the plain block.
    pub plain: u32,
    /// When, unix seconds.
    pub at: i64,
    /// The object's bytes.
    pub data: Bytes,
}

/// Where a staged block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the segment.
    pub segment: u64,
    /// Where its head stands.
    pub offset: u64,
    /// Bytes of the object.
    pub stored: u32,
    /// CRC-32C of them.
    pub sum: u32,
}

/// Why a staged block can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It went meanwhile.
    #[error("it is not staged any more")]
    Gone,
    /// Its bytes are not what was written.
    #[error("its bytes are damaged")]
    Damaged,
    /// The disk failed.
    #[error("the disk can't read it: {0}")]
    Disk(io::Error),
}

/// A file of the journal.
pub(super) struct Segment {
    pub(super) file: Arc<dyn DiskFile>,
    /// Blocks that wait.
    pub(super) live: u64,
    pub(super) size: u64,
    pub(super) damaged: bool,
}

/// The file that grows.
struct Current {
    number: u64,
    file: Arc<dyn DiskFile>,
    nonce: u64,
    len: u64,
    synced: u64,
}

pub(super) struct Tail {
    current: Option<Current>,
    pub(super) next: u64,
    /// The file that grew last, and its synced bytes.
    pub(super) before: (u64, u64),
    pub(super) segments: BTreeMap<u64, Segment>,
}

/// The journal of one volume in one directory; nobody else has it meanwhile.
pub struct Journal {
    disk: Arc<dyn Disk>,
    uuid: String,
    chance: Arc<dyn Chance>,
    bounds: Bounds,
    tail: Mutex<Tail>,
    /// For those who read while somebody writes.
    files: Mutex<BTreeMap<u64, Arc<dyn DiskFile>>>,
    _lock: Arc<dyn DiskFile>,
}

pub(super) fn segment_name(number: u64) -> String {
    format!("journal-{number:012}")
}

pub(super) fn damaged_name(number: u64) -> String {
    format!("damaged-{number:012}")
}

impl Journal {
    /// Opens the journal in this directory, and tells what waits there.
    pub fn open(
        disk: Arc<dyn Disk>,
        uuid: &str,
        chance: Arc<dyn Chance>,
        bounds: Bounds,
    ) -> Result<(Journal, Recovered), StagingError> {
        let lock = disk.open("lock", true).map_err(StagingError::of("lock"))?;
        lock.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StagingError::InUse,
            _ => StagingError::of("lock")(error),
        })?;
        let (tail, found) = recovery::recover(&*disk, uuid)?;
        let files = tail.segments.iter().map(|(number, segment)| (*number, Arc::clone(&segment.file)));
        let files = Mutex::new(files.collect());
        let (uuid, tail) = (uuid.to_owned(), Mutex::new(tail));
        let journal = Journal { disk, uuid, chance, bounds, tail, files, _lock: lock };
        journal.trim(&mut journal.tail.lock());
        Ok((journal, found))
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tail.lock().bytes()
    }

    /// Writes blocks and syncs them, all or none.
    pub fn append(&self, items: &[Item]) -> io::Result<Vec<Place>> {
        let mut tail = self.tail.lock();
        let size: u64 = items.iter().map(|item| HEAD + padded(item.data.len() as u64)).sum();
        self.need_room(&tail, size)?;
        let written = self.current(&mut tail).and_then(|current| {
            let start = current.len;
            current.write(items).inspect_err(|_| {
                // Nobody was told of these. What can't be cut is not believed either.
                let _ = current.file.set_len(start);
            })
        });
        match written {
            Ok(places) => {
                if let Some(current) = &tail.current {
                    let (number, len) = (current.number, current.len);
                    if let Some(segment) = tail.segments.get_mut(&number) {
                        segment.live += places.len() as u64;
                        segment.size = len;
                    }
                }
                Ok(places)
            }
            Err(error) => {
                // After a failed sync nobody knows what the disk has of this file.
                tail.retire();
                Err(error)
            }
        }
    }

    /// The bytes of a staged block.
    pub fn read(&self, place: &Place) -> Result<Bytes, ReadError> {
        let file = self.files.lock().get(&place.segment).cloned().ok_or(ReadError::Gone)?;
        let mut bytes = vec![0; place.stored as usize];
        match file.read_at(place.offset + HEAD, &mut bytes) {
            Ok(()) if crc32c(&bytes) == place.sum || active(Bug::TornTailBelieved) => Ok(bytes.into()),
            Ok(()) => Err(ReadError::Damaged),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ReadError::Damaged),
            Err(error) => Err(ReadError::Disk(error)),
        }
    }

    /// These blocks need to go nowhere any more. Noted without a sync: what a crash takes of it is uploaded twice.
    pub fn forget(&self, blocks: &[(BlockId, u64)]) -> io::Result<()> {
        let mut tail = self.tail.lock();
        for (_, number) in blocks {
            if let Some(segment) = tail.segments.get_mut(number) {
                segment.live = segment.live.saturating_sub(1);
            }
        }
        self.shorten(&mut tail);
        self.trim(&mut tail);
        if tail.segments.is_empty() {
            return Ok(());
        }
        self.current(&mut tail)?.note(blocks)?;
        tail.grown();
        Ok(())
    }

    /// A block of this segment is damaged: the segment is kept.
    pub fn damaged(&self, number: u64) {
        let mut tail = self.tail.lock();
        if let Some(segment) = tail.segments.get_mut(&number) {
            segment.live = segment.live.saturating_sub(1);
            segment.damaged = true;
        }
        self.trim(&mut tail);
    }

    /// Everything went: no file is needed any more. What waits or is damaged stays.
    pub fn finish(&self) {
        let mut tail = self.tail.lock();
        tail.retire();
        self.trim(&mut tail);
    }

    /// A file of some size grows no more when nothing waits, so that it can go.
    fn shorten(&self, tail: &mut Tail) {
        let nothing = tail.segments.values().all(|segment| segment.live == 0);
        if nothing && tail.current.as_ref().is_some_and(|current| current.len >= self.bounds.segment / 4) {
            tail.retire();
        }
    }

    fn need_room(&self, tail: &Tail, size: u64) -> io::Result<()> {
        let full = |why: String| Err(io::Error::new(io::ErrorKind::StorageFull, why));
        let used = tail.bytes();
        if used.saturating_add(size) > self.bounds.bytes {
            return full(format!("{used} bytes wait already, of at most {}", self.bounds.bytes));
        }
        match self.disk.space() {
            Ok(space) if space.free < size.saturating_add(space.total / 1000 * self.bounds.keep_free) => {
                full(format!("its disk has {} bytes left", space.free))
            }
            _ => Ok(()),
        }
    }

    /// The file that grows; a new one where there is none or it is large.
    fn current<'a>(&self, tail: &'a mut Tail) -> io::Result<&'a mut Current> {
        if let Some(large) = tail.current.as_mut().filter(|current| current.len >= self.bounds.segment) {
            let synced = large.file.sync();
            if synced.is_ok() {
                large.synced = large.len;
            }
            tail.retire();
            synced?;
        }
        if tail.current.is_none() {
            let number = tail.next;
            tail.next += 1;
            let current = self.begin(number, tail.before)?;
            let file = Arc::clone(&current.file);
            self.files.lock().insert(number, Arc::clone(&file));
            tail.segments.insert(number, Segment { file, live: 0, size: current.len, damaged: false });
            tail.current = Some(current);
        }
        tail.current.as_mut().ok_or_else(|| io::Error::other("no file of the journal is open"))
    }

    fn begin(&self, number: u64, before: (u64, u64)) -> io::Result<Current> {
        let (file, nonce) = (self.disk.open(&segment_name(number), true)?, self.chance.next_u64());
        let block = BlockId { slice: SliceId(number), index: 0 };
        let uuid = self.uuid.as_bytes();
        let (ino, at) = (Ino(before.0), before.1.cast_signed());
        let stored = u32::try_from(uuid.len()).unwrap_or(0);
        let head =
            Head { ino, block, stored, at, sum: crc32c(uuid), ..Head::bare(Kind::Segment, nonce, 0, 0) };
        let mut bytes = head.encode().to_vec();
        bytes.extend_from_slice(uuid);
        bytes.resize(usize::try_from(head.span()).unwrap_or(0), 0);
        file.write_at(0, &bytes)?;
        file.sync()?;
        self.disk.sync_names()?;
        Ok(Current { number, file, nonce, len: head.span(), synced: head.span() })
    }

    /// Removes files nothing waits in, the oldest first: a later one may say of an earlier one's blocks that they
    /// are gone.
    fn trim(&self, tail: &mut Tail) {
        let growing = tail.current.as_ref().map(|current| current.number);
        let mut changed = false;
        while let Some((&number, oldest)) = tail.segments.iter().next() {
            let waits = oldest.live > 0 && !active(Bug::TrimDropsStaged);
            if waits || Some(number) == growing {
                break;
            }
            let done = match oldest.damaged {
                true => self.disk.rename(&segment_name(number), &damaged_name(number)),
                false => self.disk.remove(&segment_name(number)),
            };
            if done.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                break; // it is tried again with the next block that goes
            }
            changed = true;
            tail.segments.remove(&number);
            self.files.lock().remove(&number);
        }
        if changed {
            // A file that comes back after a crash is uploaded once more, or is kept once more.
            let _ = self.disk.sync_names();
        }
    }
}

impl Tail {
    pub(super) fn new(next: u64, before: (u64, u64), segments: BTreeMap<u64, Segment>) -> Tail {
        Tail { current: None, next, before, segments }
    }

    fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.size).sum()
    }

    /// The file that grows does not any more.
    fn retire(&mut self) {
        if let Some(current) = self.current.take() {
            self.before = (current.number, current.synced);
        }
    }

    fn grown(&mut self) {
        if let Some(current) = &self.current
            && let Some(segment) = self.segments.get_mut(&current.number)
        {
            segment.size = current.len;
        }
    }
}

impl Current {
    fn write(&mut self, items: &[Item]) -> io::Result<Vec<Place>> {
        let start = self.len;
        let (mut buffer, mut buffer_at, mut at) = (Vec::new(), start, start);
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            let stored = u32::try_from(item.data.len())
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a block is too large"))?;
            let (ino, block, plain, sum) = (item.ino, item.block, item.plain, crc32c(&item.data));
            let bare = Head::bare(Kind::Block, self.nonce, at, self.synced);
            let head = Head { ino, block, plain, stored, sum, at: item.at, ..bare };
            buffer.extend_from_slice(&head.encode());
            if item.data.len() >= LARGE {
                self.file.write_at(buffer_at, &buffer)?;
                buffer_at += buffer.len() as u64;
                buffer.clear();
                self.file.write_at(buffer_at, &item.data)?;
                buffer_at += item.data.len() as u64;
            } else {
                buffer.extend_from_slice(&item.data);
            }
            let end = at + head.span();
            buffer.resize(usize::try_from(end - buffer_at).unwrap_or(0), 0);
            places.push(Place { segment: self.number, offset: at, stored, sum });
            at = end;
        }
        self.file.write_at(buffer_at, &buffer)?;
        if !active(Bug::ReplyBeforeGroupSync) {
            self.file.sync()?;
        }
        (self.len, self.synced) = (at, at);
        // So that after a crash of the process alone it is known what was synced. Without a sync of its own.
        self.note(&[])?;
        Ok(places)
    }

    /// Adds that blocks are gone, and how much is synced.
    fn note(&mut self, gone: &[(BlockId, u64)]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity((gone.len() + 1) * HEAD as usize);
        let at = |bytes: &Vec<u8>| self.len + bytes.len() as u64;
        for (block, _) in gone {
            let head = Head { block: *block, ..Head::bare(Kind::Gone, self.nonce, at(&bytes), self.synced) };
            bytes.extend_from_slice(&head.encode());
        }
        if gone.is_empty() {
            bytes.extend_from_slice(&Head::bare(Kind::Mark, self.nonce, at(&bytes), self.synced).encode());
        }
        self.file.write_at(self.len, &bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }
}
