//! Why a volume's records can't be opened, in words for the person at the command line. The caller adds the path.

use std::io;

/// Why the records in a directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another engine has the lock.
    #[error("the volume is in use by another process: unmount it there first")]
    InUse,
    /// The directory was made by a later version.
    #[error("the metadata have layout {0:?}, which this program does not know: use a newer program")]
    Layout(String),
    /// The file holds something else, or what it held is damaged.
    #[error("the metadata can't be used: {0}; restore the directory from a copy, or choose another one")]
    Unusable(String),
    /// The disk failed.
    #[error("the disk under the metadata failed: {0}")]
    Disk(#[from] io::Error),
}
