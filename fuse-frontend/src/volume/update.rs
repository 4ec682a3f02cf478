//! Changing the settings of a volume. Source: volume format, rules on creation and update.

use super::codec::{self, holds};
use super::create::check_store;
use super::{Backing, VolumeError, bare_world, is_directory, open_store, same, stored_settings};
use crate::meta_url::MetaUrl;
use std::path::Path;
use std::sync::Arc;
use zest_host::{RealClock, secrets};
use zest_metadata::{ChangeSet, CommitError, Engine, EngineError, Expect, Key, Record, Write, format};
use zest_types::Ino;
use zest_types::volume::Settings;
use zest_world::Clock;

/// The settings record, its secrets hidden.
pub(super) fn hidden(url: &MetaUrl, settings: &Settings) -> Result<Vec<u8>, VolumeError> {
    let mut settings = settings.clone();
    secrets::hide(&mut settings).map_err(|error| VolumeError::Secret { url: url.to_string(), error })?;
    Ok(settings.to_json())
}

pub(super) async fn commit(
    url: &MetaUrl,
    engine: &dyn Engine,
    changes: &ChangeSet,
) -> Result<(), VolumeError> {
    let wrong = VolumeError::records(url);
    match engine.commit(changes).await {
        Ok(_) => {}
        Err(CommitError::Conflict(_)) => return Err(VolumeError::Changed(url.to_string())),
        Err(CommitError::Unknown(why)) => return Err(wrong(EngineError::Failed(why))),
        Err(CommitError::Engine(error)) => return Err(wrong(error)),
    }
    engine.sync().await.map_err(wrong)
}

/// Where objects are, and with which keys.
fn store_of(settings: &Settings) -> [&str; 5] {
    let Settings { storage, bucket, access_key, secret_key, session_token, .. } = settings;
    [storage, bucket, access_key, secret_key, session_token].map(String::as_str)
}

/// A directory of objects beside the records is used whatever the settings say: another one can't be named.
fn stays_beside(url: &MetaUrl, new: &Settings) -> Result<(), VolumeError> {
    let beside = url.local().map(|place| place.objects()).filter(|beside| holds(beside, new));
    match beside {
        Some(beside) if is_directory(new) && !same(&beside, Path::new(&new.bucket)) => {
            let why = format!(
                "its objects are beside its records, in {}: move them to {} first",
                beside.display(),
                new.bucket
            );
            Err(VolumeError::Config { url: url.to_string(), why })
        }
        _ => Ok(()),
    }
}

/// Replaces the settings of a volume by `change` of them, made from settings with secrets in plain text. Gives
/// the settings as they were and as they are now, secrets in plain text. With `check` a store that changed is tried.
pub async fn update(
    url: &MetaUrl,
    check: bool,
    change: impl FnOnce(&Settings) -> Result<Settings, VolumeError>,
) -> Result<(Settings, Settings), VolumeError> {
    let not_formatted = || VolumeError::NotFormatted(url.to_string());
    if stored_settings(url).await?.is_none() {
        return Err(not_formatted());
    }
    let backing = Backing::open(url, &bare_world(), None).await?;
    let engine = backing.engine();
    let wrong = VolumeError::records(url);
    let keys = [Key::Setting, Key::Attr(Ino::TRASH)];
    let mut found = engine.read(&keys).await.map_err(wrong)?.into_iter();
    let (Some(Some(before)), trash) = (found.next(), found.next().flatten()) else {
        return Err(not_formatted());
    };
    let Record::Bytes(bytes) = &before else { return Err(not_formatted()) };
    let mut old = super::backing::parse(url, bytes)?;
    secrets::show(&mut old).map_err(|error| VolumeError::Secret { url: url.to_string(), error })?;
    let new = change(&old)?;
    new.check().map_err(|error| VolumeError::Settings { url: url.to_string(), error })?;
    if (&new.encrypt_key, &new.encrypt_algo) != (&old.encrypt_key, &old.encrypt_algo) {
        codec::open(url, &new)?;
    }
    if new == old {
        return Ok((old, new));
    }
    if check && store_of(&old) != store_of(&new) {
        stays_beside(url, &new)?;
        check_store(url, &new, &Arc::new(open_store(url, &new, zest_host::objects::PATIENCE)?)).await?;
    }
    let mut changes = ChangeSet {
        expect: vec![Expect::Same(Key::Setting, before)],
        write: vec![Write::Put(Key::Setting, Record::Bytes(hidden(url, &new)?))],
    };
    if new.trash_days > 0 && trash.is_none() {
        changes.expect.push(Expect::Absent(Key::Attr(Ino::TRASH)));
        changes.write.push(Write::Put(Key::Attr(Ino::TRASH), format::trash_root(RealClock::new().now())));
    }
    commit(url, &*engine, &changes).await?;
    Ok((old, new))
}
