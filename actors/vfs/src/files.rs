//! Open files: which nodes somebody has open here or has unflushed writes, one entry for each. Removal and
//! opening meet in this table: whoever comes second sees the first. Knows no requests.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zest_data::{Budget, FileWriter};
use zest_metadata::OpenFiles;
use zest_types::{Errno, Ino, SliceId, Time, limits};
use zest_world::Unflushed;

const SHARDS: usize = 64;
/// Closed files with a lost write that are remembered, in each part of the table.
const LOST_KEPT: usize = 1024;

/// A file that is open here, or has unflushed writes.
pub struct OpenFile {
    /// Which node.
    pub ino: Ino,
    /// Unflushed writes.
    writer: Mutex<FileWriter>,
    /// Whether the writer may have anything, so that readers of clean files take no lock.
    dirty: AtomicBool,
    /// Hears of it.
    witness: Option<Arc<dyn Unflushed>>,
    /// Writes hold it shared; what changes the file as a whole holds it alone.
    pub gate: tokio::sync::RwLock<()>,
}

impl OpenFile {
    /// The writer, for as long as the guard lives.
    pub fn writer(&self) -> MutexGuard<'_, FileWriter> {
        self.writer.lock()
    }

    /// The writer, if it may have unflushed writes.
    pub fn dirty_writer(&self) -> Option<MutexGuard<'_, FileWriter>> {
        self.dirty.load(Ordering::Acquire).then(|| self.writer.lock())
    }

    /// To be called with the writer locked, after it changed.
    pub fn note_dirty(&self, writer: &FileWriter) {
        let dirty = !writer.is_clean();
        if self.dirty.swap(dirty, Ordering::AcqRel) != dirty
            && let Some(witness) = &self.witness
        {
            witness.note(self.ino, dirty);
        }
    }
}

struct Entry {
    file: Arc<OpenFile>,
    opens: u32,
}

#[derive(Default)]
struct Shard {
    files: BTreeMap<Ino, Entry>,
    /// Removals being decided.
    removing: BTreeMap<Ino, u32>,
    /// Files that were closed before anybody was told that a write was lost.
    lost: BTreeSet<Ino>,
    /// Files of which only the kernel's forgetting them tells that nobody has them open.
    doubtful: BTreeSet<Ino>,
}

/// All open files of a mount.
pub struct Files {
    shards: Vec<Mutex<Shard>>,
    block_size: u32,
    budget: Budget,
    witness: Option<Arc<dyn Unflushed>>,
    /// Nodes with smaller numbers may be open through handles that an earlier process of the mount gave.
    inherited: AtomicU64,
}

impl Files {
    /// No open files. Writers take memory from `budget`.
    #[must_use]
    pub fn new(block_size: u32, budget: Budget) -> Files {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Files { shards, block_size, budget, witness: None, inherited: AtomicU64::new(0) }
    }

    /// Somebody shall hear which files have unflushed writes.
    #[must_use]
    pub fn witnessed(self, witness: Option<Arc<dyn Unflushed>>) -> Files {
        Files { witness, ..self }
    }

    /// Nodes with smaller numbers than this may be open through handles nobody here knows.
    pub fn inherit(&self, below: Ino) {
        self.inherited.store(below.0, Ordering::Release);
    }

    /// Whether handles nobody here knows may be open on the node.
    #[must_use]
    pub fn is_inherited(&self, ino: Ino) -> bool {
        ino.0 < self.inherited.load(Ordering::Acquire)
    }

    /// Whether any handle may be open on the node.
    #[must_use]
    pub fn may_be_open(&self, ino: Ino) -> bool {
        self.is_inherited(ino) || self.is_open(ino)
    }

    /// Notes that it must be looked at when the kernel forgets the node: `false` where what is known here suffices.
    pub fn doubt(&self, ino: Ino) -> bool {
        self.is_inherited(ino) && Self::doubt_in(&mut self.shard(ino), ino)
    }

    /// The kernel forgot the node: whether it must be looked at.
    pub fn forgotten(&self, ino: Ino) -> bool {
        self.shard(ino).doubtful.remove(&ino)
    }

    /// Of those that do not fit what is to be done waits for the end of the session.
    fn doubt_in(shard: &mut Shard, ino: Ino) -> bool {
        if shard.doubtful.len() < limits::DOUBTFUL {
            shard.doubtful.insert(ino);
        }
        true
    }

    /// Writes to the file were lost, and nobody was told yet.
    pub fn lose(&self, ino: Ino) {
        self.shard(ino).lost.insert(ino);
    }

    /// Opens a node for a handle that has been there all the time, whatever else is being decided about it.
    pub fn reopen(&self, ino: Ino) -> Arc<OpenFile> {
        self.open_in(&mut self.shard(ino), ino)
    }

    /// Opens a node once more; `None` while its removal is being decided.
    pub fn open(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        let mut shard = self.shard(ino);
        if shard.removing.contains_key(&ino) {
            return None;
        }
        Some(self.open_in(&mut shard, ino))
    }

    fn open_in(&self, shard: &mut Shard, ino: Ino) -> Arc<OpenFile> {
        let lost = shard.lost.remove(&ino);
        let entry = shard.files.entry(ino).or_insert_with(|| Entry {
            file: Arc::new(OpenFile {
                ino,
                writer: Mutex::new(FileWriter::new(self.block_size, self.budget.clone())),
                dirty: AtomicBool::new(lost),
                witness: self.witness.clone(),
                gate: tokio::sync::RwLock::new(()),
            }),
            opens: 0,
        });
        if lost {
            entry.file.writer.lock().failed(SliceId::ZEROS, Errno::EIO);
        }
        entry.opens += 1;
        Arc::clone(&entry.file)
    }

    /// Takes back one [`Files::open`]; tells whether it was the last.
    pub fn close(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        let Some(entry) = shard.files.get_mut(&ino) else { return false };
        entry.opens = entry.opens.saturating_sub(1);
        let last = entry.opens == 0;
        Self::tidy_in(&mut shard, ino);
        last
    }

    /// The entry of a node, if there is one.
    pub fn get(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        self.shard(ino).files.get(&ino).map(|entry| Arc::clone(&entry.file))
    }

    /// Whether a handle is open on the node.
    pub fn is_open(&self, ino: Ino) -> bool {
        self.shard(ino).files.get(&ino).is_some_and(|entry| entry.opens > 0)
    }

    /// Lets go of an entry that nobody has open and that has no unflushed writes.
    pub fn tidy(&self, ino: Ino) {
        Self::tidy_in(&mut self.shard(ino), ino);
    }

    /// Files that may have unflushed writes, in order of their numbers within each part of the table.
    pub fn dirty(&self) -> Vec<Arc<OpenFile>> {
        let mut dirty = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let files = shard.files.values().map(|entry| &entry.file);
            dirty.extend(files.filter(|f| f.dirty.load(Ordering::Acquire)).cloned());
        }
        dirty
    }

    /// Whether any file may have unflushed writes.
    pub fn any_dirty(&self) -> bool {
        let dirty = |entry: &Entry| entry.file.dirty.load(Ordering::Acquire);
        self.shards.iter().any(|shard| shard.lock().files.values().any(dirty))
    }

    /// Whether writes were lost and nobody was told yet. Of files that are closed, somebody is told now; those that
    /// are open tell it again to whoever syncs or closes them.
    pub fn tell_lost(&self) -> bool {
        let closed =
            self.shards.iter().map(|shard| std::mem::take(&mut shard.lock().lost).len()).sum::<usize>();
        closed > 0 || self.dirty().iter().any(|file| file.writer().error().is_some())
    }

    fn tidy_in(shard: &mut Shard, ino: Ino) {
        let Some(entry) = shard.files.get(&ino).filter(|entry| entry.opens == 0) else { return };
        let (pending, error) = {
            let writer = entry.file.writer.lock();
            (writer.pending_slices(), writer.error())
        };
        if pending > 0 {
            return;
        }
        shard.files.remove(&ino);
        // An error nobody asked for before the last close is told to whoever opens and syncs the file next, or
        // syncs the whole volume.
        if error.is_some() && shard.lost.len() < LOST_KEPT {
            shard.lost.insert(ino);
        }
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        self.shards[(ino.0 % SHARDS as u64) as usize].lock()
    }
}

impl OpenFiles for Files {
    fn begin_removal(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        *shard.removing.entry(ino).or_insert(0) += 1;
        if self.is_inherited(ino) {
            return Self::doubt_in(&mut shard, ino);
        }
        shard.files.get(&ino).is_some_and(|entry| entry.opens > 0)
    }

    fn end_removal(&self, ino: Ino) {
        let mut shard = self.shard(ino);
        if let Some(count) = shard.removing.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                shard.removing.remove(&ino);
            }
        }
    }
    fn mtime_of(&self, ino: Ino, slice: SliceId) -> Option<Time> {
        self.get(ino).and_then(|file| file.writer().mtime_of(slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_and_an_open_see_each_other() {
        let files = Files::new(65536, Budget::new(1 << 20));
        assert!(!files.begin_removal(Ino(7)));
        assert!(files.open(Ino(7)).is_none());
        files.end_removal(Ino(7));
        let file = files.open(Ino(7)).unwrap();
        assert!(files.begin_removal(Ino(7)) && files.is_open(Ino(7)));
        assert_eq!(file.ino, Ino(7));
        assert!(files.close(Ino(7)));
        assert!(files.get(Ino(7)).is_none());
    }

    #[test]
    fn a_node_of_an_earlier_process_counts_as_open_until_the_kernel_forgets_it() {
        let files = Files::new(65536, Budget::new(1 << 20));
        files.inherit(Ino(100));
        assert!(files.begin_removal(Ino(7)) && !files.begin_removal(Ino(100)));
        let file = files.reopen(Ino(7));
        assert!(file.ino == Ino(7) && files.may_be_open(Ino(8)) && !files.may_be_open(Ino(101)));
        assert!(files.close(Ino(7)) && files.doubt(Ino(7)) && !files.doubt(Ino(101)));
        assert!(files.forgotten(Ino(7)) && !files.forgotten(Ino(7)) && !files.forgotten(Ino(8)));
    }

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<(u64, bool)>>);

    impl Unflushed for Seen {
        fn note(&self, ino: Ino, unflushed: bool) {
            self.0.lock().push((ino.0, unflushed));
        }
    }

    #[test]
    fn a_lost_write_of_an_earlier_process_is_told_once_and_witnessed_until_then() {
        let seen = Arc::<Seen>::default();
        let files = Files::new(65536, Budget::new(1 << 20)).witnessed(Some(Arc::clone(&seen) as _));
        files.lose(Ino(7));
        let file = files.reopen(Ino(7));
        let mut writer = file.dirty_writer().unwrap();
        assert_eq!(writer.take_error(), Some(Errno::EIO));
        file.note_dirty(&writer);
        file.note_dirty(&writer);
        assert_eq!(*seen.0.lock(), [(7, false)]);
    }
}
