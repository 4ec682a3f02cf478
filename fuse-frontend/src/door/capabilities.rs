//! What the door agrees on with the kernel when it opens: abilities, sizes, and how many threads read requests.

use fuser::{Config, InitFlags, KernelConfig};
use zest_types::limits;

/// What is asked for where the kernel has it.
///
/// Not among them, on purpose: whole-file locks (the kernel's own are right inside one mount, and
/// `fuser` 0.18 can't tell the two kinds apart), `READDIRPLUS_AUTO` (with it the kernel asks for attributes with names only while it sees
/// lookups in between; programs read a directory to its end first, and then each file costs a question of its own),
/// `HANDLE_KILLPRIV_V2` (its signals get lost in `fuser` 0.18), and the kernel's
/// write-back cache (a write that was acknowledged is ours at once).
pub const WANTED: InitFlags = InitFlags::FUSE_ASYNC_DIO
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_ATOMIC_O_TRUNC)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);

/// Requests the kernel may have under way that nobody waits for: read-ahead and asynchronous direct I/O.
pub(crate) const BACKGROUND: u16 = 128;
/// From this many on the kernel takes its time to add more.
pub(crate) const CONGESTED: u16 = 96;

/// Beside that where others change the volume, too.
pub const WANTED_SHARED: InitFlags = WANTED.union(InitFlags::FUSE_AUTO_INVAL_DATA);

/// Where the volume has access control lists: the kernel asks for them and checks them itself. It leaves the umask
/// to us then, since a directory's default rule counts in its place.
pub const WITH_ACL: InitFlags = InitFlags::FUSE_POSIX_ACL.union(InitFlags::FUSE_DONT_MASK);

/// Where POSIX locks hold for all clients of the volume. Whole-file locks stay with the kernel.
pub const WITH_LOCKS: InitFlags = InitFlags::FUSE_POSIX_LOCKS;

/// Agrees with the kernel.
pub fn negotiate(config: &mut KernelConfig, shared: bool, acl: bool, posix_locks: bool) {
    let mut all = if shared { WANTED_SHARED } else { WANTED };
    all |= if acl { WITH_ACL } else { InitFlags::empty() };
    all |= if posix_locks { WITH_LOCKS } else { InitFlags::empty() };
    let wanted = all & config.capabilities();
    if let Err(refused) = config.add_capabilities(wanted) {
        tracing::warn!("the kernel refuses {refused:?}");
    }
    for missing in (all & !wanted).iter_names() {
        tracing::info!("the kernel does not know {}", missing.0);
    }
    // Each of these fails with the nearest value that is possible.
    if let Err(nearest) = config.set_max_write(limits::MAX_IO) {
        let _ = config.set_max_write(nearest);
    }
    if let Err(nearest) = config.set_max_readahead(limits::MAX_IO) {
        let _ = config.set_max_readahead(nearest);
    }
    let _ = config.set_max_background(BACKGROUND);
    let _ = config.set_congestion_threshold(CONGESTED);
}

/// Threads that read requests: one for each processor, 2 to 8.
#[must_use]
pub fn reader_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8)
}

/// Sets up threads, each with a descriptor of its own.
pub fn threads(config: &mut Config) {
    config.n_threads = Some(reader_threads());
    config.clone_fd = true;
}
