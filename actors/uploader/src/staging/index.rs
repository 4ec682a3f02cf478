//! Which blocks wait, where each is, and how many of which file. Pure state; one lock around it.

use super::journal::Place;
use super::order::{Number, Order};
use super::{Patience, StagingStats};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zest_data::BlockId;
use zest_types::{Ino, Time};

/// Blocks, and bytes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks.
    pub blocks: u64,
    /// Plain bytes of them.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, len: u32) {
        (self.blocks, self.bytes) = (self.blocks + 1, self.bytes + u64::from(len));
    }

    fn take(&mut self, len: u32) {
        self.blocks = self.blocks.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(u64::from(len));
    }
}

/// Where a staged block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// In the journal.
    Journal(Place),
    /// A file another client left.
    Other {
        /// Number of the directory.
        folder: usize,
        /// Folders in it, and the file's name.
        path: Vec<String>,
    },
}

/// A staged block.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub number: Number,
    pub ino: Ino,
    pub at: i64,
    pub plain: u32,
    pub spot: Spot,
    /// Its upload is under way.
    pub going: bool,
    /// It must not be in the store in the end.
    pub doomed: bool,
    /// Its bytes are not what they were.
    pub damaged: bool,
}

#[derive(Default)]
struct FileSum {
    tally: Tally,
    numbers: BTreeSet<Number>,
}

/// What became of a wish that a block be forgotten.
#[derive(Debug)]
pub(super) enum Doom {
    /// It does not wait here.
    NotHere,
    /// It waits no more.
    Taken(Entry),
    /// Its upload has to end first.
    Going,
}

/// All staged blocks.
#[derive(Default)]
pub(super) struct Index {
    entries: BTreeMap<BlockId, Entry>,
    order: Order,
    files: BTreeMap<Ino, FileSum>,
    /// Of all that waits or goes.
    numbers: BTreeSet<Number>,
    waiting: Tally,
    damaged: Tally,
    last: Number,
    uploaded: u64,
    pub direct: u64,
}

impl Index {
    /// A block is staged. One that is there already stays as it is.
    pub fn add(&mut self, block: BlockId, ino: Ino, at: i64, plain: u32, spot: Spot) {
        if self.entries.contains_key(&block) {
            return;
        }
        self.last += 1;
        let number = self.last;
        let entry = Entry { number, ino, at, plain, spot, going: false, doomed: false, damaged: false };
        self.entries.insert(block, entry);
        self.order.add(ino, number, block);
        self.numbers.insert(number);
        self.waiting.add(plain);
        let file = self.files.entry(ino).or_default();
        file.tally.add(plain);
        file.numbers.insert(number);
    }

    /// A block, if it is staged and not damaged.
    pub fn get(&self, block: &BlockId) -> Option<Entry> {
        self.entries.get(block).filter(|entry| !entry.damaged).cloned()
    }

    /// The next block to go up, which goes from now on. Those of `urgent` files go first, and whatever the time.
    pub fn start(&mut self, when: &When<'_>) -> Option<(BlockId, Entry)> {
        self.order.wake(when.mono);
        let urgent = when.urgent.iter().find_map(|ino| self.order.oldest_of(*ino));
        let (ino, number, block) = match urgent {
            Some(found) => found,
            None => {
                let found = self.order.oldest()?;
                let at = self.entries.get(&found.2)?.at;
                let may = when.all || when.patience.over(at, when.now, when.pressed);
                Some(found).filter(|_| may)?
            }
        };
        self.order.remove(ino, number);
        let entry = self.entries.get_mut(&block)?;
        entry.going = true;
        Some((block, entry.clone()))
    }

    /// An upload failed: the block waits again, and its file rests.
    pub fn failed(&mut self, block: &BlockId, until: Duration) {
        if let Some(entry) = self.entries.get_mut(block) {
            entry.going = false;
            self.order.add(entry.ino, entry.number, *block);
            self.order.rest(entry.ino, until);
        }
    }

    /// A block is in the store, or not wanted any more.
    pub fn finished(&mut self, block: &BlockId, stored: bool) -> Option<Entry> {
        let entry = self.entries.remove(block)?;
        self.uploaded += u64::from(stored);
        if entry.damaged {
            self.damaged.take(entry.plain);
        } else {
            self.leave(&entry);
        }
        Some(entry)
    }

    /// A block can't be read: it is kept and goes nowhere.
    pub fn spoil(&mut self, block: &BlockId) -> Option<Entry> {
        let entry = self.entries.get_mut(block).filter(|entry| !entry.damaged)?;
        (entry.damaged, entry.going) = (true, false);
        let entry = entry.clone();
        self.damaged.add(entry.plain);
        self.leave(&entry);
        Some(entry)
    }

    fn leave(&mut self, entry: &Entry) {
        self.order.remove(entry.ino, entry.number);
        self.numbers.remove(&entry.number);
        self.waiting.take(entry.plain);
        if let Some(file) = self.files.get_mut(&entry.ino) {
            file.tally.take(entry.plain);
            file.numbers.remove(&entry.number);
            if file.numbers.is_empty() {
                self.files.remove(&entry.ino);
            }
        }
    }

    /// A block must not reach the store, or go from there again.
    pub fn doom(&mut self, block: &BlockId) -> Doom {
        match self.entries.get_mut(block) {
            None => Doom::NotHere,
            Some(entry) if entry.going => {
                entry.doomed = true;
                Doom::Going
            }
            Some(_) => self.finished(block, false).map_or(Doom::NotHere, Doom::Taken),
        }
    }

    /// The youngest block there is.
    pub fn last(&self) -> Number {
        self.last
    }

    /// Whether a block up to this one waits or goes; of one file where one is named.
    pub fn waits(&self, upto: Number, ino: Option<Ino>) -> bool {
        let numbers = match ino {
            None => Some(&self.numbers),
            Some(ino) => self.files.get(&ino).map(|file| &file.numbers),
        };
        numbers.and_then(|numbers| numbers.first()).is_some_and(|first| *first <= upto)
    }

    /// What waits of a file.
    pub fn of_file(&self, ino: Ino) -> Tally {
        self.files.get(&ino).map(|file| file.tally).unwrap_or_default()
    }

    /// Counts.
    pub fn stats(&self) -> StagingStats {
        let (waiting, damaged) = (self.waiting, self.damaged);
        StagingStats { waiting, damaged, uploaded: self.uploaded, direct: self.direct }
    }
}

/// What decides whether a block may go up now.
pub(super) struct When<'a> {
    pub now: Time,
    pub mono: Duration,
    pub patience: &'a Patience,
    /// Room is needed.
    pub pressed: bool,
    /// Somebody waits for everything.
    pub all: bool,
    /// Somebody waits for these files.
    pub urgent: &'a [Ino],
}
