//! The disk tier: copies of blocks in local files, one file for each slice, over one or several directories. Asked
//! from every thread; what it gives is checked. Filled in the background, by jobs that run one at a time for each
//! directory; what there is no room for is not kept. A directory whose disk fails is given up, and nothing else.

mod entry;
mod index;
mod job;
pub mod record;
mod store;
mod sweep;
mod tender;
mod verify;

pub use tender::Tender;
pub use verify::{Level, UnknownLevel};

use crate::evict::Kind;
use crate::tier::MemoryTier;
use bytes::Bytes;
use entry::Wanted;
use job::Job;
use parking_lot::{Mutex, RwLock};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::Store;
use tokio::sync::oneshot;
use zest_data::{BlockId, BlockSink};
use zest_types::SliceId;
use zest_types::limits::{
    BLOCK_SIZE, CACHE_FREE_PERMILLE, CACHE_MAPPED, CACHE_PART, CACHE_SHARERS, CACHE_SIZE, CHUNK_SIZE,
};
use zest_world::{Disk, DiskFile, World};

/// Name of the file whose lock says that a process uses a directory.
const LOCK: &str = "lock";
/// Folders the files are spread over.
const FOLDERS: u32 = 256;
/// Parts the longest slice has.
const PARTS_MAX: u64 = CHUNK_SIZE / CACHE_PART as u64;

/// How the disk tier works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of all files; divided among the directories.
    pub size: u64,
    /// Files of each directory at most.
    pub items: Option<u64>,
    /// Of its file system's space a directory leaves so much free, in thousandths.
    pub free_permille: u64,
    /// What goes when room is short.
    pub eviction: Kind,
    /// Files unused for this long go.
    pub expire: Option<Duration>,
    /// How much is checked.
    pub verify: Level,
    /// Blocks that were fetched or uploaded as a whole, and are full, are not kept.
    pub partial_only: bool,
    /// Bytes of a full block.
    pub block_size: u32,
    /// Bytes that wait to be written into each directory; more are not kept.
    pub queue: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            size: CACHE_SIZE,
            items: None,
            free_permille: CACHE_FREE_PERMILLE,
            eviction: Kind::default(),
            expire: None,
            verify: Level::default(),
            partial_only: false,
            block_size: BLOCK_SIZE,
            queue: zest_types::limits::CACHE_QUEUE,
        }
    }
}

/// What the tier did so far, and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Runs of bytes it gave.
    pub hits: u64,
    /// Runs of bytes it did not have.
    pub misses: u64,
    /// Blocks it did not keep, since too many waited.
    pub dropped: u64,
    /// Files that were found damaged.
    pub damaged: u64,
    /// Bytes held.
    pub bytes: u64,
    /// Files held.
    pub files: u64,
    /// Directories in use.
    pub directories: u64,
}

type Wake = Box<dyn Fn() + Send + Sync>;

/// The disk tier. Share it by `Arc`.
pub struct DiskTier {
    stores: Vec<Store>,
    settings: Settings,
    memory: Arc<MemoryTier>,
    wake: RwLock<Option<Wake>>,
    hits: AtomicU64,
    misses: AtomicU64,
    dropped: AtomicU64,
    closed: Mutex<bool>,
}

/// Where the file of a slice is: folder and name.
fn place(slice: SliceId) -> (String, String) {
    let folder = u32::try_from(slice.0 % u64::from(FOLDERS)).unwrap_or(0);
    (folder_name(folder), slice.0.to_string())
}

fn folder_name(number: u32) -> String {
    format!("{number:02x}")
}

/// A folder of a cache directory, with the file whose lock keeps others out, and its number.
type OwnFolder = (u32, Arc<dyn Disk>, Arc<dyn DiskFile>);

/// The folder of a directory that nobody else uses: of several processes each has one of its own.
fn lock_one(disk: &Arc<dyn Disk>) -> io::Result<OwnFolder> {
    for number in 1..=CACHE_SHARERS {
        let name = if number == 1 { "zest".to_owned() } else { format!("zest-{number}") };
        let folder = disk.folder(&name)?;
        let lock = folder.open(LOCK, true)?;
        match lock.lock() {
            Ok(()) => return Ok((number, folder, lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{CACHE_SHARERS} other processes use it")))
}

impl DiskTier {
    /// Opens cache directories; those that can't be used are named in the log, and left out. Small blocks that are
    /// read from files are given to `memory`. Blocks.
    #[must_use]
    pub fn open(
        world: &World,
        disks: &[Arc<dyn Disk>],
        settings: &Settings,
        memory: Arc<MemoryTier>,
    ) -> DiskTier {
        let share = settings.size / (disks.len() as u64).max(1);
        let mut stores = Vec::new();
        for (disk, number) in disks.iter().zip(1..) {
            let opened = lock_one(disk).and_then(|(folder, disk, lock)| {
                if folder > 1 {
                    world.trace.complain(&format!(
                        "cache directory {number} is used by another process, too: this mount uses folder zest-{folder} in it"
                    ));
                }
                Store::open(number, world, (disk, lock), settings, share)
            });
            match opened {
                Ok(store) => stores.push(store),
                Err(error) => world.trace.complain(&format!(
                    "cache directory {number} can't be used: {error}; this mount goes without it"
                )),
            }
        }
        DiskTier {
            stores,
            settings: settings.clone(),
            memory,
            wake: RwLock::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            closed: Mutex::new(false),
        }
    }

    /// Bytes of a block, if they are here. `alone` says that they go to the kernel as they are, without anybody in
    /// this process looking at them. May wait for the disk.
    #[must_use]
    pub fn read(&self, block: BlockId, block_len: u32, range: Range<u32>, alone: bool) -> Option<Bytes> {
        let found = self.find(block.slice).and_then(|(store, entry)| {
            if range.is_empty() || range.end > block_len {
                return None;
            }
            // Small ones are had whole, and from memory the next time.
            if block_len <= CACHE_MAPPED {
                let whole = store.read(&entry, &self.wanted(block, block_len, 0..block_len), false)?;
                self.memory.insert(block, whole.clone());
                return Some(whole.slice(range.start as usize..range.end as usize));
            }
            store.read(&entry, &self.wanted(block, block_len, range), alone)
        });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether these bytes of a block are here; nothing is read.
    #[must_use]
    pub fn contains(&self, block: BlockId, block_len: u32, range: Range<u32>) -> bool {
        let wanted = self.wanted(block, block_len, range);
        self.find(block.slice).is_some_and(|(_, entry)| entry.has(&wanted))
    }

    fn wanted(&self, block: BlockId, block_len: u32, range: Range<u32>) -> Wanted {
        Wanted { base: u64::from(block.index) * u64::from(self.settings.block_size), block_len, range }
    }

    fn find(&self, slice: SliceId) -> Option<(&Store, Arc<entry::Entry>)> {
        self.stores.iter().find_map(|store| store.entry(slice).map(|entry| (store, entry)))
    }

    /// The directory for a slice: the one that has it, else one chosen by its number, the same each time.
    fn choose(&self, slice: SliceId) -> Option<&Store> {
        let living = || self.stores.iter().filter(|store| !store.is_retired());
        let score = |store: &&Store| {
            let mixed = (slice.0 ^ (store.number as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
        };
        living().find(|store| store.entry(slice).is_some()).or_else(|| living().max_by_key(score))
    }

    /// Has bytes of a block stored, of which only whole parts are. `wait` is told whether they are.
    fn put(
        &self,
        block: BlockId,
        block_len: u32,
        offset: u32,
        data: Bytes,
        told: Option<oneshot::Sender<bool>>,
    ) {
        let end = offset.saturating_add(u32::try_from(data.len()).unwrap_or(u32::MAX));
        let start = offset.next_multiple_of(CACHE_PART);
        let whole = if end == block_len { end } else { end / CACHE_PART * CACHE_PART };
        let fits =
            u64::from(block.index) * u64::from(self.settings.block_size) + u64::from(end) <= CHUNK_SIZE;
        let store = self.choose(block.slice).filter(|_| start < whole && end <= block_len && fits);
        let Some(store) = store else {
            let _gone = told.map(|told| told.send(false)); // who asked may have given up
            return;
        };
        let data = data.slice((start - offset) as usize..(whole - offset) as usize);
        let base = self.wanted(block, block_len, 0..0).base;
        let job = Job { slice: block.slice, base, block_len, offset: start, data, told };
        if !store.queue.push(job) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(wake) = &*self.wake.read() {
            wake();
        }
    }

    /// Keeps part of a block of `block_len` bytes; or not.
    pub fn keep_range(&self, block: BlockId, block_len: u32, offset: u32, data: Bytes) {
        self.put(block, block_len, offset, data, None);
    }

    /// Stores a whole block; tells whether it is in its file.
    pub async fn store(&self, block: BlockId, data: Bytes) -> bool {
        let (told, wait) = oneshot::channel();
        self.put(block, u32::try_from(data.len()).unwrap_or(u32::MAX), 0, data, Some(told));
        wait.await.unwrap_or(false)
    }

    /// Removes the file of a slice; true when there was one. Blocks.
    pub fn forget(&self, slice: SliceId) -> bool {
        self.stores.iter().filter(|store| store.entry(slice).is_some()).any(|store| store.forget(slice))
    }

    /// Ends the work in good order. Blocks; nothing is stored afterwards.
    pub fn close(&self) {
        if !std::mem::replace(&mut *self.closed.lock(), true) {
            self.stores.iter().for_each(Store::close);
            // Who did the work ends with it.
            *self.wake.write() = None;
        }
    }

    /// Counters and sizes.
    #[must_use]
    pub fn stats(&self) -> DiskStats {
        let sum = |of: &dyn Fn(&Store) -> u64| self.stores.iter().map(of).sum();
        DiskStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            damaged: sum(&|store| store.damaged.load(Ordering::Relaxed)),
            bytes: sum(&|store| store.bytes.load(Ordering::Relaxed)),
            files: sum(&Store::files),
            directories: sum(&|store| u64::from(!store.is_retired())),
        }
    }
}

impl BlockSink for DiskTier {
    fn keep(&self, block: BlockId, data: Bytes) {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if self.settings.partial_only && len >= self.settings.block_size {
            return;
        }
        self.put(block, len, 0, data, None);
    }
}
