//! A volume on this machine: its directory, its records behind the embedded engine, its settings, its objects.
//! Everything the command line does to a volume begins here.

pub mod create;
pub mod error;
pub mod status;

pub use error::VolumeError;

use crate::control;
use crate::meta_url::MetaUrl;
use std::path::Path;
use std::sync::Arc;
use zest_engines::{EmbeddedEngine, OpenError};
use zest_host::objects::{self, Store};
use zest_host::{LocalDisk, secrets};
use zest_metadata::{Engine, Key, Record};
use zest_types::volume::Settings;
use zest_world::World;

/// The records of a volume, open, and nobody else's as long as this lives.
pub struct Volume {
    /// Where it is.
    pub url: MetaUrl,
    /// Its records.
    pub engine: Arc<EmbeddedEngine>,
    /// Its settings; secrets in plain text.
    pub settings: Settings,
    world: World,
}

/// The settings of the volume at this place, as they are stored, whether or not somebody uses it; `None` where
/// there is no volume.
pub fn stored_settings(url: &MetaUrl) -> Result<Option<Settings>, VolumeError> {
    let Some(disk) = open_disk(url)? else { return Ok(None) };
    let bytes = EmbeddedEngine::settings(&disk).map_err(|e| engine_error(url, e))?;
    bytes.map(|bytes| parse(url, &bytes)).transpose()
}

fn parse(url: &MetaUrl, bytes: &[u8]) -> Result<Settings, VolumeError> {
    Settings::from_json(bytes).map_err(|error| VolumeError::Settings { url: url.to_string(), error })
}

fn open_disk(url: &MetaUrl) -> Result<Option<LocalDisk>, VolumeError> {
    match LocalDisk::open(&url.meta()) {
        Ok(disk) => Ok(Some(disk)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(VolumeError::Place { url: url.to_string(), error }),
    }
}

/// Adds to an engine's complaint who it is that uses the volume, where that can be found out.
fn engine_error(url: &MetaUrl, error: OpenError) -> VolumeError {
    let url = url.clone();
    match error {
        OpenError::InUse => {
            let who = control::volume_name(&url.meta()).ok().and_then(|name| control::ask(&name, "who"));
            VolumeError::InUse { url: url.to_string(), who: who.unwrap_or_else(|| "another process".into()) }
        }
        error => VolumeError::Engine { url: url.to_string(), error },
    }
}

/// A world for records alone, before it is known where objects are.
fn bare_world() -> World {
    zest_host::world(Arc::new(Store::memory()))
}

/// Opens the records at this place, which must be a volume.
fn open_engine(url: &MetaUrl, world: &World) -> Result<EmbeddedEngine, VolumeError> {
    let Some(disk) = open_disk(url)? else { return Err(VolumeError::NotFormatted(url.to_string())) };
    EmbeddedEngine::open(Arc::new(disk), world).map_err(|e| engine_error(url, e))
}

impl Volume {
    /// Opens a volume that exists, and checks that this program may serve it.
    pub fn open(url: &MetaUrl) -> Result<Volume, VolumeError> {
        // Looked at first, so that asking for a volume where there is none makes nothing.
        if stored_settings(url)?.is_none() {
            return Err(VolumeError::NotFormatted(url.to_string()));
        }
        let world = bare_world();
        let engine = open_engine(url, &world)?;
        let mut settings = read_settings(url, &engine)?;
        settings.check().map_err(|error| VolumeError::Settings { url: url.to_string(), error })?;
        secrets::show(&mut settings).map_err(|error| VolumeError::Secret { url: url.to_string(), error })?;
        Ok(Volume { url: url.clone(), engine: Arc::new(engine), settings, world })
    }

    /// Opens the store of the volume's objects, and gives the world with it.
    pub fn world(&self) -> Result<World, VolumeError> {
        let store = open_store(&self.url, &self.settings)?;
        Ok(World { objects: Arc::new(store), ..self.world.clone() })
    }

    /// The records, as everybody knows them.
    #[must_use]
    pub fn records(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine) as _
    }
}

fn read_settings(url: &MetaUrl, engine: &EmbeddedEngine) -> Result<Settings, VolumeError> {
    let found = engine.read_now(&[Key::Setting]).map_err(VolumeError::records(url))?;
    match found.into_iter().next().flatten() {
        Some(Record::Bytes(bytes)) => parse(url, &bytes),
        _ => Err(VolumeError::NotFormatted(url.to_string())),
    }
}

/// Opens the store that settings name. A directory of objects beside the records wins over the path that is
/// written in the settings when it holds this very volume: a volume that was moved, or copied, must not reach
/// into the place it came from.
pub fn open_store(url: &MetaUrl, settings: &Settings) -> Result<Store, VolumeError> {
    let wrong = |error| VolumeError::Store { url: url.to_string(), error };
    let beside = url.objects();
    if matches!(settings.storage.as_str(), "" | "file") && holds(&beside, settings) {
        if !same(&beside, Path::new(&settings.bucket)) {
            tracing::info!(
                "objects are taken from {}, beside the records, not from {}",
                beside.display(),
                settings.bucket
            );
        }
        return objects::open_directory(&beside).map_err(wrong);
    }
    objects::open(settings).map_err(wrong)
}

fn holds(folder: &Path, settings: &Settings) -> bool {
    let uuid = std::fs::read(folder.join(&settings.name).join("juicefs_uuid"));
    uuid.is_ok_and(|uuid| uuid == settings.uuid.as_bytes())
}

fn same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok() == other.canonicalize().ok()
}
