//! The object stores of the real world: a directory (`file`), S3 and what speaks it (`s3`), and memory (`mem`).

mod complaints;
mod endpoint;
mod errors;
mod s3;
mod store;

pub use endpoint::Endpoint;
pub use s3::make_bucket;
pub use store::Store;

use object_store::local::LocalFileSystem;
use std::path::Path;
use std::sync::Arc;
use zest_types::volume::Settings;

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

/// Opens the store that the settings name; their secrets must be in plain text. Speaks to nobody yet, but a
/// directory must exist.
pub fn open(settings: &Settings) -> Result<Store, OpenError> {
    match settings.storage.as_str() {
        "" | "file" => open_directory(Path::new(&settings.bucket)),
        "s3" => s3::open(settings),
        "mem" => Ok(Store::memory()),
        other => Err(OpenError::Kind(other.into())),
    }
}

/// Opens a directory as a store. Objects are plain files named by their keys, each written beside its place,
/// synced, and renamed; so are their directories.
pub fn open_directory(root: &Path) -> Result<Store, OpenError> {
    let broken = |why: String| OpenError::Directory { path: root.display().to_string(), why };
    match std::fs::metadata(root) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(broken("it is not a directory".into())),
        Err(error) => return Err(broken(format!("{error}; bring the objects back to this place"))),
    }
    let inner = LocalFileSystem::new_with_prefix(root).map_err(|e| broken(e.to_string()))?;
    let traits = store::Traits { checksums: false, sorted: false };
    Ok(Store::new(Arc::new(inner.with_fsync(true)), traits))
}
