//! The object stores of the real world: a directory (`file`), S3 and what speaks it (`s3`), and memory (`mem`); one
//! bucket of them, or several.

mod bucket;
mod complaints;
mod endpoint;
mod errors;
mod s3;
mod shards;
mod store;

pub use endpoint::Endpoint;
pub use store::Store;

use bucket::Bucket;
use object_store::local::LocalFileSystem;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zest_types::limits;
use zest_types::volume::Settings;

/// How long a request may take, where nothing else is said.
pub const PATIENCE: Duration = Duration::from_millis(limits::OBJECT_TIMEOUT_MS);

/// Why an object store can't be opened. Each text names the thing and the remedy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OpenError {
    /// A kind of store this program doesn't have.
    #[error("object storage {0:?} is not supported: use file, s3 or mem")]
    Kind(String),
    /// An address that leads nowhere.
    #[error("bucket {bucket:?} is not usable: {why}")]
    Bucket {
        /// As it was given.
        bucket: String,
        /// What is wrong with it.
        why: String,
    },
    /// The directory of a `file` store.
    #[error("object directory {path} is not usable: {why}")]
    Directory {
        /// The directory.
        path: String,
        /// What the system says, and what to do.
        why: String,
    },
}

/// The buckets of a volume: one, or as many as it has shards.
pub fn buckets(settings: &Settings) -> Result<Vec<String>, OpenError> {
    if settings.shards <= 1 {
        return Ok(vec![settings.bucket.clone()]);
    }
    let broken = |why| OpenError::Bucket { bucket: settings.bucket.clone(), why };
    (0..settings.shards.min(limits::SHARDS))
        .map(|n| shards::bucket(&settings.bucket, n).map_err(broken))
        .collect()
}

/// Opens the store that the settings name; their secrets must be in plain text. Speaks to nobody yet, but
/// directories must exist. A request over a network is given up after `patience`.
pub fn open(settings: &Settings, patience: Duration) -> Result<Store, OpenError> {
    let all = buckets(settings)?.into_iter().map(|bucket| match settings.storage.as_str() {
        "" | "file" => open_bucket(Path::new(&bucket)),
        "s3" => s3::open(settings, &bucket, patience),
        "mem" => Ok(Bucket::memory()),
        other => Err(OpenError::Kind(other.into())),
    });
    let mut all = all.collect::<Result<Vec<Bucket>, OpenError>>()?;
    let one = if all.len() == 1 { all.pop().map(Store::one) } else { Store::of(all) };
    let none = || OpenError::Bucket { bucket: settings.bucket.clone(), why: "it names no bucket".into() };
    one.ok_or_else(none)
}

/// Makes the buckets of an `s3` volume; those that exist are no error. The error is the server's.
pub async fn make_bucket(settings: &Settings) -> Result<(), OpenError> {
    for bucket in buckets(settings)? {
        s3::make_bucket(settings, &bucket).await?;
    }
    Ok(())
}

/// Opens a directory as a store. Objects are plain files named by their keys, each written beside its place,
/// synced, and renamed; so are their directories.
pub fn open_directory(root: &Path) -> Result<Store, OpenError> {
    open_bucket(root).map(Store::one)
}

fn open_bucket(root: &Path) -> Result<Bucket, OpenError> {
    let broken = |why: String| OpenError::Directory { path: root.display().to_string(), why };
    match std::fs::metadata(root) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(broken("it is not a directory".into())),
        Err(error) => return Err(broken(format!("{error}; bring the objects back to this place"))),
    }
    let inner = LocalFileSystem::new_with_prefix(root).map_err(|e| broken(e.to_string()))?;
    let traits = bucket::Traits { checksums: false, sorted: false };
    Ok(Bucket::new(Arc::new(inner.with_fsync(true)), traits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_buckets_of_their_own() {
        let mut settings = Settings::new("vol", "u", "file", "/x/jfs-%d/");
        assert_eq!(buckets(&settings).unwrap(), ["/x/jfs-%d/"], "one bucket may be called anything");
        settings.shards = 3;
        assert_eq!(buckets(&settings).unwrap(), ["/x/jfs-0/", "/x/jfs-1/", "/x/jfs-2/"]);
        settings.bucket = "/x/jfs/".into();
        let error = open(&settings, PATIENCE).err().unwrap().to_string();
        assert!(error.contains("/x/jfs/") && error.contains("%d"), "{error}");
    }
}
