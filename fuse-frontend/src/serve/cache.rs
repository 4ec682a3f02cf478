//! Directories of the local cache: which there are where none were named, and what is in the way of one. One that
//! can't be had is said in the log; the mount goes without it.

use std::path::PathBuf;
use std::sync::Arc;
use zest_host::LocalDisk;
use zest_types::volume::Settings;
use zest_vfs::CacheDisks;
use zest_world::Disk;

/// What the user said of the cache.
#[derive(Clone, Default)]
pub struct CachePlan {
    /// The directories; what is usual where it says nothing.
    pub dirs: Option<Vec<PathBuf>>,
    /// How it works.
    pub settings: zest_cache::disk::Settings,
}

/// Where blocks are cached if nobody says where. Not where the store is on this machine already: a copy on a disk of
/// what is on a disk costs room and writes, and is read no faster.
fn usual(volume: &Settings) -> Vec<PathBuf> {
    if matches!(volume.storage.as_str(), "file" | "mem") {
        return Vec::new();
    }
    match (rustix::process::geteuid().is_root(), std::env::var_os("HOME")) {
        (false, Some(home)) => vec![PathBuf::from(home).join(".juicefs/cache")],
        _ => vec![PathBuf::from("/var/jfsCache")],
    }
}

/// The directories of a volume, made where they are missing.
pub(super) fn disks(plan: &CachePlan, volume: &Settings) -> CacheDisks {
    let dirs = plan.dirs.clone().unwrap_or_else(|| usual(volume));
    if dirs.is_empty() || plan.settings.size == 0 {
        return CacheDisks::default();
    }
    raise_open_files();
    let mut disks: Vec<Arc<dyn Disk>> = Vec::new();
    for dir in &dirs {
        match LocalDisk::create(&dir.join(&volume.uuid)) {
            Ok(disk) => {
                disks.push(Arc::new(disk));
                tracing::info!("cache directory {} is {}", disks.len(), dir.display());
            }
            Err(error) => tracing::warn!(
                "cache directory {} can't be used: {error}; this mount goes without it: name another with --cache-dir",
                dir.display()
            ),
        }
    }
    CacheDisks(disks)
}

/// Cache files stay open, and the usual limit was made for programs that open few.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!("the limit of open files stays as it is: {error}");
    }
}
