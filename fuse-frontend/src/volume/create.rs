//! Making a volume. Source: volume format, rules on creation and update.

use super::update::{commit, hidden};
use super::{Backing, VolumeError, bare_world, codec, is_directory, open_store};
use crate::meta_url::{LocalPlace, MetaUrl};
use crate::safety::{Verdict, verdict};
use std::path::Path;
use std::sync::Arc;
use zest_host::objects::{Store, buckets, make_bucket};
use zest_host::{LocalDisk, RealChance, RealClock, probe};
use zest_metadata::{ChangeSet, format};
use zest_types::volume::Settings;
use zest_world::{Clock, ObjectError, Objects};

/// How a volume is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Creation {
    /// Objects of another volume of this name, or other things in the directory, are no hindrance.
    pub force: bool,
    /// The object store is tried first.
    pub check: bool,
    /// A metadata server that loses data is no hindrance.
    pub unsafe_engine: bool,
}

/// Whether a volume can be made here: nothing there, an empty directory, or one that only a volume's parts are in.
fn check_place(place: &LocalPlace) -> Result<(), VolumeError> {
    let url = || place.path.display().to_string();
    let entries = match std::fs::read_dir(&place.path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(VolumeError::Place { url: url(), error }),
    };
    let stranger =
        entries.flatten().find(|entry| entry.file_name() != "meta" && entry.file_name() != "objects");
    match stranger {
        Some(_) => Err(VolumeError::Occupied(url())),
        None => Ok(()),
    }
}

/// Whether a server may hold a volume; what else speaks against it is told.
pub(crate) async fn check_server(
    url: &MetaUrl,
    backing: &Backing,
    unsafe_engine: bool,
) -> Result<(), VolumeError> {
    let findings = backing.findings(url).await?;
    if let Verdict::Refused(finding) | Verdict::ReadOnly(finding) = verdict(&findings, unsafe_engine) {
        return Err(VolumeError::Unsafe { url: url.to_string(), finding: Box::new(finding.clone()) });
    }
    findings.iter().for_each(|finding| tracing::warn!("{url}: {finding}"));
    Ok(())
}

/// Tries the store, and makes the bucket where it is missing.
pub(super) async fn check_store(
    url: &MetaUrl,
    settings: &Settings,
    store: &Arc<Store>,
) -> Result<(), VolumeError> {
    let chance = RealChance::new();
    let wrong = VolumeError::probe(url, settings);
    let objects: Arc<dyn Objects> = Arc::clone(store) as _;
    let outcome = match probe::works(Arc::clone(&objects), &chance, &settings.name).await {
        Err(probe::ProbeError::Failed { error: ObjectError::Refused { why, .. }, .. })
            if !is_directory(settings) && why.contains("bucket does not exist") =>
        {
            make_bucket(settings)
                .await
                .map_err(|error| VolumeError::Store { url: url.to_string(), error })?;
            probe::works(objects, &chance, &settings.name).await.map_err(wrong)
        }
        outcome => outcome.map_err(wrong),
    };
    if is_directory(settings) {
        // What a test object leaves of itself in a directory; fails where there is more in it.
        for bucket in buckets(settings).unwrap_or_default() {
            let _ = std::fs::remove_dir(Path::new(&bucket).join(&settings.name).join("testing"));
        }
    }
    outcome
}

/// Makes a volume where there is none. `settings` have their secrets in plain text.
pub async fn create(url: &MetaUrl, settings: &Settings, how: Creation) -> Result<(), VolumeError> {
    settings.check().map_err(|error| VolumeError::Settings { url: url.to_string(), error })?;
    let (mark, uuid) = codec::mark(url, settings)?;
    let all = buckets(settings).map_err(|error| VolumeError::Store { url: url.to_string(), error })?;
    match url.local() {
        Some(place) if !how.force => check_place(place)?,
        Some(_) => {}
        None => {
            let server = Backing::open(url, &bare_world(), None).await?;
            check_server(url, &server, how.unsafe_engine).await?;
        }
    }
    if is_directory(settings) {
        for bucket in all {
            std::fs::create_dir_all(&bucket).map_err(|error| VolumeError::Place { url: bucket, error })?;
        }
    }
    let store = Arc::new(open_store(url, settings, zest_host::objects::PATIENCE)?);
    if how.check {
        check_store(url, settings, &store).await?;
    }
    if !how.force {
        probe::is_free(Arc::clone(&store) as _, &settings.name)
            .await
            .map_err(VolumeError::probe(url, settings))?;
    }
    store.put(&mark, uuid).await.map_err(|error| {
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
    if let Some(place) = url.local() {
        let broken = |error| VolumeError::Place { url: url.to_string(), error };
        LocalDisk::create(&place.meta()).map_err(broken)?;
    }
    let backing = Backing::open(url, &bare_world(), None).await?;
    let changes = first_records(&backing, hidden(url, settings)?, settings.trash_days > 0);
    commit(url, &*backing.engine(), &changes).await
}

/// The first records of a volume. On Redis a counter that is missing stands for its beginning.
fn first_records(backing: &Backing, setting: Vec<u8>, trash: bool) -> ChangeSet {
    let counters = !matches!(backing, Backing::Redis { .. });
    format::new_volume(setting, trash, counters, RealClock::new().now())
}
