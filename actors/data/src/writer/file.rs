//! The unflushed writes of one file; only the newest slice grows, by what goes on where it ended and by small writes
//! elsewhere. Keeps the order that makes later writes win: in
//! what reads see, in the order slices are announced, and so in the order they are committed.

use super::pending::{self, PendingPiece};
use super::slice::{PendingSlice, new_growth};
use super::{Handover, SealReason, WriteError};
use crate::budget::{Budget, Charge};
use std::collections::VecDeque;
use std::time::Duration;
use zest_types::limits::{CHUNK_SIZE, FILE_MAX, PENDING_PARTS, PENDING_SLICES, SLICE_AGE_MS, SLICE_IDLE_MS};
use zest_types::slice::{ChunkRange, chunk_ranges};
use zest_types::{Errno, SliceId, Time};

/// Bytes charged for a slice besides its payload: this struct, the uploader's and the queue's entries.
const SLICE_OVERHEAD: u64 = 512;
/// The same for a place where it shows, and the record of it.
const PART_OVERHEAD: u64 = 128;

/// Unflushed writes of one file, and what became of them.
///
/// A read first takes [`FileWriter::pending_pieces`] and only then looks at the committed slices: a slice that is
/// committed in between is then seen twice, never not at all.
#[derive(Debug)]
pub struct FileWriter {
    block_size: u32,
    budget: Budget,
    /// In the order they began.
    slices: VecDeque<PendingSlice>,
    /// A number that was fetched but not needed.
    spare: Option<SliceId>,
    error: Option<Errno>,
}

impl FileWriter {
    /// Nothing written yet. `block_size` is the volume's, bytes.
    #[must_use]
    pub fn new(block_size: u32, budget: Budget) -> FileWriter {
        let slices = VecDeque::new();
        FileWriter { block_size: block_size.max(1), budget, slices, spare: None, error: None }
    }

    /// Takes a write of at most a chunk's size, all or nothing. `now` becomes the file's mtime when it is
    /// committed, `mono` is the monotonic clock, `ids` gives slice numbers nobody else has.
    pub fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        now: Time,
        mono: Duration,
        ids: &mut dyn FnMut() -> Option<SliceId>,
    ) -> Result<Vec<Handover>, WriteError> {
        let len = data.len() as u64;
        if len > CHUNK_SIZE || offset.checked_add(len).is_none_or(|end| end >= FILE_MAX) {
            return Err(WriteError::TooLarge);
        }
        let plan = self.plan(offset, len);
        let fresh = plan.iter().filter(|step| step.into.is_none()).count();
        if self.slices.len() + fresh > PENDING_SLICES || self.parts() + plan.len() > PENDING_PARTS {
            return Err(WriteError::Full);
        }
        let bytes = plan.iter().map(|step| step.bytes).sum();
        let mut charge = self.budget.try_take(bytes).ok_or(WriteError::Full)?;
        let mut new_ids = self.take_ids(fresh, ids)?;
        let mut out = Vec::new();
        let mut rest = data;
        for step in plan {
            let (part, later) = rest.split_at(step.range.len as usize);
            rest = later;
            let own = charge.split(step.bytes);
            let (into, at) = match step.into {
                Some((into, at)) => {
                    self.slices[into].charge.absorb(own);
                    (into, at)
                }
                None => (self.open(new_ids.pop().ok_or(WriteError::NoSliceId)?, mono, own, &mut out), 0),
            };
            let slice = &mut self.slices[into];
            let full = slice.write(at, step.range, part, self.block_size);
            hand_blocks(slice, full, &mut out);
            (slice.mtime, slice.touched) = (now, mono);
            if slice.is_complete(self.block_size) {
                self.seal_at(into, SealReason::Complete, &mut out);
            }
        }
        Ok(out)
    }

    /// Unflushed bytes in `[offset, offset + len)`, sorted, without overlaps. They hide what is stored there.
    #[must_use]
    pub fn pending_pieces(&self, offset: u64, len: u64) -> Vec<PendingPiece> {
        pending::pieces(self.slices.iter(), offset, len)
    }

    /// Seals every open slice.
    pub fn seal_all(&mut self, reason: SealReason) -> Vec<Handover> {
        self.seal_where(reason, |_| true)
    }

    /// Seals slices nobody wrote to for a while, and old ones.
    pub fn seal_due(&mut self, mono: Duration) -> Vec<Handover> {
        let (idle, age) = (Duration::from_millis(SLICE_IDLE_MS), Duration::from_millis(SLICE_AGE_MS));
        self.seal_where(SealReason::Due, |slice| {
            mono.saturating_sub(slice.touched) >= idle || mono.saturating_sub(slice.born) >= age
        })
    }

    /// A slice is part of the file now, and the caller's view of the chunk shows it.
    pub fn committed(&mut self, slice: SliceId) {
        self.slices.retain(|pending| pending.id != slice);
    }

    /// A slice could not be stored: its bytes are gone. The error waits for [`FileWriter::take_error`].
    pub fn failed(&mut self, slice: SliceId, error: Errno) {
        self.slices.retain(|pending| pending.id != slice);
        self.error.get_or_insert(error);
    }

    /// The error that waits to be told.
    #[must_use]
    pub fn error(&self) -> Option<Errno> {
        self.error
    }

    /// The first error since this was last asked.
    pub fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    /// One past the last unflushed byte; the file is at least this long. `None` when all is committed.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.slices.iter().map(|slice| slice.file_end).max()
    }

    /// Time of the last write that is not committed.
    #[must_use]
    pub fn mtime(&self) -> Option<Time> {
        self.slices.back().map(|slice| slice.mtime)
    }

    /// A time was set by hand: it is the time of everything written so far.
    pub fn set_mtime(&mut self, mtime: Time) {
        self.slices.iter_mut().for_each(|slice| slice.mtime = mtime);
    }

    /// Time of the last write in a slice that is not committed.
    #[must_use]
    pub fn mtime_of(&self, slice: SliceId) -> Option<Time> {
        self.slices.iter().find(|pending| pending.id == slice).map(|pending| pending.mtime)
    }

    /// Whether everything is committed and no error waits.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.slices.is_empty() && self.error.is_none()
    }

    /// Slices not committed yet.
    #[must_use]
    pub fn pending_slices(&self) -> usize {
        self.slices.len()
    }

    /// Slices still open for writes: what [`FileWriter::seal_due`] has to look at.
    #[must_use]
    pub fn open_slices(&self) -> usize {
        self.slices.iter().filter(|slice| !slice.sealed).count()
    }

    /// Bytes of memory charged for this file.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.slices.iter().map(|slice| slice.charge.bytes()).sum()
    }
}

/// Where a part of a write goes.
struct Step {
    range: ChunkRange,
    /// Index of an open slice, and the place in it; `None` for a new one.
    into: Option<(usize, u32)>,
    /// Memory it adds.
    bytes: u64,
}

impl FileWriter {
    fn plan(&self, offset: u64, len: u64) -> Vec<Step> {
        let step = |(n, range): (usize, ChunkRange)| {
            // Only the beginning of a write can go into the slice of the one before.
            let into = if n == 0 { self.slice_for(range) } else { None };
            let bytes = match into {
                Some((into, at)) => self.slices[into].growth(at, range.len, self.block_size) + PART_OVERHEAD,
                None => new_growth(range.len, self.block_size) + SLICE_OVERHEAD,
            };
            Step { range, into, bytes }
        };
        chunk_ranges(offset, len).enumerate().map(step).collect()
    }

    /// The newest slice, if a write can go to it, and where in it. An older one may not grow: slices are committed in
    /// their order, and what a crash leaves of a file shall be a state it went through.
    fn slice_for(&self, range: ChunkRange) -> Option<(usize, u32)> {
        let newest = self.slices.back()?;
        let behind = || newest.shares(range, self.block_size).then_some(newest.len);
        let at = newest.takes(range, self.block_size).or_else(behind)?;
        Some((self.slices.len() - 1, at))
    }

    /// Places that are not committed.
    fn parts(&self) -> usize {
        self.slices.iter().map(|slice| slice.parts.len()).sum()
    }

    /// Numbers for new slices, all or none; what one write leaves over serves the next.
    fn take_ids(
        &mut self,
        count: usize,
        ids: &mut dyn FnMut() -> Option<SliceId>,
    ) -> Result<Vec<SliceId>, WriteError> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            match self.spare.take().or_else(&mut *ids) {
                Some(id) => taken.push(id),
                None => {
                    self.spare = taken.pop();
                    return Err(WriteError::NoSliceId);
                }
            }
        }
        taken.reverse();
        Ok(taken)
    }

    fn open(&mut self, id: SliceId, mono: Duration, charge: Charge, out: &mut Vec<Handover>) -> usize {
        out.extend(self.seal_all(SealReason::Superseded));
        out.push(Handover::Open { slice: id });
        self.slices.push_back(PendingSlice::new(id, mono, charge));
        self.slices.len() - 1
    }

    fn seal_where(&mut self, reason: SealReason, wanted: impl Fn(&PendingSlice) -> bool) -> Vec<Handover> {
        let mut out = Vec::new();
        for at in 0..self.slices.len() {
            if !self.slices[at].sealed && wanted(&self.slices[at]) {
                self.seal_at(at, reason, &mut out);
            }
        }
        out
    }

    fn seal_at(&mut self, at: usize, reason: SealReason, out: &mut Vec<Handover>) {
        let slice = &mut self.slices[at];
        let full = slice.blocks.len();
        slice.seal(self.block_size);
        hand_blocks(slice, full..slice.blocks.len(), out);
        let (slice, size, parts, mtime) = (slice.id, slice.len, slice.records(), slice.mtime);
        out.push(Handover::Seal { slice, size, parts, mtime, reason });
    }
}

fn hand_blocks(slice: &PendingSlice, which: std::ops::Range<usize>, out: &mut Vec<Handover>) {
    for at in which {
        if let (Some(data), Ok(index)) = (slice.blocks.get(at), u32::try_from(at)) {
            out.push(Handover::Block { slice: slice.id, index, data: data.clone() });
        }
    }
}
