//! What the uploader decides, without doing it: events come in, effects come out. Every file has its own line of
//! slices, committed strictly in the order they were opened, whatever chunk they belong to: so later writes win,
//! and a file's length never grows over bytes of the same writer that are not stored yet. Puts are bounded over
//! all files, and files take turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zest_data::block::{BlockId, block_count, block_len};
use zest_types::{Errno, Ino, SliceId, SliceRecord, Time};
use zest_world::planted::{Bug, active};

/// Names someone who waits for a line to be empty.
pub type Token = u64;

/// What is to be done now. `D` is a block's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<D> {
    /// Store a block, then tell [`UploadQueue::put_done`].
    Put {
        /// The file.
        ino: Ino,
        /// The block.
        block: BlockId,
        /// Its bytes.
        data: D,
    },
    /// Commit a slice, then tell [`UploadQueue::commit_done`].
    Commit {
        /// The file.
        ino: Ino,
        /// The slice.
        slice: Sealed,
    },
    /// Tell that a slice is part of its file.
    Committed {
        /// The file.
        ino: Ino,
        /// The slice.
        slice: SliceId,
    },
    /// Tell that a slice is lost.
    Failed {
        /// The file.
        ino: Ino,
        /// The slice.
        slice: SliceId,
        /// Why.
        error: Errno,
    },
    /// Remove blocks of a slice that will never be part of a file, with their lengths.
    Delete {
        /// What may be there.
        blocks: Vec<(BlockId, u32)>,
    },
    /// Everything this token waited for is answered.
    Drained(Token),
}

/// A slice that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Number of its chunk.
    pub index: u32,
    /// What to commit.
    pub record: SliceRecord,
    /// Time of its last write.
    pub mtime: Time,
}

/// A slice in its file's line.
#[derive(Debug, Default)]
struct Job {
    slice: SliceId,
    seal: Option<Sealed>,
    /// Blocks whose upload was started at least once.
    started: BTreeSet<u32>,
    under_way: usize,
    durable: u32,
    failed: Option<Errno>,
}

impl Job {
    fn delete<D>(&self, sealed: &Sealed, block_size: u32) -> Option<Effect<D>> {
        let (slice, size) = (self.slice, sealed.record.size);
        let block = |index: &u32| (BlockId { slice, index: *index }, block_len(size, block_size, *index));
        let blocks: Vec<_> = self.started.iter().map(block).filter(|(_, len)| *len > 0).collect();
        (!blocks.is_empty()).then_some(Effect::Delete { blocks })
    }
}

#[derive(Debug)]
struct Line<D> {
    /// Jobs ever begun here; the newest one has this number.
    begun: u64,
    jobs: VecDeque<Job>,
    numbers: BTreeMap<SliceId, u64>,
    waiting: VecDeque<(BlockId, D)>,
    committing: bool,
    /// Up to which job each token waits.
    drains: Vec<(u64, Token)>,
}

impl<D> Default for Line<D> {
    fn default() -> Self {
        let (jobs, numbers, waiting) = (VecDeque::new(), BTreeMap::new(), VecDeque::new());
        Line { begun: 0, jobs, numbers, waiting, committing: false, drains: Vec::new() }
    }
}

impl<D> Line<D> {
    fn open(&mut self, slice: SliceId) {
        if !self.numbers.contains_key(&slice) {
            self.begun += 1;
            self.numbers.insert(slice, self.begun);
            self.jobs.push_back(Job { slice, ..Job::default() });
        }
    }

    fn job(&mut self, slice: SliceId) -> Option<&mut Job> {
        let number = *self.numbers.get(&slice)?;
        let first = self.begun - self.jobs.len() as u64 + 1;
        self.jobs.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// Takes the head out.
    fn leave(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.numbers.remove(&job.slice);
        Some(job)
    }

    /// How many jobs have left.
    fn done(&self) -> u64 {
        self.begun - self.jobs.len() as u64
    }
}

/// The lines of all files.
#[derive(Debug)]
pub struct UploadQueue<D> {
    block_size: u32,
    max_puts: usize,
    puts: usize,
    lines: BTreeMap<Ino, Line<D>>,
    /// Files with waiting blocks, in turn.
    turns: VecDeque<Ino>,
    /// How many files each token still waits for.
    tokens: BTreeMap<Token, usize>,
}

impl<D> UploadQueue<D> {
    /// No files yet. `block_size` is the volume's; at most `max_puts` uploads are under way at once.
    #[must_use]
    pub fn new(block_size: u32, max_puts: usize) -> UploadQueue<D> {
        let (lines, turns, tokens) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        UploadQueue { block_size, max_puts: max_puts.max(1), puts: 0, lines, turns, tokens }
    }

    /// Uploads under way.
    #[must_use]
    pub fn puts(&self) -> usize {
        self.puts
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.puts == 0
    }

    /// A slice begins: it takes its place in the file's line.
    pub fn open(&mut self, ino: Ino, slice: SliceId) {
        self.lines.entry(ino).or_default().open(slice);
    }

    /// A block that will not change again.
    pub fn block(&mut self, ino: Ino, block: BlockId, data: D) -> Vec<Effect<D>> {
        let line = self.lines.entry(ino).or_default();
        line.open(block.slice);
        if line.job(block.slice).is_some_and(|job| job.failed.is_none()) {
            line.waiting.push_back((block, data));
            if line.waiting.len() == 1 {
                self.turns.push_back(ino);
            }
        }
        self.settle(ino)
    }

    /// A slice is complete.
    pub fn seal(&mut self, ino: Ino, sealed: Sealed) -> Vec<Effect<D>> {
        let line = self.lines.entry(ino).or_default();
        line.open(sealed.record.id);
        if let Some(job) = line.job(sealed.record.id) {
            job.seal = Some(sealed);
        }
        self.settle(ino)
    }

    /// An upload has ended, tries and all.
    pub fn put_done(&mut self, ino: Ino, block: BlockId, result: Result<(), Errno>) -> Vec<Effect<D>> {
        self.puts = self.puts.saturating_sub(1);
        let result = if active(Bug::SwallowedUploadError) { Ok(()) } else { result };
        let Some(line) = self.lines.get_mut(&ino) else { return self.settle(ino) };
        if let Some(job) = line.job(block.slice) {
            job.under_way = job.under_way.saturating_sub(1);
            match result {
                Ok(()) => job.durable += 1,
                Err(error) => {
                    job.failed.get_or_insert(error);
                    let had = !line.waiting.is_empty();
                    line.waiting.retain(|(waiting, _)| waiting.slice != block.slice);
                    if had && line.waiting.is_empty() {
                        self.turns.retain(|file| *file != ino);
                    }
                }
            }
        }
        self.settle(ino)
    }

    /// A commit was answered.
    pub fn commit_done(&mut self, ino: Ino, slice: SliceId, result: Result<(), Errno>) -> Vec<Effect<D>> {
        let mut effects = Vec::new();
        let block_size = self.block_size;
        if let Some(line) = self.lines.get_mut(&ino)
            && line.committing
            && line.jobs.front().is_some_and(|job| job.slice == slice)
        {
            line.committing = false;
            let job = line.leave();
            match result {
                Ok(()) => effects.push(Effect::Committed { ino, slice }),
                Err(error) => {
                    let certain = matches!(error, Errno::ENOENT | Errno::ENOSPC | Errno::EDQUOT);
                    let sealed = job.as_ref().and_then(|job| job.seal).filter(|_| certain);
                    effects.extend(job.zip(sealed).and_then(|(job, seal)| job.delete(&seal, block_size)));
                    effects.push(Effect::Failed { ino, slice, error });
                }
            }
        }
        effects.extend(self.settle(ino));
        effects
    }

    /// `token` waits for every slice that stands in this file's line now.
    pub fn drain(&mut self, ino: Ino, token: Token) -> Vec<Effect<D>> {
        self.drain_files(&[ino], token)
    }

    /// `token` waits for every slice there is now.
    pub fn drain_all(&mut self, token: Token) -> Vec<Effect<D>> {
        let files: Vec<Ino> = self.lines.keys().copied().collect();
        self.drain_files(&files, token)
    }

    fn drain_files(&mut self, files: &[Ino], token: Token) -> Vec<Effect<D>> {
        let mut waits = 0;
        for ino in files {
            if let Some(line) = self.lines.get_mut(ino).filter(|line| !line.jobs.is_empty()) {
                line.drains.push((line.begun, token));
                waits += 1;
            }
        }
        if waits == 0 {
            return vec![Effect::Drained(token)];
        }
        self.tokens.insert(token, waits);
        Vec::new()
    }

    /// Everything that follows from the state of a file's line, and from free upload slots.
    fn settle(&mut self, ino: Ino) -> Vec<Effect<D>> {
        let mut effects = Vec::new();
        if let Some(line) = self.lines.get_mut(&ino) {
            advance(line, ino, self.block_size, &mut effects);
            let done = line.done();
            let (over, later): (Vec<_>, Vec<_>) = line.drains.drain(..).partition(|(upto, _)| *upto <= done);
            line.drains = later;
            let empty = line.jobs.is_empty() && line.waiting.is_empty();
            if empty {
                self.lines.remove(&ino);
            }
            effects.extend(over.into_iter().filter_map(|(_, token)| self.one_less(token)));
        }
        self.start_puts(&mut effects);
        effects
    }

    fn one_less(&mut self, token: Token) -> Option<Effect<D>> {
        let left = self.tokens.get_mut(&token)?;
        *left = left.saturating_sub(1);
        if *left > 0 {
            return None;
        }
        self.tokens.remove(&token);
        Some(Effect::Drained(token))
    }

    fn start_puts(&mut self, effects: &mut Vec<Effect<D>>) {
        while self.puts < self.max_puts
            && let Some(ino) = self.turns.pop_front()
        {
            let Some(line) = self.lines.get_mut(&ino) else { continue };
            let Some((block, data)) = line.waiting.pop_front() else { continue };
            if !line.waiting.is_empty() {
                self.turns.push_back(ino);
            }
            if let Some(job) = line.job(block.slice) {
                job.under_way += 1;
                job.started.insert(block.index);
            }
            self.puts += 1;
            effects.push(Effect::Put { ino, block, data });
        }
    }
}

/// Lets the head of a line go as far as it can.
fn advance<D>(line: &mut Line<D>, ino: Ino, block_size: u32, effects: &mut Vec<Effect<D>>) {
    while !line.committing
        && let Some(job) = line.jobs.front()
        && let Some(sealed) = job.seal
    {
        if let Some(error) = job.failed {
            if job.under_way > 0 {
                return; // an upload still under way could come after its own removal
            }
            effects.extend(job.delete(&sealed, block_size));
            effects.push(Effect::Failed { ino, slice: job.slice, error });
            line.leave();
            continue;
        }
        let durable = job.durable == block_count(sealed.record.size, block_size);
        if durable || active(Bug::CommitBeforeUpload) {
            line.committing = true;
            effects.push(Effect::Commit { ino, slice: sealed });
        }
        return;
    }
}
