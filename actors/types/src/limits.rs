//! Every bound in one place, and what must hold between them (checked when this compiles).

/// Bytes of a chunk: the window of a file that one slice list covers.
pub const CHUNK_SIZE: u64 = 1 << 26;
/// Files end below this offset; more is `EFBIG`.
pub const FILE_MAX: u64 = 1 << 57;
/// Bytes of a name.
pub const NAME_MAX: usize = 255;
/// Bytes of a symlink target.
pub const SYMLINK_MAX: usize = 4095;
/// Bytes of an extended attribute's value.
pub const XATTR_VALUE_MAX: usize = 65_536;
/// Default bytes of a stored block.
pub const BLOCK_SIZE: u32 = 4 << 20;
/// Smallest and largest block size a volume may have, bytes; powers of two.
pub const BLOCK_SIZE_RANGE: (u32, u32) = (64 << 10, 16 << 20);
/// Buckets the objects of a volume may be spread over.
pub const SHARDS: u32 = 256;
/// Bytes of a private key's file.
pub const PRIVATE_KEY_MAX: usize = 64 << 10;
/// A read or a write that waits is given up for a signal that does not kill after this long, milliseconds.
pub const INTERRUPT_PATIENCE_MS: u64 = 1_000;
/// How often those are looked at who got a signal and still wait, milliseconds.
pub const INTERRUPT_LOOK_MS: u64 = 100;
/// Bytes of a pooled page of the writer.
pub const PAGE_SIZE: usize = 64 << 10;
/// Largest request of the kernel, bytes.
pub const MAX_IO: u32 = 1 << 20;
/// Places of a ring for requests, beside those whose requests wait; with little memory fewer.
pub const RING_DEPTH: usize = 32;
/// With fewer there is no ring.
pub const RING_DEPTH_MIN: usize = 4;
/// Places of a ring, with those whose requests wait; requests beyond that wait in the kernel.
pub const RING_PLACES: usize = 4096;
/// Smallest payload of a place, bytes: the longest attribute with its name must fit.
pub const RING_ROOM_MIN: u32 = 128 << 10;
/// One in this many bytes of a mount's memory is for its rings.
pub const RING_SHARE: u64 = 16;
/// Inode numbers and slice numbers taken from the engine at once.
pub const INO_BATCH: u64 = 1024;
/// See [`INO_BATCH`].
pub const SLICE_BATCH: u64 = 4096;
/// Messages an actor's mailbox holds.
pub const MAILBOX: usize = 1024;
/// How often a change is decided anew after a conflict, before `EAGAIN` becomes `EIO`.
pub const TXN_RETRIES: u32 = 50;
/// Records one change set may touch; larger work is split into steps that can be resumed.
pub const CHANGE_SET_MAX: usize = 4096;
/// Directory entries fetched from the engine at once.
pub const READDIR_BATCH: usize = 1024;
/// Records of a chunk list that one compaction looks at; a commit that leaves as many waits for one.
pub const COMPACT_RECORDS: usize = 8000;
/// Slices that one compaction replaces.
pub const COMPACT_SLICES: usize = 1000;
/// Bytes of blocks that a compaction keeps at hand while it reads them piece by piece, about.
pub const COMPACT_BLOCKS: usize = 64 << 20;
/// Chunks that a mount compacts at once, and that may wait for it; more are asked for again by the next reader.
pub const COMPACTIONS: usize = 4;
/// See [`COMPACTIONS`].
pub const COMPACTIONS_WAITING: usize = 1024;
/// A copy in the making that is older than this was left by a crash, seconds.
pub const DETACHED_SECS: i64 = 86_400;
/// How often the jobs of a volume are done, by whichever of its clients, seconds.
pub const JOBS_EVERY_SECS: u64 = 3600;
/// Dead sessions that are ended in one go.
pub const DEAD_SESSIONS: usize = 1000;
/// Nodes of a tree that are counted in one go, when it moves to other quotas.
pub const TREE_WALK: usize = 1 << 16;
/// Directories with a quota that a mount minds.
pub const QUOTA_DIRS: usize = 1 << 16;
/// Access rules among which an equal one is looked for before another is added.
pub const ACL_LOOK: u32 = 1024;
/// Access rules a mount remembers.
pub const ACL_RULES: usize = 65_536;
/// Entries of a directory that are counted when its statistics are missing; a larger one stays uncounted.
pub const RECOUNT_ENTRIES: usize = 1 << 18;
/// Batches of directory entries that an open directory keeps.
pub const READDIR_KEPT_BATCHES: usize = 64;
/// Requests of a mount that may wait for an actor at once; more are told to try again.
pub const WAITING_REQUESTS: usize = 16_384;
/// Deleted files whose data wait for removal in memory; more wait in the volume.
pub const REAPER_QUEUE: usize = 65_536;
/// Deleted files whose data are removed together, and chunk lists looked at together.
pub const REAPER_BATCH: usize = 256;
/// How often a mount says that its session lives, seconds.
pub const HEARTBEAT_SECS: u64 = 12;
/// How often the volume is searched for deleted files that were forgotten, seconds.
pub const REAPER_LOOK_SECS: u64 = 60;
/// The chunk lists of a deleted file with fewer chunks are asked for one by one.
pub const FEW_CHUNKS: u32 = 64;
/// Requests under way at once that a user may ask for.
pub const WORKERS: usize = 1024;
/// Deletions of objects under way at once.
pub const DELETES: usize = 10;
/// Objects of a listing asked for at once.
pub const LISTING: usize = 1 << 16;
/// Blocks of the store that are looked at together when a whole volume is; more are looked at in shares.
pub const INVENTORY: usize = 1 << 21;
/// Objects younger than this may belong to a write that is not committed yet, seconds.
pub const UNCOMMITTED_SECS: i64 = 3600;
/// Problems of one kind that are told one by one; more are only counted.
pub const PROBLEMS_TOLD: usize = 10_000;
/// Directories above one another, when a path is looked for from its end.
pub const DEPTH: usize = 4096;
/// Files with several names that are remembered while a whole volume is looked at.
pub const LINKED_FILES: usize = 1 << 22;
/// Flattened chunk lists a mount keeps.
pub const CHUNK_VIEWS: usize = 16_384;
/// Attributes, entries and chunk lists a mount believes without asking, at most.
pub const VIEWS_MAX: usize = 1 << 20;
/// Bytes of a part of a block: what is fetched and kept where little of a block is wanted.
pub const PART_SIZE: u32 = 16 << 10;
/// One in this many bytes of a block is the most that is fetched in parts before the block is fetched whole.
pub const PART_SHARE: u32 = 4;
/// Bytes of blocks a mount keeps in memory, at most where nothing else is said.
pub const MEMORY_BLOCKS: u64 = 256 << 20;
/// Blocks of which is remembered how much was fetched in parts.
pub const APPETITES: usize = 16_384;
/// Puts under way at once, by default.
pub const UPLOADS: usize = 20;
/// Blocks under way at once from files to the staging disk.
pub const STAGING_PUTS: usize = 64;
/// Blocks that share one sync of the staging disk.
pub const STAGING_BATCH: usize = 256;
/// Bytes of one file of the staging journal, about.
pub const STAGING_SEGMENT: u64 = 64 << 20;
/// Bytes that may wait on the staging disk, by default.
pub const STAGING_BYTES: u64 = 20 << 30;
/// Blocks that may wait there.
pub const STAGED_BLOCKS: u64 = 1 << 18;
/// Bytes of a staged object: the largest block, encoded at its worst.
pub const STAGED_OBJECT_MAX: u64 = 20 << 20;
/// After a failure of the staging disk blocks go straight to the store for this long; staged blocks are tried at
/// least this often; milliseconds.
pub const STAGING_REST_MS: u64 = 5_000;
/// A delay and an hour of the day hold staged blocks back no longer than this, seconds.
pub const STAGING_AGE_SECS: u64 = 86_400;
/// Gets under way at once, by default.
pub const DOWNLOADS: usize = 64;
/// Puts, and gets, under way at once that a user may ask for.
pub const TRANSFERS: usize = 1000;
/// Recent gets of one kind whose times are remembered.
pub const PACE_KEPT: usize = 128;
/// One get in this many may be asked for a second time because the first is late.
pub const HEDGE_SHARE: u32 = 20;
/// Second requests that may be made at once after a time without any.
pub const HEDGE_BURST: u32 = 4;
/// No get is late before this, milliseconds.
pub const HEDGE_AFTER_MS: u64 = 10;
/// Bytes of gets under way at once, at most.
pub const FETCHING: u64 = 256 << 20;
/// How often an object request that failed for now is tried again, by default.
pub const OBJECT_RETRIES: u32 = 10;
/// Tries of an object whose bytes are not those of its block, before it counts as damaged.
pub const DAMAGED_TRIES: u32 = 3;
/// How often a block that a fresh slice list names and the store does not have is looked for again, where another
/// client may be about to store it.
pub const MISSING_LOOKS: u32 = 5;
/// One try of an object request is given up after this long, by default, milliseconds.
pub const OBJECT_TIMEOUT_MS: u64 = 60_000;
/// A put to a store that is not to be reached is tried again for this long, milliseconds; then its write is lost, and
/// the file's next fsync says so.
pub const UPLOAD_PATIENCE_MS: u64 = 30 * 60_000;
/// Blocks one open file may read ahead, by default.
pub const READAHEAD_BLOCKS: u64 = 32;
/// Prefetches that may wait for their turn; more are forgotten.
pub const PREFETCHES: usize = 64;
/// Bytes of a cache file that are checked together.
pub const CACHE_PART: u32 = 32 << 10;
/// Bytes of cache files, by default.
pub const CACHE_SIZE: u64 = 100 << 30;
/// Of the space of a disk, in thousandths, what the cache leaves free, by default.
pub const CACHE_FREE_PERMILLE: u64 = 100;
/// Cache files of a mount.
pub const CACHE_FILES: u64 = 1 << 20;
/// Cache files that are kept open.
pub const CACHE_OPEN: usize = 512;
/// Bytes that wait to be written into cache files, at most; more are not kept.
pub const CACHE_QUEUE: u64 = 64 << 20;
/// Bytes written into cache files in one go.
pub const CACHE_BATCH: u64 = 16 << 20;
/// Reads of at least so many bytes are answered from a mapping; less is copied, which costs less than mapping it.
pub const CACHE_MAPPED: u32 = 64 << 10;
/// Failures of a disk in a row, after which its cache is given up.
pub const CACHE_FAILURES: u32 = 3;
/// How often cache directories are looked after, milliseconds.
pub const CACHE_TEND_MS: u64 = 2_000;
/// Cache files that are looked at for their age in one go.
pub const CACHE_AGED: usize = 1_000;
/// Processes that may have a cache of one volume in one directory.
pub const CACHE_SHARERS: u32 = 8;
/// Bytes of unflushed writes in a mount, at most where nothing else is said.
pub const WRITE_BUDGET: u64 = 300 << 20;
/// The least of it: the largest request, anywhere in a file, must fit into the pages of an empty budget.
pub const WRITE_BUDGET_MIN: u64 = 2 << 20;
/// Bytes of write requests that may wait while the write budget is used up, at most.
pub const WRITE_RESERVE: u64 = 64 << 20;
/// Bytes of block buffers kept for the next use, at most.
pub const POOLED_BYTES: usize = 64 << 20;
/// Slices of one file that may wait to be committed; more writes wait.
pub const PENDING_SLICES: usize = 1000;
/// A write of at most so many bytes that begins elsewhere goes into the slice of the one before.
pub const PACKED_WRITE: u32 = 64 << 10;
/// Places of a file that one slice may show; also what one commit adds to chunk lists, if that is more than one slice.
pub const SLICE_PARTS: usize = 1024;
/// Places of one file that may wait to be committed; more writes wait.
pub const PENDING_PARTS: usize = 16_384;
/// A slice is sealed when it was idle this long, milliseconds.
pub const SLICE_IDLE_MS: u64 = 1_000;
/// A slice is sealed at this age, milliseconds.
pub const SLICE_AGE_MS: u64 = 5_000;
/// Committed metadata becomes durable after this long without any fsync, milliseconds.
pub const META_FLUSH_MS: u64 = 500;
/// Bytes of committed metadata kept in memory before they are written.
pub const META_BUFFER: usize = 64 << 20;
/// Bytes of the embedded engine's file kept in memory.
pub const META_CACHE: usize = 64 << 20;
/// Bytes of the embedded engine's file that are checked after a crash. Flushes of a larger file sync twice and
/// record what the check would find out, so that opening never takes longer than this many bytes need.
pub const META_CHECKED: u64 = 256 << 20;
/// A request to a metadata server is given up, and becomes an error, after this long, milliseconds.
pub const META_DEADLINE_MS: u64 = 300_000;
/// One try to connect to a metadata server is given up after this long, milliseconds.
pub const META_CONNECT_MS: u64 = 5_000;
/// Tries of the first connection to a metadata server, where one breaks off.
pub const META_FIRST_TRIES: u32 = 5;
/// How often a metadata server is asked whether it lives, milliseconds.
pub const META_PING_MS: u64 = 250;
/// A metadata server that is silent this long is stalled, milliseconds.
pub const META_STALL_MS: u64 = 50;
/// What a metadata server pushed is believed to be all, this long after it last answered, milliseconds.
pub const META_VOUCH_MS: u64 = 2_000;
/// Stalls of a metadata server that are remembered.
pub const META_STALLS_KEPT: usize = 32;
/// Attributes and names the kernel is told to believe until it hears otherwise; more are told for a short time.
pub const KERNEL_TOLD: usize = 1 << 18;
/// A session counts as dead when it was silent for this many heartbeats.
pub const SESSION_BEATS: u32 = 5;
/// The kernel believes what it was told until it hears otherwise, but no longer than for this many heartbeats: should
/// nobody be able to tell it, it stops before the session ends.
pub const KERNEL_BEATS: u32 = 4;
/// A metadata server that came back may have given out so many inode and slice numbers that it has forgotten.
pub const LOST_NUMBERS: i64 = 1 << 20;
/// The same of session numbers.
pub const LOST_SESSIONS: i64 = 1 << 10;
/// How often a waiter for a lock looks by itself where others use the volume and the store does not tell,
/// milliseconds.
pub const LOCK_LOOK_MS: u64 = 50;
/// The same where the store tells: in case it was not heard.
pub const LOCK_LOOK_TOLD_MS: u64 = 1_000;
/// Directory listings of a metadata server without order that are kept sorted, in entries.
pub const LISTED_ENTRIES: usize = 1 << 20;
/// A kept listing serves the rest of a directory this long, milliseconds.
pub const LISTED_MS: u64 = 60_000;
/// Descriptors passed from one process to another at once: those of a connection with the kernel, and some more.
pub const PASSED_FDS: usize = 64;
/// Threads that read requests of a mount which another process may take over: each has a descriptor.
pub const DOOR_THREADS: usize = 32;
/// Bytes of a word between a supervisor and its worker.
pub const WORD_BYTES: usize = 64 << 10;
/// Bytes of a question to a supervisor: the arguments of a program are in it.
pub const UPGRADE_BYTES: u64 = 256 << 10;
/// A worker that served for this long before it died did not die at once, milliseconds.
pub const WORKER_STEADY_MS: u64 = 250;
/// Workers in a row that may die at once before the mount is given up.
pub const RESTARTS_QUICK: u32 = 5;
/// Workers that may die within [`RESTARTS_SECS`].
pub const RESTARTS: usize = 100;
/// See [`RESTARTS`], seconds.
pub const RESTARTS_SECS: u64 = 600;
/// The first pause before a worker that died at once is started again, milliseconds; four times as long after each.
pub const RESTART_PAUSE_MS: u64 = 20;
/// How long requests under way may keep a mount from being handed over, milliseconds.
pub const HAND_OVER_MS: u64 = 30_000;
/// Files with unflushed writes that are noted for the next worker one by one; where there are more, any may have had
/// some.
pub const UNFLUSHED_NOTED: usize = 1 << 16;
/// Bytes of each of two logs of what the kernel was told, for the next process of a mount; more is not noted.
pub const KEPT_TOLD_BYTES: u64 = 16 << 20;
/// Nodes whose last close can only be told by the kernel's forgetting them, in each part of the table of open files.
pub const DOUBTFUL: usize = 1 << 14;

const _: () = {
    assert!(DOOR_THREADS + 8 <= PASSED_FDS && RESTARTS_QUICK < 8);
    assert!(BLOCK_SIZE as u64 <= CHUNK_SIZE && CHUNK_SIZE.is_multiple_of(BLOCK_SIZE as u64));
    assert!(BLOCK_SIZE_RANGE.0 <= BLOCK_SIZE && BLOCK_SIZE <= BLOCK_SIZE_RANGE.1);
    assert!((BLOCK_SIZE_RANGE.0 as usize).is_multiple_of(PAGE_SIZE));
    assert!(BLOCK_SIZE_RANGE.0.is_multiple_of(PART_SIZE) && BLOCK_SIZE_RANGE.0 / PART_SIZE >= PART_SHARE);
    assert!(FETCHING >= BLOCK_SIZE_RANGE.1 as u64);
    assert!(RING_ROOM_MIN as usize > XATTR_VALUE_MAX + NAME_MAX && RING_ROOM_MIN <= MAX_IO);
    assert!(RING_DEPTH_MIN <= RING_DEPTH && RING_DEPTH < RING_PLACES);
    assert!(FILE_MAX / CHUNK_SIZE <= 1 << 31);
    assert!(WRITE_BUDGET_MIN >= MAX_IO as u64 + 4 * PAGE_SIZE as u64 && WRITE_BUDGET_MIN <= WRITE_BUDGET);
    assert!(WRITE_RESERVE < WRITE_BUDGET && WRITE_RESERVE >= MAX_IO as u64);
    assert!(
        PACKED_WRITE <= BLOCK_SIZE_RANGE.0
            && SLICE_PARTS <= CHANGE_SET_MAX / 4
            && SLICE_PARTS <= PENDING_PARTS
    );
    assert!(SLICE_IDLE_MS <= SLICE_AGE_MS && META_FLUSH_MS <= 1_000);
    assert!(META_STALL_MS < META_PING_MS && META_PING_MS < META_VOUCH_MS && META_VOUCH_MS < META_DEADLINE_MS);
    assert!(LOST_NUMBERS > 64 * SLICE_BATCH as i64 && LOST_NUMBERS > 64 * INO_BATCH as i64);
    assert!(KERNEL_BEATS < SESSION_BEATS);
    assert!(BLOCK_SIZE_RANGE.0.is_multiple_of(CACHE_PART) && CACHE_MAPPED > CACHE_PART);
    assert!(CACHE_BATCH <= CACHE_QUEUE && BLOCK_SIZE_RANGE.1 as u64 <= CACHE_BATCH);
    assert!(UPLOADS <= TRANSFERS && DOWNLOADS <= TRANSFERS && TRANSFERS < MAILBOX && STAGING_PUTS < MAILBOX);
    assert!(STAGED_OBJECT_MAX > BLOCK_SIZE_RANGE.1 as u64 && STAGING_SEGMENT > STAGED_OBJECT_MAX);
};
