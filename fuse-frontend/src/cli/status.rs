//! `zest status META-URL`: a volume's settings, sessions and usage. A volume in use is asked about at the process
//! that has it.

use crate::control;
use crate::meta_url::MetaUrl;
use crate::volume::{Volume, VolumeError, status};
use clap::Args;

/// Arguments of `status`.
#[derive(Args)]
pub(super) struct StatusArgs {
    /// The volume: a directory.
    #[arg(value_name = "META-URL")]
    url: MetaUrl,
}

impl StatusArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let text = match Volume::open(&self.url) {
            Ok(volume) => status::report(&volume.engine, &volume.settings)?,
            Err(in_use @ VolumeError::InUse { .. }) => control::volume_name(&self.url.meta())
                .ok()
                .and_then(|name| control::ask(&name, "status"))
                .ok_or(in_use)?,
            Err(error) => return Err(error.into()),
        };
        println!("{text}");
        Ok(())
    }
}
