//! What ends the work on a whole volume before it is done.

use zest_metadata::EngineError;
use zest_types::Errno;
use zest_world::ObjectError;

/// Why the work could not be done.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Failure {
    #[error(transparent)]
    Records(#[from] EngineError),
    #[error("{0}; look at the object store, then try again")]
    Objects(#[from] ObjectError),
    #[error(
        "the object store holds more than {0} blocks of one share of the slices: it can't be looked at in memory"
    )]
    TooMuch(usize),
    #[error("more than {0} files are to be kept in mind: look at a smaller part with --path")]
    TooMany(usize),
    #[error("the records refused a change ({0}); try again")]
    Refused(#[from] Errno),
    #[error(
        "the objects in {place} are those of volume {found}, not of {expected}: look at the bucket of the volume"
    )]
    OtherVolume { place: String, found: String, expected: String },
    #[error("no such file or directory in the volume: {0}")]
    NoPath(String),
}
