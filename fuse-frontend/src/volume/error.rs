//! What can go wrong with a volume, each in one line that names the volume and the remedy.

use crate::meta_url::MetaUrl;
use crate::safety::Finding;
use std::io;
use zest_data::codec;
use zest_engines::OpenError;
use zest_host::objects;
use zest_host::probe::ProbeError;
use zest_host::secrets::SecretError;
use zest_metadata::EngineError;
use zest_types::volume::{Settings, SettingsError};

/// What can go wrong with a volume.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum VolumeError {
    // The first words are what tools look for.
    #[error("database is not formatted: {0} is no volume; make one with zest format {0} NAME")]
    NotFormatted(String),
    #[error("volume {url} is in use by {who}")]
    InUse { url: String, who: String },
    #[error("{url} can't be used: {error}; check the path and its owner")]
    Place { url: String, error: io::Error },
    #[error("{0} is not empty and holds no volume: choose another directory")]
    Occupied(String),
    #[error("volume {url}: {error}")]
    Engine { url: String, error: OpenError },
    #[error("volume {url}: {error}")]
    Records { url: String, error: EngineError },
    #[error("metadata server {url}: {why}")]
    Server { url: String, why: String },
    #[error("metadata server {url}: {finding}")]
    Unsafe { url: String, finding: Box<Finding> },
    #[error("volume {url}: {why}")]
    Config { url: String, why: String },
    #[error("volume {url} can't be mounted: {why}")]
    Gate { url: String, why: String },
    #[error("volume {url}: {error}")]
    Settings { url: String, error: SettingsError },
    #[error("volume {url}: {error}")]
    Secret { url: String, error: SecretError },
    #[error("volume {url}: {error}")]
    Codec { url: String, error: codec::OpenError },
    #[error("volume {url}: {error}")]
    Store { url: String, error: objects::OpenError },
    #[error("volume {url}, objects at {bucket}: {error}")]
    Probe { url: String, bucket: String, error: ProbeError },
    #[error("{url} holds volume {found:?} already, not {given:?}: use its name, or another place")]
    OtherName { url: String, found: String, given: String },
    #[error("volume {url}: {what} is {old} and stays so: make a new volume for another value")]
    Fixed { url: String, what: &'static str, old: String },
    #[error("volume {0} is encrypted with another private key, and stays so: make a new volume for this one")]
    OtherKey(String),
    #[error(
        "volume {0}: somebody else changed its settings just now: look with zest status {0}, then try again"
    )]
    Changed(String),
}

impl VolumeError {
    /// Adds the volume and its objects' place to what a probe found.
    pub(crate) fn probe(url: &MetaUrl, settings: &Settings) -> impl Fn(ProbeError) -> VolumeError {
        let (url, bucket) = (url.to_string(), settings.bucket.clone());
        move |error| VolumeError::Probe { url: url.clone(), bucket: bucket.clone(), error }
    }

    /// Adds the volume to an engine's error.
    pub(crate) fn records(url: &MetaUrl) -> impl Fn(EngineError) -> VolumeError {
        let url = url.to_string();
        move |error| VolumeError::Records { url: url.clone(), error }
    }
}
