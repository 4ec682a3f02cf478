//! One cache directory: its files, its index, and what goes when room is short. Everything that changes the directory
//! is done by one job at a time, elsewhere than in the threads that read; those only look, and say what was wrong.

use super::entry::{Bad, CLUSTER, Entry, Opened, Wanted};
use super::index::Index;
use super::job::{Job, Queue};
use super::record::Record;
use super::sweep::Sweep;
use super::{Settings, place};
use crate::evict::{Eviction, Usage};
use crate::policy::MixState;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use zest_types::SliceId;
use zest_types::limits::{CACHE_AGED, CACHE_FAILURES, CACHE_FILES, CACHE_OPEN, CACHE_PART, CACHE_TEND_MS};
use zest_world::{Disk, DiskFile, Space, World};

/// Why a directory is given up that is there no more.
const GONE: &str = "it was removed";

/// Bytes each file is counted with besides its own.
const FILE_COST: u64 = CLUSTER;
/// Files that go in one go at most; more go with the next job.
const EVICTED_AT_ONCE: usize = 4096;

pub(super) type Entries = HashMap<u64, Arc<Entry>, MixState>;

/// What only the job that runs touches.
struct Hands {
    index: Index,
    eviction: Box<dyn Eviction>,
    /// When the room was looked at last.
    looked: Option<Duration>,
    short: u64,
    files_short: bool,
    sweep: Option<Sweep>,
}

/// A cache directory in use.
pub(super) struct Store {
    /// Its number among those of the mount, from 1, as the log calls it.
    pub(super) number: usize,
    world: World,
    disk: Arc<dyn Disk>,
    settings: Settings,
    capacity: u64,
    files_max: u64,
    entries: RwLock<Entries>,
    pub(super) bytes: AtomicU64,
    hands: Mutex<Hands>,
    pub(super) queue: Queue,
    /// Files that turned out to be bad.
    lost: Mutex<Vec<SliceId>>,
    open: Mutex<VecDeque<Weak<Entry>>>,
    failures: AtomicU32,
    retired: AtomicBool,
    pub(super) damaged: AtomicU64,
    /// Held for as long as the directory is in use.
    lock: Mutex<Option<Arc<dyn DiskFile>>>,
}

struct Book<'a>(&'a Entries);

impl Usage for Book<'_> {
    fn used(&self, key: u64) -> u64 {
        self.0.get(&key).map_or(0, |entry| entry.used.load(Ordering::Relaxed))
    }

    fn take_hits(&mut self, key: u64) -> u8 {
        self.0.get(&key).map_or(0, |entry| entry.hits.swap(0, Ordering::Relaxed))
    }
}

impl Store {
    /// Opens a directory that nobody else uses; blocks.
    pub(super) fn open(
        number: usize,
        world: &World,
        (disk, lock): (Arc<dyn Disk>, Arc<dyn DiskFile>),
        settings: &Settings,
        share: u64,
    ) -> io::Result<Store> {
        let (mut index, records) = Index::open(&disk, settings.block_size)?;
        let whole = records.last() == Some(&Record::Closed);
        let entries = entries(records);
        if whole {
            // From now on the index may be behind the files.
            index.append(&[Record::Gone { slice: 0 }])?;
        }
        let mut by_use: Vec<&Arc<Entry>> = entries.values().collect();
        by_use.sort_by_key(|entry| (entry.used.load(Ordering::Relaxed), entry.slice.0));
        let mut eviction = settings.eviction.begin();
        let mut bytes = 0;
        for entry in by_use {
            eviction.insert(entry.slice.0, entry.used.load(Ordering::Relaxed));
            bytes += entry.bytes.load(Ordering::Relaxed) + FILE_COST;
        }
        let sweep = (!whole).then(Sweep::new);
        let hands = Hands { index, eviction, looked: None, short: 0, files_short: false, sweep };
        Ok(Store {
            number,
            world: world.clone(),
            disk,
            settings: settings.clone(),
            capacity: share,
            files_max: settings.items.unwrap_or(CACHE_FILES).min(CACHE_FILES),
            entries: RwLock::new(entries),
            bytes: AtomicU64::new(bytes),
            hands: Mutex::new(hands),
            queue: Queue::new(settings.queue),
            lost: Mutex::default(),
            open: Mutex::default(),
            failures: AtomicU32::new(0),
            retired: AtomicBool::new(false),
            damaged: AtomicU64::new(0),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Whether it takes no part any more.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Files it has.
    pub(super) fn files(&self) -> u64 {
        self.entries.read().len() as u64
    }

    /// The file of a slice.
    pub(super) fn entry(&self, slice: SliceId) -> Option<Arc<Entry>> {
        self.entries.read().get(&slice.0).cloned()
    }

    /// Bytes of a file of this directory. `None` where they are not there, or not right: then the file goes.
    pub(super) fn read(&self, entry: &Arc<Entry>, wanted: &Wanted, alone: bool) -> Option<Bytes> {
        if !entry.has(wanted) {
            return None;
        }
        let read = self
            .opened(entry)
            .and_then(|opened| entry.bytes_of(&opened, wanted, self.settings.verify, alone));
        match read {
            Ok(bytes) => {
                let now = millis(&self.world);
                // Others use the same line: written only when something changes.
                if entry.used.load(Ordering::Relaxed) / 1000 != now / 1000 {
                    entry.used.store(now, Ordering::Relaxed);
                }
                if entry.hits.load(Ordering::Relaxed) == 0 {
                    entry.hits.store(1, Ordering::Relaxed);
                }
                if !entry.fresh.load(Ordering::Relaxed) {
                    entry.fresh.store(true, Ordering::Relaxed);
                }
                Some(bytes)
            }
            Err(bad) => {
                self.lose(entry, &bad);
                None
            }
        }
    }

    fn opened(&self, entry: &Arc<Entry>) -> Result<Arc<Opened>, Bad> {
        if let Some(opened) = entry.opened() {
            return Ok(opened);
        }
        let (folder, name) = place(entry.slice);
        let file = self.disk.folder(&folder)?.open(&name, false)?;
        let mut open = self.open.lock();
        // The one that was not used since its last turn is closed.
        let mut patience = open.len();
        while open.len() >= CACHE_OPEN {
            let Some(oldest) = open.pop_front() else { break };
            let Some(other) = oldest.upgrade() else { continue };
            if patience > 0 && other.fresh.swap(false, Ordering::Relaxed) {
                patience -= 1;
                open.push_back(oldest);
                continue;
            }
            other.close();
        }
        open.push_back(Arc::downgrade(entry));
        drop(open);
        Ok(entry.open(file))
    }

    /// A file is not what it should be: nobody is given anything of it any more.
    fn lose(&self, entry: &Arc<Entry>, bad: &Bad) {
        if let Bad::Failed(error) = bad {
            if is_shortage(error) {
                return;
            }
            self.failed("read", error);
        }
        let mut entries = self.entries.write();
        if !entries.get(&entry.slice.0).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            return;
        }
        entries.remove(&entry.slice.0);
        drop(entries);
        self.bytes.fetch_sub(entry.bytes.load(Ordering::Relaxed) + FILE_COST, Ordering::Relaxed);
        entry.close();
        self.lost.lock().push(entry.slice);
        if matches!(bad, Bad::Damaged) {
            let count = self.damaged.fetch_add(1, Ordering::Relaxed) + 1;
            self.world.tell("cache", "damaged", entry.slice.0, count);
            if count.is_power_of_two() {
                self.complain(&format!(
                    "the file of slice {} was damaged, and is fetched anew: {count} so far; check this disk",
                    entry.slice.0
                ));
            }
        }
    }

    fn complain(&self, what: &str) {
        self.world.trace.complain(&format!("cache directory {}: {what}", self.number));
    }

    /// The disk failed; too often in a row, and the directory is given up.
    fn failed(&self, what: &str, error: &io::Error) {
        let count = self.failures.fetch_add(1, Ordering::AcqRel) + 1;
        if count >= CACHE_FAILURES {
            let why = if self.is_there() { format!("{what}: {error}") } else { GONE.to_owned() };
            self.retire(&why);
        }
    }

    /// Whether nobody removed the directory.
    fn is_there(&self) -> bool {
        !matches!(self.disk.exists(super::LOCK), Ok(false))
    }

    fn retire(&self, why: &str) {
        if self.retired.swap(true, Ordering::AcqRel) {
            return;
        }
        self.complain(&format!(
            "given up until the next mount: {why}; files are read from the object store instead"
        ));
        self.entries.write().clear();
        self.bytes.store(0, Ordering::Relaxed);
        self.open.lock().clear();
        self.queue.close();
    }

    /// Whether there is work for a job.
    pub(super) fn has_work(&self) -> bool {
        !self.is_retired() && (!self.queue.is_empty() || !self.lost.lock().is_empty())
    }

    /// One job: removes what turned out bad, makes room, stores what waits. Blocks.
    pub(super) fn work(&self) {
        let mut hands = self.hands.lock();
        if self.is_retired() {
            return self.queue.close();
        }
        let mut records = self.remove_lost(&mut hands);
        self.look_for_room(&mut hands);
        for job in self.queue.take() {
            if self.is_retired() {
                job.done(false);
                continue;
            }
            let kept = self.store(&mut hands, &job, &mut records);
            job.done(kept);
        }
        if let Err(error) = hands.index.append(&records) {
            self.note_failure("index", &error);
        } else if hands.index.is_long() {
            self.write_anew(&mut hands, false);
        }
    }

    fn remove_lost(&self, hands: &mut Hands) -> Vec<Record> {
        let lost = std::mem::take(&mut *self.lost.lock());
        let mut records = Vec::new();
        for slice in lost {
            // It may have been begun anew since.
            if let Some(entry) = self.entries.write().remove(&slice.0) {
                self.bytes.fetch_sub(entry.bytes.load(Ordering::Relaxed) + FILE_COST, Ordering::Relaxed);
            }
            hands.eviction.remove(slice.0);
            self.unlink(slice);
            records.push(Record::Gone { slice: slice.0 });
        }
        records
    }

    fn unlink(&self, slice: SliceId) {
        let (folder, name) = place(slice);
        let removed = self.disk.folder(&folder).and_then(|folder| folder.remove(&name));
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.note_failure("remove", &error),
            _ => {}
        }
    }

    /// A failure of a write. One for want of room is no fault of the disk.
    fn note_failure(&self, what: &str, error: &io::Error) {
        if !is_shortage(error) {
            self.failed(what, error);
        }
    }

    /// Looks how much the file system has left, not too often.
    fn look_for_room(&self, hands: &mut Hands) {
        let now = self.world.clock.mono();
        let every = Duration::from_millis(CACHE_TEND_MS / 2);
        if hands.looked.is_some_and(|looked| now.saturating_sub(looked) < every) {
            return;
        }
        match self.disk.space() {
            Ok(space) => {
                hands.looked = Some(now);
                let keep = share(space.total, self.settings.free_permille);
                hands.short = keep.saturating_sub(space.free);
                hands.files_short = lacks_files(&space, self.settings.free_permille);
            }
            Err(error) => self.note_failure("space", &error),
        }
    }

    /// Lets files go until so many bytes more fit. False when they don't.
    fn make_room(&self, hands: &mut Hands, more: u64, records: &mut Vec<Record>) -> bool {
        if more > self.capacity {
            return false; // nobody else has to go for it
        }
        for _ in 0..EVICTED_AT_ONCE {
            let fits = self.bytes.load(Ordering::Relaxed) + more <= self.capacity
                && self.files() < self.files_max
                && hands.short == 0
                && !hands.files_short;
            if fits {
                return true;
            }
            let victim = {
                let entries = self.entries.read();
                let chance = &self.world.chance;
                let mut draw = |end: u64| chance.next_u64().checked_rem(end).unwrap_or(0);
                hands.eviction.victim(&mut Book(&entries), &mut draw)
            };
            let Some(key) = victim else { return false };
            self.let_go(hands, SliceId(key), records);
        }
        false
    }

    fn let_go(&self, hands: &mut Hands, slice: SliceId, records: &mut Vec<Record>) {
        let Some(entry) = self.entries.write().remove(&slice.0) else { return };
        hands.eviction.remove(slice.0);
        let bytes = entry.bytes.load(Ordering::Relaxed) + FILE_COST;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        hands.short = hands.short.saturating_sub(bytes);
        hands.files_short = false;
        entry.close();
        self.unlink(slice);
        records.push(Record::Gone { slice: slice.0 });
        self.world.tell("cache", "evicted", slice.0, bytes);
    }

    /// Writes a run of parts into its file.
    fn store(&self, hands: &mut Hands, job: &Job, records: &mut Vec<Record>) -> bool {
        let slice = job.slice;
        let known = self.entry(slice);
        if known.as_ref().is_some_and(|entry| entry.has(&job.wanted())) {
            return true;
        }
        let more = (job.data.len() as u64).next_multiple_of(CLUSTER) + FILE_COST;
        if !self.make_room(hands, more, records) {
            return false;
        }
        let (folder, name) = place(slice);
        let written = self.disk.folder(&folder).and_then(|folder| {
            let file = folder.open(&name, true)?;
            file.write_at(job.base + u64::from(job.offset), &job.data)
        });
        if let Err(error) = written {
            self.note_failure("write", &error);
            // Its room is looked at again; what was written of the file is no part of it.
            hands.looked = None;
            if self.entry(slice).is_none() {
                self.unlink(slice);
            }
            return false;
        }
        self.failures.store(0, Ordering::Release);
        let sums: Vec<u32> = job.data.chunks(CACHE_PART as usize).map(crc32c::crc32c).collect();
        let first =
            u32::try_from((job.base + u64::from(job.offset)) / u64::from(CACHE_PART)).unwrap_or(u32::MAX);
        let used = millis(&self.world);
        let entry = self.entry(slice).unwrap_or_else(|| {
            let entry = Arc::new(Entry::new(slice, used));
            hands.eviction.insert(slice.0, used);
            self.bytes.fetch_add(FILE_COST, Ordering::Relaxed);
            self.entries.write().insert(slice.0, Arc::clone(&entry));
            entry
        });
        let len = u32::try_from(job.data.len()).unwrap_or(u32::MAX);
        let known = self.entries.read();
        if !known.get(&slice.0).is_some_and(|known| Arc::ptr_eq(known, &entry)) {
            return false; // a reader found it bad meanwhile, and nothing of it is counted any more
        }
        self.bytes.fetch_add(entry.add(first, &sums, len), Ordering::Relaxed);
        drop(known);
        records.push(Record::Stored { slice: slice.0, first, sums, len, used });
        self.world.tell("cache", "stored", slice.0, u64::from(first));
        true
    }

    /// Looks after the directory: room, age, files nobody knows, and whether it is there at all. Blocks.
    pub(super) fn tend(&self) {
        let mut hands = self.hands.lock();
        if self.is_retired() {
            return;
        }
        if !self.is_there() {
            return self.retire(GONE);
        }
        let mut records = self.remove_lost(&mut hands);
        hands.looked = None;
        self.look_for_room(&mut hands);
        self.make_room(&mut hands, 0, &mut records);
        self.let_the_old_go(&mut hands, &mut records);
        if let Some(mut sweep) = hands.sweep.take() {
            match sweep.step(&*self.disk, &|slice| self.entries.read().contains_key(&slice)) {
                Ok(true) => {}
                Ok(false) => hands.sweep = Some(sweep),
                Err(error) => {
                    self.note_failure("list", &error);
                    hands.sweep = Some(sweep);
                }
            }
        }
        if let Err(error) = hands.index.append(&records) {
            self.note_failure("index", &error);
        }
    }

    fn let_the_old_go(&self, hands: &mut Hands, records: &mut Vec<Record>) {
        let Some(age) = self.settings.expire else { return };
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let Some(before) = millis(&self.world).checked_sub(age) else { return };
        let old: Vec<SliceId> = {
            let entries = self.entries.read();
            let start = self.world.chance.next_u64() as usize % entries.len().max(1);
            let some = entries.values().cycle().skip(start).take(CACHE_AGED.min(entries.len()));
            some.filter(|entry| entry.used.load(Ordering::Relaxed) < before)
                .map(|entry| entry.slice)
                .collect()
        };
        for slice in old {
            self.let_go(hands, slice, records);
        }
    }

    fn write_anew(&self, hands: &mut Hands, closed: bool) {
        let mut records = Vec::new();
        let mut entries: Vec<Arc<Entry>> = self.entries.read().values().cloned().collect();
        entries.sort_by_key(|entry| entry.slice.0);
        for entry in entries {
            let used = entry.used.load(Ordering::Relaxed);
            for (first, sums, len) in entry.runs() {
                records.push(Record::Stored { slice: entry.slice.0, first, sums, len, used });
            }
        }
        if closed {
            records.push(Record::Closed);
        }
        if let Err(error) = hands.index.write_anew(&records) {
            self.note_failure("index", &error);
        }
    }

    /// Forgets a slice, for good. Blocks.
    pub(super) fn forget(&self, slice: SliceId) -> bool {
        let mut hands = self.hands.lock();
        let mut records = Vec::new();
        self.let_go(&mut hands, slice, &mut records);
        if let Err(error) = hands.index.append(&records) {
            self.note_failure("index", &error);
        }
        !records.is_empty()
    }

    /// The end in good order: what waits is stored, and the index knows every file. Blocks.
    pub(super) fn close(&self) {
        while self.has_work() {
            self.work();
        }
        self.queue.close();
        let mut hands = self.hands.lock();
        if !self.is_retired() {
            let closed = hands.sweep.is_none();
            self.write_anew(&mut hands, closed);
        }
        // Whoever comes next may have it.
        self.retired.store(true, Ordering::Release);
        *self.lock.lock() = None;
    }
}

/// Files as the index tells of them.
fn entries(records: Vec<Record>) -> Entries {
    let mut entries = Entries::default();
    for record in records {
        match record {
            Record::Stored { slice, first, sums, len, used } => {
                let sound = u64::from(first) + sums.len() as u64 <= super::PARTS_MAX
                    && len.div_ceil(CACHE_PART) as usize == sums.len();
                if sound {
                    let entry =
                        entries.entry(slice).or_insert_with(|| Arc::new(Entry::new(SliceId(slice), used)));
                    entry.used.fetch_max(used, Ordering::Relaxed);
                    entry.add(first, &sums, len);
                }
            }
            Record::Gone { slice } => drop(entries.remove(&slice)),
            Record::Layout { .. } | Record::Closed => {}
        }
    }
    entries
}

fn millis(world: &World) -> u64 {
    let now = world.clock.now();
    u64::try_from(now.sec).unwrap_or(0) * 1000 + u64::from(now.nsec) / 1_000_000
}

/// So many thousandths.
fn share(total: u64, permille: u64) -> u64 {
    u64::try_from(u128::from(total) * u128::from(permille) / 1000).unwrap_or(u64::MAX)
}

fn lacks_files(space: &Space, permille: u64) -> bool {
    space.files_total > 0 && space.files_free < share(space.files_total, permille)
}

/// Whether something was refused for want of room, memory or open files, which is no fault of the disk.
fn is_shortage(error: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
}
