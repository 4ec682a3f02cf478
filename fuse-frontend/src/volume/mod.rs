//! A volume: its records behind an engine, its settings, its objects. Everything the command line does to a volume
//! begins here.

pub mod backing;
pub mod codec;
pub mod create;
pub mod error;
pub mod gate;
pub mod status;
pub mod update;
pub mod whole;

pub use backing::{Backing, KeptRecords};
pub use error::VolumeError;

use crate::meta_url::MetaUrl;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zest_data::BlockCodec;
use zest_host::objects::{self, Store};
use zest_host::secrets;
use zest_metadata::Engine;
use zest_types::volume::Settings;
use zest_world::World;

/// A volume, open.
pub struct Volume {
    /// Where it is.
    pub url: MetaUrl,
    /// Its records.
    pub backing: Backing,
    /// Its settings as they are stored.
    pub stored: Settings,
    /// Its settings; secrets in plain text.
    pub settings: Settings,
    world: World,
}

/// A world for records alone, before it is known where objects are.
fn bare_world() -> World {
    zest_host::world(Arc::new(Store::memory()))
}

/// The settings of the volume at this place, as they are stored, whether or not somebody uses it; `None` where
/// there is no volume.
pub async fn stored_settings(url: &MetaUrl) -> Result<Option<Settings>, VolumeError> {
    match url {
        MetaUrl::Local(place) => backing::label(place),
        MetaUrl::Redis(_) => Backing::open(url, &bare_world(), None).await?.settings(url).await,
    }
}

impl Volume {
    /// Opens a volume that exists, and checks that this program can read it.
    pub async fn open(url: &MetaUrl) -> Result<Volume, VolumeError> {
        Volume::open_kept(url, None).await
    }

    /// The same, of which some outlives this process.
    pub async fn open_kept(url: &MetaUrl, kept: Option<KeptRecords>) -> Result<Volume, VolumeError> {
        let not_formatted = || VolumeError::NotFormatted(url.to_string());
        // Looked at first, so that asking for a volume in a directory where there is none makes nothing.
        if let MetaUrl::Local(place) = url
            && backing::label(place)?.is_none()
        {
            return Err(not_formatted());
        }
        let world = bare_world();
        let backing = Backing::open(url, &world, kept).await?;
        let stored = backing.settings(url).await?.ok_or_else(not_formatted)?;
        stored.check().map_err(|error| VolumeError::Settings { url: url.to_string(), error })?;
        let mut settings = stored.clone();
        secrets::show(&mut settings).map_err(|error| VolumeError::Secret { url: url.to_string(), error })?;
        Ok(Volume { url: url.clone(), backing, stored, settings, world })
    }

    /// Opens the store of the volume's objects, and gives the world with it.
    pub fn world(&self) -> Result<World, VolumeError> {
        self.world_within(objects::PATIENCE)
    }

    /// The same, where a request over a network may take so long.
    pub fn world_within(&self, patience: Duration) -> Result<World, VolumeError> {
        let store = open_store(&self.url, &self.settings, patience)?;
        Ok(World { objects: Arc::new(store), ..self.world.clone() })
    }

    /// What encodes and decodes the volume's objects.
    pub fn codec(&self) -> Result<Arc<BlockCodec>, VolumeError> {
        codec::open(&self.url, &self.settings).map(Arc::new)
    }

    /// The records, as everybody knows them.
    #[must_use]
    pub fn records(&self) -> Arc<dyn Engine> {
        self.backing.engine()
    }
}

/// Whether objects are files in a directory.
fn is_directory(settings: &Settings) -> bool {
    matches!(settings.storage.as_str(), "" | "file")
}

/// Opens the store that settings name. A directory of objects beside the records wins over the path that is
/// written in the settings when it holds this very volume: a volume that was moved, or copied, must not reach
/// into the place it came from.
pub fn open_store(url: &MetaUrl, settings: &Settings, patience: Duration) -> Result<Store, VolumeError> {
    let wrong = |error| VolumeError::Store { url: url.to_string(), error };
    let one = is_directory(settings) && settings.shards <= 1;
    let beside = url.local().map(|place| place.objects()).filter(|_| one);
    if let Some(beside) = beside.filter(|beside| codec::holds(beside, settings)) {
        if !same(&beside, Path::new(&settings.bucket)) {
            tracing::info!(
                "objects are taken from {}, beside the records, not from {}",
                beside.display(),
                settings.bucket
            );
        }
        return objects::open_directory(&beside).map_err(wrong);
    }
    // MinIO is S3 with the bucket in the path, which is how an address with a path is read anyway.
    let storage = if settings.storage == "minio" { "s3".into() } else { settings.storage.clone() };
    objects::open(&Settings { storage, ..settings.clone() }, patience).map_err(wrong)
}

fn same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok() == other.canonicalize().ok()
}
