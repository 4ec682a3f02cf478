//! `zest status META-URL`: a volume's settings, sessions and usage. A volume in use is asked about at the process
//! that has it.

use super::meta_url;
use crate::control;
use crate::volume::{Volume, VolumeError, status};
use clap::Args;

/// Arguments of `status`.
#[derive(Args)]
pub(super) struct StatusArgs {
    /// The volume: a directory.
    #[arg(value_name = "META-URL")]
    url: String,
}

impl StatusArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let url = meta_url(&self.url)?;
        let text = match Volume::open(&url) {
            Ok(volume) => status::report(&volume.engine, &volume.settings)?,
            Err(in_use @ VolumeError::InUse { .. }) => control::volume_name(&url.meta())
                .ok()
                .and_then(|name| control::ask(&name, "status"))
                .ok_or(in_use)?,
            Err(error) => return Err(error.into()),
        };
        crate::log::say(&text);
        Ok(())
    }
}
