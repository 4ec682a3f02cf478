//! Making a volume, and changing the settings of one. Source: volume format, rules on creation and update.

use super::{VolumeError, bare_world, open_engine, open_store, read_settings, stored_settings};
use crate::meta_url::MetaUrl;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use zest_engines::EmbeddedEngine;
use zest_host::objects::{Store, make_bucket};
use zest_host::{LocalDisk, RealChance, RealClock, probe, secrets};
use zest_metadata::{ChangeSet, CommitError, Engine, EngineError, Expect, Key, Record, Write, format};
use zest_types::Ino;
use zest_types::volume::Settings;
use zest_world::{Clock, ObjectError, Objects};

/// Whether a volume can be made here: nothing there, an empty directory, or one that only a volume's parts are in.
fn check_place(url: &MetaUrl) -> Result<(), VolumeError> {
    let entries = match std::fs::read_dir(&url.path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(VolumeError::Place { url: url.to_string(), error }),
    };
    let stranger =
        entries.flatten().find(|entry| entry.file_name() != "meta" && entry.file_name() != "objects");
    match stranger {
        Some(_) => Err(VolumeError::Occupied(url.to_string())),
        None => Ok(()),
    }
}

/// Tries the store, and makes the bucket where it is missing.
async fn check_store(url: &MetaUrl, settings: &Settings, store: &Arc<Store>) -> Result<(), VolumeError> {
    let chance = RealChance::new();
    let wrong = VolumeError::probe(url, settings);
    let objects: Arc<dyn Objects> = Arc::clone(store) as _;
    match probe::works(Arc::clone(&objects), &chance, &settings.name).await {
        Err(probe::ProbeError::Failed { error: ObjectError::Refused { why, .. }, .. })
            if settings.storage == "s3" && why.contains("bucket does not exist") =>
        {
            make_bucket(settings)
                .await
                .map_err(|error| VolumeError::Store { url: url.to_string(), error })?;
            probe::works(objects, &chance, &settings.name).await.map_err(wrong)
        }
        outcome => outcome.map_err(wrong),
    }
}

/// Makes a volume where there is none. `settings` have their secrets in plain text. With `force` objects of
/// another volume of this name are no hindrance; `check` tries the store first.
pub async fn create(url: &MetaUrl, settings: &Settings, force: bool, check: bool) -> Result<(), VolumeError> {
    settings.check().map_err(|error| VolumeError::Settings { url: url.to_string(), error })?;
    if !force {
        check_place(url)?;
    }
    if matches!(settings.storage.as_str(), "" | "file") {
        std::fs::create_dir_all(&settings.bucket)
            .map_err(|error| VolumeError::Place { url: settings.bucket.clone(), error })?;
    }
    let store = Arc::new(open_store(url, settings)?);
    if check {
        check_store(url, settings, &store).await?;
        if matches!(settings.storage.as_str(), "" | "file") {
            // What a test object leaves of itself in a directory; fails where there is more in it.
            let _ = std::fs::remove_dir(Path::new(&settings.bucket).join(&settings.name).join("testing"));
        }
    }
    if !force {
        probe::is_free(Arc::clone(&store) as _, &settings.name)
            .await
            .map_err(VolumeError::probe(url, settings))?;
    }
    let mark = format!("{}/juicefs_uuid", settings.name);
    store.put(&mark, Bytes::from(settings.uuid.clone())).await.map_err(|error| {
        VolumeError::probe(url, settings)(probe::ProbeError::Failed { verb: "written", error })
    })?;
    let made = write_records(url, settings).await;
    if made.is_err() {
        // Nothing refers to it; if it stays, the next format says so.
        let _ = store.delete(&mark).await;
    }
    made
}

async fn write_records(url: &MetaUrl, settings: &Settings) -> Result<(), VolumeError> {
    let place = |error| VolumeError::Place { url: url.to_string(), error };
    LocalDisk::create(&url.meta()).map_err(place)?;
    let engine = open_engine(url, &bare_world())?;
    let changes = format::new_volume(hidden(url, settings)?, settings.trash_days > 0, RealClock::new().now());
    commit(url, &engine, &changes).await
}

fn hidden(url: &MetaUrl, settings: &Settings) -> Result<Vec<u8>, VolumeError> {
    let mut settings = settings.clone();
    secrets::hide(&mut settings).map_err(|error| VolumeError::Secret { url: url.to_string(), error })?;
    Ok(settings.to_json())
}

async fn commit(url: &MetaUrl, engine: &EmbeddedEngine, changes: &ChangeSet) -> Result<(), VolumeError> {
    let wrong = VolumeError::records(url);
    match engine.commit(changes).await {
        Ok(_) => {}
        Err(CommitError::Conflict(_)) => return Err(VolumeError::Changed(url.to_string())),
        Err(CommitError::Unknown(why)) => return Err(wrong(EngineError::Failed(why))),
        Err(CommitError::Engine(error)) => return Err(wrong(error)),
    }
    engine.sync().await.map_err(wrong)
}

/// Replaces the settings of a volume by `change` of them, made from settings with secrets in plain text. Gives
/// the settings as they are now, secrets in plain text.
pub async fn update(
    url: &MetaUrl,
    change: impl FnOnce(&Settings) -> Result<Settings, VolumeError>,
) -> Result<Settings, VolumeError> {
    if stored_settings(url)?.is_none() {
        return Err(VolumeError::NotFormatted(url.to_string()));
    }
    let engine = open_engine(url, &bare_world())?;
    let stored = engine.read_now(&[Key::Setting]).map_err(VolumeError::records(url))?;
    let Some(Some(before)) = stored.into_iter().next() else {
        return Err(VolumeError::NotFormatted(url.to_string()));
    };
    let mut old = read_settings(url, &engine)?;
    secrets::show(&mut old).map_err(|error| VolumeError::Secret { url: url.to_string(), error })?;
    let new = change(&old)?;
    new.check().map_err(|error| VolumeError::Settings { url: url.to_string(), error })?;
    if new == old {
        return Ok(new);
    }
    let mut changes = ChangeSet {
        expect: vec![Expect::Same(Key::Setting, before)],
        write: vec![Write::Put(Key::Setting, Record::Bytes(hidden(url, &new)?))],
    };
    let trash = engine.read_now(&[Key::Attr(Ino::TRASH)]).map_err(VolumeError::records(url))?;
    if new.trash_days > 0 && trash.iter().all(Option::is_none) {
        changes.expect.push(Expect::Absent(Key::Attr(Ino::TRASH)));
        changes.write.push(Write::Put(Key::Attr(Ino::TRASH), format::trash_root(RealClock::new().now())));
    }
    commit(url, &engine, &changes).await?;
    Ok(new)
}
