//! What the uploader decides, without doing it: events come in, effects come out. Every file has its own line of
//! slices, committed strictly in the order they were opened, whatever chunk they belong to: so later writes win,
//! and a file's length never grows over bytes of the same writer that are not stored yet. What became durable while a
//! commit was under way is committed together, as one change. Puts are bounded over all files, and files take turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zest_data::block::{BlockId, block_count, block_len};
use zest_types::limits::SLICE_PARTS;
use zest_types::{Errno, Ino, Placed, SliceId, Time};
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
    /// Commit slices, all or none, then tell [`UploadQueue::commit_done`].
    Commit {
        /// The file.
        ino: Ino,
        /// What to commit, in order.
        parts: Vec<Placed>,
        /// Time of the last write in them.
        mtime: Time,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The slice.
    pub slice: SliceId,
    /// All its bytes.
    pub size: u32,
    /// What to commit.
    pub parts: Vec<Placed>,
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
    /// Whether it can be committed.
    fn is_ready(&self, block_size: u32) -> bool {
        let whole = |sealed: &Sealed| self.durable == block_count(sealed.size, block_size);
        self.failed.is_none()
            && self.seal.as_ref().is_some_and(|sealed| whole(sealed) || active(Bug::CommitBeforeUpload))
    }

    /// What was stored of it goes.
    fn delete<D>(&self, block_size: u32) -> Option<Effect<D>> {
        let (slice, size) = (self.slice, self.seal.as_ref()?.size);
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
    /// How many of the jobs in front are being committed.
    committing: usize,
    /// How many of them are to be committed one by one, since together they found no room.
    alone: usize,
    /// Up to which job each token waits.
    drains: Vec<(u64, Token)>,
}

impl<D> Default for Line<D> {
    fn default() -> Self {
        let (jobs, numbers, waiting) = (VecDeque::new(), BTreeMap::new(), VecDeque::new());
        Line { begun: 0, jobs, numbers, waiting, committing: 0, alone: 0, drains: Vec::new() }
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
        self.alone = self.alone.saturating_sub(1);
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
        line.open(sealed.slice);
        if let Some(job) = line.job(sealed.slice) {
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

    /// A commit was answered; `last` is the last slice in it.
    pub fn commit_done(&mut self, ino: Ino, last: SliceId, result: Result<(), Errno>) -> Vec<Effect<D>> {
        let mut effects = Vec::new();
        if let Some(line) = self.lines.get_mut(&ino)
            && let Some(at) = line.committing.checked_sub(1)
            && line.jobs.get(at).is_some_and(|job| job.slice == last)
        {
            let many = std::mem::take(&mut line.committing);
            if many > 1 && matches!(result, Err(Errno::ENOSPC | Errno::EDQUOT)) {
                // There may be room for some of them.
                line.alone = many;
            } else {
                end_commit(line, (ino, many), result, self.block_size, &mut effects);
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

/// The first jobs of a line leave, with the answer to their commit.
fn end_commit<D>(
    line: &mut Line<D>,
    (ino, many): (Ino, usize),
    result: Result<(), Errno>,
    block_size: u32,
    effects: &mut Vec<Effect<D>>,
) {
    for job in (0..many).map_while(|_| line.leave()) {
        let slice = job.slice;
        match result {
            Ok(()) => effects.push(Effect::Committed { ino, slice }),
            Err(error) => {
                if matches!(error, Errno::ENOENT | Errno::ENOSPC | Errno::EDQUOT) {
                    effects.extend(job.delete(block_size));
                }
                effects.push(Effect::Failed { ino, slice, error });
            }
        }
    }
}

/// Lets the head of a line go as far as it can.
fn advance<D>(line: &mut Line<D>, ino: Ino, block_size: u32, effects: &mut Vec<Effect<D>>) {
    while line.committing == 0
        && let Some(job) = line.jobs.front().filter(|job| job.seal.is_some())
    {
        let Some(error) = job.failed else {
            line.committing = ready(line, block_size);
            if line.committing > 0 {
                let sealed = || line.jobs.iter().take(line.committing).filter_map(|job| job.seal.as_ref());
                let parts = sealed().flat_map(|sealed| sealed.parts.iter().copied()).collect();
                let mtime = sealed().next_back().map_or(Time::default(), |sealed| sealed.mtime);
                effects.push(Effect::Commit { ino, parts, mtime });
            }
            return;
        };
        if job.under_way > 0 {
            return; // an upload still under way could come after its own removal
        }
        effects.extend(job.delete(block_size));
        effects.push(Effect::Failed { ino, slice: job.slice, error });
        line.leave();
    }
}

/// How many jobs in front go into one commit.
fn ready<D>(line: &Line<D>, block_size: u32) -> usize {
    let most = if line.alone > 0 { 1 } else { usize::MAX };
    let mut parts = 0;
    let fits = |(at, job): &(usize, &Job)| {
        parts += job.seal.as_ref().map_or(0, |sealed| sealed.parts.len());
        job.is_ready(block_size) && (*at == 0 || parts <= SLICE_PARTS)
    };
    line.jobs.iter().enumerate().take(most).take_while(fits).count()
}
