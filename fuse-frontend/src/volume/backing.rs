//! Where the records of a volume are: the embedded engine in a directory, or a server. Knows how each is opened, who
//! may have it at the same time, and what a server says of itself.

use super::VolumeError;
use crate::control;
use crate::meta_url::{LocalPlace, MetaUrl};
use crate::safety::{self, Finding};
use crate::secret;
use std::fs::File;
use std::sync::Arc;
use zest_engines::redis::{ConnectOptions, RedisEngine, RedisUrl};
use zest_engines::{EmbeddedEngine, OpenError};
use zest_host::{KeptFile, LocalDisk};
use zest_metadata::{Engine, Key, Record};
use zest_types::volume::Settings;
use zest_world::World;

/// What of the records outlives the process that has them open, where another one may go on.
pub struct KeptRecords {
    /// The file of the embedded engine, and with it the lock of the volume.
    pub file: KeptFile,
    /// Where its commits are written down until the file has them.
    pub commits: [File; 2],
}

/// Records, open. Servers are spoken to by tasks of the runtime this was opened in.
#[derive(Clone)]
pub enum Backing {
    /// Nobody else's as long as this lives.
    Embedded(Arc<EmbeddedEngine>),
    /// Others may use it, too.
    Redis {
        /// The engine.
        engine: Arc<RedisEngine>,
        /// Number of the database.
        db: i64,
    },
}

impl Backing {
    /// Opens the records at this place. In a directory there must be a volume; on a server there need not be one.
    pub async fn open(
        url: &MetaUrl,
        world: &World,
        kept: Option<KeptRecords>,
    ) -> Result<Backing, VolumeError> {
        match url {
            MetaUrl::Local(place) => open_embedded(place, world, kept),
            MetaUrl::Redis(redis) => open_redis(url, redis, world).await,
        }
    }

    /// The records.
    #[must_use]
    pub fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Backing::Embedded(engine) => Arc::clone(engine) as _,
            Backing::Redis { engine, .. } => Arc::clone(engine) as _,
        }
    }

    /// The settings record as it stands, `None` where there is no volume.
    pub async fn settings(&self, url: &MetaUrl) -> Result<Option<Settings>, VolumeError> {
        let found = self.engine().read(&[Key::Setting]).await.map_err(VolumeError::records(url))?;
        match found.into_iter().next().flatten() {
            Some(Record::Bytes(bytes)) => parse(url, &bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// What speaks against the server; nothing where there is none.
    pub async fn findings(&self, url: &MetaUrl) -> Result<Vec<Finding>, VolumeError> {
        match self {
            Backing::Embedded(_) => Ok(Vec::new()),
            Backing::Redis { engine, db } => {
                let said = engine.server().await.map_err(VolumeError::records(url))?;
                Ok(safety::findings(&said.info, &said.config, &said.strangers, *db))
            }
        }
    }
}

pub(super) fn parse(url: &MetaUrl, bytes: &[u8]) -> Result<Settings, VolumeError> {
    Settings::from_json(bytes).map_err(|error| VolumeError::Settings { url: url.to_string(), error })
}

/// The settings in a directory, whether or not somebody uses it; `None` where there is no volume.
pub(super) fn label(place: &LocalPlace) -> Result<Option<Settings>, VolumeError> {
    let Some(disk) = open_disk(place)? else { return Ok(None) };
    let bytes = EmbeddedEngine::settings(&disk).map_err(|e| engine_error(place, e))?;
    bytes.map(|bytes| parse(&MetaUrl::Local(place.clone()), &bytes)).transpose()
}

fn shown(place: &LocalPlace) -> String {
    place.path.display().to_string()
}

fn open_disk(place: &LocalPlace) -> Result<Option<LocalDisk>, VolumeError> {
    match LocalDisk::open(&place.meta()) {
        Ok(disk) => Ok(Some(disk)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(VolumeError::Place { url: shown(place), error }),
    }
}

/// Adds to an engine's complaint who it is that uses the volume, where that can be found out.
fn engine_error(place: &LocalPlace, error: OpenError) -> VolumeError {
    match error {
        OpenError::InUse => {
            let who = control::volume_name(&place.meta()).ok().and_then(|name| control::ask(&name, "who"));
            VolumeError::InUse { url: shown(place), who: who.unwrap_or_else(|| "another process".into()) }
        }
        error => VolumeError::Engine { url: shown(place), error },
    }
}

fn open_embedded(
    place: &LocalPlace,
    world: &World,
    kept: Option<KeptRecords>,
) -> Result<Backing, VolumeError> {
    let Some(disk) = open_disk(place)? else { return Err(VolumeError::NotFormatted(shown(place))) };
    let opened = match kept {
        Some(KeptRecords { file, commits }) => {
            let disk = disk.keeping(EmbeddedEngine::FILE, file);
            EmbeddedEngine::open_after(Arc::new(disk), world, commits.map(zest_host::disk::opened))
        }
        None => EmbeddedEngine::open(Arc::new(disk), world),
    };
    let engine = opened.map_err(|e| engine_error(place, e))?;
    Ok(Backing::Embedded(Arc::new(engine)))
}

async fn open_redis(url: &MetaUrl, redis: &RedisUrl, world: &World) -> Result<Backing, VolumeError> {
    let failed = |why: String| VolumeError::Server { url: url.to_string(), why };
    let password = secret::metadata_password().map_err(failed)?;
    let sentinel = std::env::var("SENTINEL_PASSWORD").ok().filter(|word| !word.is_empty());
    let redis = redis.clone().with_password(password).with_sentinel_password(sentinel);
    let dial = Arc::new(zest_host::RealDial);
    let engine = RedisEngine::connect(&redis, dial, world, ConnectOptions::default())
        .await
        .map_err(|error| failed(error.to_string()))?;
    Ok(Backing::Redis { engine: Arc::new(engine), db: redis.db })
}
