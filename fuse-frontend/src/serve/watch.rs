//! The heartbeat's second half, on volumes that others use, too: is the volume still there and the same, which
//! settings has it now, and may its server still be trusted? What follows is done by the mount.

use super::ending::Event;
use super::traffic::Limits;
use crate::meta_url::MetaUrl;
use crate::safety::{Finding, Verdict, Weight, verdict};
use crate::volume::{Backing, VolumeError};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::Duration;
use zest_metadata::{EngineError, Key, Record};
use zest_types::volume::Settings;
use zest_vfs::Mount;
use zest_vfs::standing::{Standing, standing};

/// Looks after a mount for as long as it lives.
pub(super) struct Watch {
    pub(super) url: MetaUrl,
    pub(super) backing: Backing,
    pub(super) mount: Weak<Mount>,
    /// The limits of its traffic.
    pub(super) limits: Limits,
    /// Settings the mount works by, as they are stored.
    pub(super) settings: Settings,
    /// What was said of the server already.
    pub(super) told: Vec<Finding>,
    /// The user insists on this server.
    pub(super) forced: bool,
    pub(super) events: Sender<Event>,
}

impl Watch {
    /// Looks again and again; ends with the mount.
    pub(super) async fn run(mut self, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let Some(mount) = self.mount.upgrade() else { return };
            if !self.look(&mount).await {
                return;
            }
            if let Err(error) = self.judge(&mount).await {
                tracing::warn!("{}: the metadata server could not be asked how it is: {error}", self.url);
            }
        }
    }

    /// Compares the settings; `false` when the mount must end.
    async fn look(&mut self, mount: &Arc<Mount>) -> bool {
        let found = match self.record().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("{}: the settings could not be read: {error}; trying again", self.url);
                return true;
            }
        };
        match standing(&self.settings, found.as_deref()) {
            Standing::Same => true,
            Standing::Changed(new) => {
                tracing::info!("{}: the settings of the volume were changed", self.url);
                mount.take_settings(&new);
                self.limits.take(&new);
                self.settings = *new;
                true
            }
            Standing::Over(why) => {
                let _ = self.events.send(Event::Over(why));
                false
            }
        }
    }

    async fn record(&self) -> Result<Option<Vec<u8>>, EngineError> {
        let found = self.backing.engine().read(&[Key::Setting]).await?;
        Ok(found.into_iter().next().flatten().and_then(|record| match record {
            Record::Bytes(bytes) => Some(bytes),
            _ => None,
        }))
    }

    /// Asks the server how it is. While it may lose data nothing is changed.
    async fn judge(&mut self, mount: &Arc<Mount>) -> Result<(), VolumeError> {
        let findings = self.backing.findings(&self.url).await?;
        self.tell(&findings);
        let live = &mount.vfs.shared().live;
        match verdict(&findings, self.forced) {
            Verdict::Sound => {
                if live.freeze(false) {
                    tracing::warn!("{}: changes are taken again", self.url);
                }
            }
            Verdict::ReadOnly(finding) | Verdict::Refused(finding) => {
                if live.freeze(true) {
                    tracing::error!("{}: nothing can be changed for now: {finding}", self.url);
                }
            }
        }
        self.told = findings;
        Ok(())
    }

    /// Names what is new.
    fn tell(&self, findings: &[Finding]) {
        let known = |new: &Finding| self.told.iter().any(|old| (old.id, old.weight) == (new.id, new.weight));
        findings.iter().filter(|finding| !known(finding)).for_each(|finding| tell(&self.url, finding));
    }
}

/// Puts a finding into the log.
pub(super) fn tell(url: &MetaUrl, finding: &Finding) {
    match finding.weight {
        Weight::Note => tracing::info!("{url}: {finding}"),
        Weight::Warning => tracing::warn!("{url}: {finding}"),
        _ => tracing::error!("{url}: {finding}"),
    }
}
