//! One cache file: the stored parts of one slice, each with its checksum, and whether it was checked. Bytes are
//! given only when the checksums say that they are those that were stored; what is mapped is never looked at by this
//! process, only by the kernel, so that a file that is cut meanwhile can't end it.

use super::verify::Level;
use bytes::Bytes;
use parking_lot::RwLock;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use zest_types::SliceId;
use zest_types::limits::{CACHE_MAPPED, CACHE_PART};
use zest_world::{DiskFile, Stamp};

/// What a file takes on a disk is counted in these.
pub(super) const CLUSTER: u64 = 4096;

/// A part of a slice.
#[derive(Default)]
pub(super) struct Part {
    /// Bytes of it; 0 where it is not stored.
    len: u32,
    sum: u32,
    /// The state of the file in which it was found right; 0 for none.
    checked: AtomicU32,
}

/// An open cache file.
pub(super) struct Opened {
    pub(super) file: Arc<dyn DiskFile>,
    map: OnceLock<Bytes>,
}

/// A cache file.
pub(super) struct Entry {
    pub(super) slice: SliceId,
    parts: RwLock<Vec<Part>>,
    /// Bytes that are stored.
    pub(super) bytes: AtomicU64,
    /// When it was used last, milliseconds of the epoch.
    pub(super) used: AtomicU64,
    /// How often since eviction asked; stays at the largest.
    pub(super) hits: AtomicU8,
    /// Used since it was opened, or since somebody asked.
    pub(super) fresh: AtomicBool,
    opened: RwLock<Option<Arc<Opened>>>,
    /// The state of the file that was looked at last, and a number for it.
    stamp: RwLock<(Stamp, u32)>,
}

/// Why a file does not give bytes it should have.
#[derive(Debug)]
pub(super) enum Bad {
    /// They are not those that were stored.
    Damaged,
    /// It is not there, or shorter.
    Missing,
    /// The disk failed.
    Failed(io::Error),
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Bad {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => Bad::Missing,
            _ => Bad::Failed(error),
        }
    }
}

/// A run of bytes in the file of a slice, and of which block.
pub(super) struct Wanted {
    /// Where the block begins in the file.
    pub(super) base: u64,
    /// Bytes of the block.
    pub(super) block_len: u32,
    /// The run, in bytes of the block.
    pub(super) range: Range<u32>,
}

impl Wanted {
    /// Numbers of the parts in the slice that hold the run.
    fn parts(&self) -> Range<usize> {
        let first = (self.base / u64::from(CACHE_PART)) as usize;
        let (start, end) = (self.range.start / CACHE_PART, self.range.end.div_ceil(CACHE_PART));
        first + start as usize..first + end as usize
    }

    /// Where a part lies in the file.
    fn place(&self, part: usize) -> Range<u64> {
        let start = part as u64 * u64::from(CACHE_PART);
        start..(start + u64::from(CACHE_PART)).min(self.base + u64::from(self.block_len))
    }

    fn file_range(&self) -> Range<u64> {
        self.base + u64::from(self.range.start)..self.base + u64::from(self.range.end)
    }
}

impl Entry {
    /// A file with nothing in it.
    pub(super) fn new(slice: SliceId, used: u64) -> Entry {
        Entry {
            slice,
            parts: RwLock::default(),
            bytes: AtomicU64::new(0),
            used: AtomicU64::new(used),
            hits: AtomicU8::new(0),
            fresh: AtomicBool::new(false),
            opened: RwLock::default(),
            stamp: RwLock::new((Stamp::default(), 1)),
        }
    }

    /// Notes parts that are in the file now, `len` bytes together; answers bytes it is counted with more.
    pub(super) fn add(&self, first: u32, sums: &[u32], len: u32) -> u64 {
        let mut parts = self.parts.write();
        let end = first as usize + sums.len();
        let known = parts.len();
        if known < end {
            parts.reserve_exact(end - known);
            parts.resize_with(end, Part::default);
        }
        let (mut more, mut rest) = (0, len);
        for (part, sum) in parts.iter_mut().skip(first as usize).zip(sums) {
            let len = rest.min(CACHE_PART);
            rest -= len;
            if part.len == 0 {
                more += u64::from(len).next_multiple_of(CLUSTER);
            }
            *part = Part { len, sum: *sum, checked: AtomicU32::new(0) };
        }
        drop(parts);
        // A longer file wants a longer map.
        *self.opened.write() = None;
        self.bytes.fetch_add(more, Ordering::Relaxed);
        more
    }

    /// Whether all parts that hold these bytes are stored.
    pub(super) fn has(&self, wanted: &Wanted) -> bool {
        let parts = self.parts.read();
        parts
            .get(wanted.parts())
            .is_some_and(|parts| !parts.is_empty() && parts.iter().all(|part| part.len > 0))
    }

    /// Runs of stored parts, for the index: the first, the checksums, bytes together. Only the last part of a run may
    /// be a short one.
    pub(super) fn runs(&self) -> Vec<(u32, Vec<u32>, u32)> {
        let mut runs: Vec<(u32, Vec<u32>, u32)> = Vec::new();
        let mut open = false;
        for (part, number) in self.parts.read().iter().zip(0u32..) {
            match runs.last_mut().filter(|_| open) {
                Some((_, sums, len)) if part.len > 0 => {
                    sums.push(part.sum);
                    *len += part.len;
                }
                _ if part.len > 0 => runs.push((number, vec![part.sum], part.len)),
                _ => {}
            }
            open = part.len == CACHE_PART;
        }
        runs
    }

    /// The open file, if it is open.
    pub(super) fn opened(&self) -> Option<Arc<Opened>> {
        self.opened.read().clone()
    }

    /// Keeps an open file, for the next who asks.
    pub(super) fn open(&self, file: Arc<dyn DiskFile>) -> Arc<Opened> {
        let opened = Arc::new(Opened { file, map: OnceLock::new() });
        *self.opened.write() = Some(Arc::clone(&opened));
        opened
    }

    /// Closes the file; those who have bytes of it keep them.
    pub(super) fn close(&self) {
        *self.opened.write() = None;
    }

    /// The bytes. `alone` says that they go to the kernel as they are; then a long run is not copied.
    pub(super) fn bytes_of(
        &self,
        opened: &Opened,
        wanted: &Wanted,
        level: Level,
        alone: bool,
    ) -> Result<Bytes, Bad> {
        let state = self.look(opened, wanted)?;
        let copy = self.check(opened, wanted, level, state)?;
        let run = wanted.range.end - wanted.range.start;
        if alone && run >= CACHE_MAPPED {
            match mapped(opened, wanted) {
                // This machine can't tell whether they are there.
                Err(Bad::Failed(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                outcome => return outcome,
            }
        }
        if let Some((from, copy)) = copy {
            let start = (wanted.file_range().start - from) as usize;
            return Ok(copy.slice(start..start + run as usize));
        }
        let mut bytes = vec![0; run as usize];
        opened.file.read_at(wanted.file_range().start, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Looks whether somebody changed the file since; what was checked before counts no more then.
    fn look(&self, opened: &Opened, wanted: &Wanted) -> Result<u32, Bad> {
        let now = opened.file.stamp()?;
        if now.len < wanted.base + u64::from(wanted.range.end) {
            return Err(Bad::Missing);
        }
        let (known, state) = *self.stamp.read();
        if known == now {
            return Ok(state);
        }
        let mut stamp = self.stamp.write();
        if stamp.0 != now {
            *stamp = (now, stamp.1.wrapping_add(1).max(1));
        }
        Ok(stamp.1)
    }

    /// Checks the parts that hold the run, as far as the level asks for it. Answers what was read for that, and where
    /// it begins.
    fn check(
        &self,
        opened: &Opened,
        wanted: &Wanted,
        level: Level,
        state: u32,
    ) -> Result<Option<(u64, Bytes)>, Bad> {
        let range = wanted.parts();
        let asked = |n: usize| level.asks(&wanted.range, wanted.block_len, wanted.place(n), wanted.base);
        let due = |part: &Part, n| {
            asked(n) && (level == Level::Always || part.checked.load(Ordering::Acquire) != state)
        };
        let sums: Vec<u32> = {
            let parts = self.parts.read();
            let found = parts.get(range.clone()).filter(|parts| parts.iter().all(|part| part.len > 0));
            let found = found.ok_or(Bad::Missing)?;
            if !found.iter().zip(range.clone()).any(|(part, n)| due(part, n)) {
                return Ok(None);
            }
            found.iter().map(|part| part.sum).collect()
        };
        let (start, end) = (wanted.place(range.start).start, wanted.place(range.end - 1).end);
        let mut bytes = vec![0; end.saturating_sub(start) as usize];
        opened.file.read_at(start, &mut bytes)?;
        for ((sum, n), data) in sums.iter().zip(range.clone()).zip(bytes.chunks(CACHE_PART as usize)) {
            if asked(n) && crc32c::crc32c(data) != *sum {
                return Err(Bad::Damaged);
            }
        }
        let parts = self.parts.read();
        for (part, n) in parts.get(range.clone()).into_iter().flatten().zip(range) {
            if asked(n) {
                part.checked.store(state, Ordering::Release);
            }
        }
        Ok(Some((start, bytes.into())))
    }
}

/// The run as the kernel has it in memory.
fn mapped(opened: &Opened, wanted: &Wanted) -> Result<Bytes, Bad> {
    let range = wanted.file_range();
    let map = match opened.map.get() {
        Some(map) => map,
        None => {
            let map = opened.file.map(0..opened.file.len()?)?;
            opened.map.get_or_init(|| map)
        }
    };
    let (start, end) = (range.start as usize, range.end as usize);
    if end > map.len() {
        return Err(Bad::Missing);
    }
    let bytes = map.slice(start..end);
    opened.file.settle(&bytes)?;
    Ok(bytes)
}
