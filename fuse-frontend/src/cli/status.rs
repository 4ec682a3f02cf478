//! `zest status META-URL`: a volume's settings, sessions and usage, and what speaks against its server. A directory in
//! use is asked about at the process that has it; so is a mount, which tells its own figures, too.

use super::{block_on, meta_url};
use crate::mount_table::{MountEntry, mounted_at, table_path};
use crate::volume::{Volume, VolumeError, status};
use crate::{control, mount_table};
use anyhow::anyhow;
use clap::Args;
use serde_json::Value;
use std::path::Path;

/// Arguments of `status`.
#[derive(Args)]
pub(super) struct StatusArgs {
    /// The volume: a directory, or the URL of a metadata server; or where it is mounted on this machine.
    #[arg(value_name = "META-URL")]
    url: String,
    /// Show one session, with the removed files it holds open.
    #[arg(short, long, value_name = "SID", default_value_t = 0, hide_default_value = true)]
    session: u64,
    /// Count the trash, too: not in this version.
    #[arg(short, long, hide = true)]
    more: bool,
    /// Print JSON, as always.
    #[arg(long, hide = true)]
    json: bool,
}

/// What a mount says of itself, where one of ours is at this path.
fn of_mount(path: &str) -> Option<String> {
    let place = table_path(Path::new(path)).ok()?;
    let entry = mounted_at(&place).ok()?.filter(MountEntry::is_zest)?;
    control::ask(&control::mount_name(&entry.device), "status")
}

impl StatusArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        if self.more {
            tracing::warn!("--more is not supported yet: trash and pending removals are not counted");
        }
        if let Some(text) = of_mount(&self.url) {
            crate::log::say(&text);
            return Ok(());
        }
        let url = meta_url(&self.url)?;
        let text = block_on(async {
            match Volume::open(&url).await {
                Ok(volume) if self.session != 0 => {
                    let found = status::one_session(&*volume.records(), self.session).await?;
                    found.ok_or_else(|| {
                        anyhow!("volume {url} has no session {}: see zest status {url}", self.session)
                    })
                }
                Ok(volume) => {
                    let findings = volume.backing.findings(&url).await?;
                    let mounts = mounts(&volume.settings.uuid);
                    Ok(status::report(&*volume.records(), &volume.settings, findings, mounts).await?)
                }
                Err(in_use @ VolumeError::InUse { .. }) => url
                    .local()
                    .and_then(|place| control::volume_name(&place.meta()).ok())
                    .and_then(|name| control::ask(&name, "status"))
                    .ok_or_else(|| in_use.into()),
                Err(error) => Err(error.into()),
            }
        })?;
        crate::log::say(&text);
        Ok(())
    }
}

/// What mounts of this volume on this machine say of their metadata server.
fn mounts(uuid: &str) -> Vec<Value> {
    let ours = mount_table::ours().unwrap_or_default();
    let said = ours.iter().filter_map(|entry| control::ask(&control::mount_name(&entry.device), "health"));
    said.filter_map(|text| serde_json::from_str::<Value>(&text).ok())
        .filter(|said| said.get("UUID").and_then(Value::as_str) == Some(uuid))
        .collect()
}
