//! `zest restore META-URL HOUR…`: trees that were removed in an hour are put together in the trash, and with
//! `--put-back` returned to where they were. What could not be moved is counted, and the status says so.

use super::{block_on, meta_url};
use crate::volume::Volume;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use zest_metadata::restore::{Restored, restore};
use zest_types::{FileType, Ino, Name, limits};
use zest_upkeep::quota::recount;
use zest_upkeep::reclaim::rules;
use zest_upkeep::trash::hour_of;
use zest_upkeep::whole::Whole;

/// Arguments of `restore`.
#[derive(Args)]
pub(super) struct RestoreArgs {
    /// The volume: a directory, or the URL of a metadata server.
    #[arg(value_name = "META-URL")]
    url: String,
    /// Directories of the trash: YYYY-MM-DD-HH, in UTC.
    #[arg(value_name = "HOUR", required = true)]
    hours: Vec<String>,
    /// Move what was removed back to where it was.
    #[arg(long)]
    put_back: bool,
    /// Workers: one does it.
    #[arg(long, value_name = "N", hide = true)]
    threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl RestoreArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        if !rustix::process::geteuid().is_root() {
            bail!("only root can restore files from the trash");
        }
        if let Some(bad) = self.hours.iter().find(|hour| hour_of(hour.as_bytes()).is_none()) {
            bail!("{bad:?} is no hour of the trash: write it as YYYY-MM-DD-HH, in UTC");
        }
        let url = meta_url(&self.url)?;
        let done = block_on(async {
            let volume = Volume::open(&url).await?;
            let (whole, statistics) = (volume.whole()?, volume.settings.dir_stats);
            let mut done = Vec::new();
            for hour in &self.hours {
                done.push(
                    self.hour(&whole, hour, statistics)
                        .await
                        .with_context(|| format!("volume {url}: {hour}")),
                );
            }
            volume.records().sync().await?;
            Ok(done)
        })?;
        let (mut failed, mut all) = (0, Vec::new());
        for (hour, done) in self.hours.iter().zip(done) {
            match done {
                Ok(done) => {
                    failed += usize::from(done.stayed > 0);
                    if self.json {
                        all.push(shown(hour, done));
                    } else {
                        crate::log::say(&line(hour, done));
                    }
                }
                Err(error) => {
                    failed += 1;
                    crate::log::tell(&format!("{error:#}"));
                }
            }
        }
        if self.json {
            crate::log::say(&format!("{:#}", Value::Array(all)));
        }
        match failed {
            0 => Ok(()),
            failed => Err(anyhow!("volume {url}: not everything of {failed} hours could be restored")),
        }
    }

    async fn hour(&self, whole: &Whole, hour: &str, statistics: bool) -> anyhow::Result<Restored> {
        let name = Name::new(hour.as_bytes()).map_err(|_| anyhow!("no such hour"))?;
        let dir = whole.entry(Ino::TRASH, name).await?;
        let dir = dir.ok_or_else(|| anyhow!("nothing was removed then, or it is gone for good"))?;
        let rules = rules(whole);
        rules.look_for_quotas().await.map_err(|errno| anyhow!("{}", errno.text()))?;
        let directories = directories(whole, dir).await?;
        let done = restore(&rules, dir, self.put_back).await.map_err(|errno| anyhow!("{}", errno.text()))?;
        // Their statistics went when they were removed.
        for dir in directories.into_iter().filter(|_| statistics) {
            recount(whole, &rules, dir).await?;
        }
        Ok(done)
    }
}

/// Directories among the entries of an hour.
async fn directories(whole: &Whole, hour: Ino) -> anyhow::Result<Vec<Ino>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let batch = whole.entries(hour, after).await?;
        let complete = batch.len() < limits::READDIR_BATCH;
        after = batch.last().map(|(name, ..)| name.clone());
        let dirs = batch.into_iter().filter(|(_, kind, _)| *kind == FileType::Directory);
        all.extend(dirs.map(|(_, _, ino)| ino));
        if complete {
            return Ok(all);
        }
    }
}

fn line(hour: &str, done: Restored) -> String {
    let Restored { rebuilt, back, stayed } = done;
    format!("{hour}: {rebuilt} rebuilt, {back} put back, {stayed} could not be moved")
}

fn shown(hour: &str, done: Restored) -> Value {
    json!({ "Hour": hour, "Rebuilt": done.rebuilt, "PutBack": done.back, "Failed": done.stayed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_said() {
        let done = Restored { rebuilt: 3, back: 2, stayed: 1 };
        assert_eq!(line("2026-01-01-00", done), "2026-01-01-00: 3 rebuilt, 2 put back, 1 could not be moved");
        assert_eq!(shown("h", done)["Failed"], 1);
    }
}
