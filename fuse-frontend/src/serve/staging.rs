//! Blocks of a mount that wait on a local disk: where they are looked for, and what is said of them.

use crate::volume::Volume;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zest_data::BlockNames;
use zest_host::LocalDisk;
use zest_types::volume::Settings;
use zest_uploader::staging::{Bounds, Patience, StagingError, StagingStats, Tally};
use zest_uploader::{Staging, StagingOptions};
use zest_world::{Disk, World};

/// Where blocks wait, and until when.
#[derive(Clone, Debug)]
pub struct StagingPlan {
    /// Directories of the local cache; new blocks wait in the first.
    pub dirs: Vec<PathBuf>,
    /// New blocks are staged; otherwise what is there is finished.
    pub stage: bool,
    /// Only blocks of fewer bytes; 0: all.
    pub below: u32,
    /// What holds uploads back.
    pub patience: Patience,
    /// How much may wait.
    pub bounds: Bounds,
    /// Uploads under way at once.
    pub uploads: usize,
}

/// The file systems that forget everything when the power goes.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

fn has_journal(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("journal-"))
}

/// Opens what is staged of this volume; `None` where nothing is and nothing shall be.
pub(super) fn open(
    plan: &StagingPlan,
    volume: &Volume,
    world: &World,
) -> anyhow::Result<Option<Arc<Staging>>> {
    let settings = &volume.settings;
    let own: Vec<PathBuf> = plan.dirs.iter().map(|dir| dir.join(&settings.uuid).join("staging")).collect();
    let others: Vec<Arc<dyn Disk>> = plan
        .dirs
        .iter()
        .filter_map(|dir| LocalDisk::open(&dir.join(&settings.uuid).join("rawstaging")).ok())
        .map(|disk| Arc::new(disk) as Arc<dyn Disk>)
        .collect();
    let mut left = own.iter().filter(|dir| has_journal(dir));
    let Some(place) = left.next().or_else(|| own.first().filter(|_| plan.stage || !others.is_empty())) else {
        return Ok(None);
    };
    for more in left {
        tracing::warn!(
            "blocks are staged in {}, too: mount with that directory first to finish them",
            more.display()
        );
    }
    if plan.stage {
        check(place.parent().and_then(Path::parent).unwrap_or(place))?;
    }
    match begin(plan, settings, world, place, others) {
        Ok(staging) => {
            let waiting = staging.stats().waiting;
            if waiting.blocks > 0 {
                tracing::info!("{} staged blocks wait in {}", waiting.blocks, place.display());
            }
            Ok(Some(staging))
        }
        // The other mount finishes what is there.
        Err(StagingError::InUse) if !plan.stage => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} can't hold staged blocks", place.display())),
    }
}

fn begin(
    plan: &StagingPlan,
    settings: &Settings,
    world: &World,
    place: &Path,
    others: Vec<Arc<dyn Disk>>,
) -> Result<Arc<Staging>, StagingError> {
    let what = || place.display().to_string();
    let disk = LocalDisk::create(place).map_err(|error| StagingError::Disk { what: what(), error })?;
    // Directories may be new, and what is in them is worth nothing without their names.
    for dir in place.ancestors().skip(1).take(3) {
        let synced = std::fs::File::open(dir).map_or(Ok(()), |dir| dir.sync_all());
        synced.map_err(|error| StagingError::Disk { what: dir.display().to_string(), error })?;
    }
    let names = BlockNames {
        volume: settings.name.clone(),
        hash_prefix: settings.hash_prefix,
        block_size: settings.block_size(),
    };
    let options = StagingOptions {
        disk: Arc::new(disk),
        place: what(),
        uuid: settings.uuid.clone(),
        names,
        others,
        stage: plan.stage,
        below: plan.below,
        patience: plan.patience,
        bounds: plan.bounds,
        uploads: plan.uploads,
    };
    Staging::open(world.clone(), options)
}

/// A disk in memory can't keep what is promised.
fn check(dir: &Path) -> anyhow::Result<()> {
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir);
    let found = rustix::fs::statfs(existing);
    if found.is_ok_and(|found| IN_MEMORY.contains(&found.f_type)) {
        bail!(
            "{} is in memory, where nothing survives a power cut: name a directory on a disk with --cache-dir",
            dir.display()
        );
    }
    Ok(())
}

/// What waits of a file, as JSON.
pub(super) fn shown(tally: Tally) -> Value {
    json!({ "blocks": tally.blocks, "bytes": tally.bytes })
}

/// What waits and what is wrong, as JSON.
pub(super) fn report(stats: &StagingStats, place: &str) -> String {
    let report = json!({
        "place": place, "waiting": shown(stats.waiting), "damaged": shown(stats.damaged),
        "uploaded": stats.uploaded, "direct": stats.direct,
    });
    report.to_string()
}

/// What waits, in words.
pub(super) fn words(staging: &Staging) -> String {
    let waiting = staging.stats().waiting;
    format!(
        "{} blocks with {} MiB wait in {}",
        waiting.blocks,
        waiting.bytes.div_ceil(1 << 20),
        staging.place()
    )
}
