//! Options of the write-back mode: whether blocks wait on a local disk, where, and until when. Source: volume client's
//! options `--writeback`, `--upload-delay`, `--upload-hours`, `--writeback-threshold-size`.

use super::units;
use crate::serve::StagingPlan;
use anyhow::bail;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use zest_types::limits::STAGING_AGE_SECS;
use zest_uploader::staging::{Bounds, Hours, Patience};

/// See the head of the file.
#[derive(Args)]
pub(super) struct StagingArgs {
    /// What is synced on the disk under --cache-dir counts as written, and goes to the object store later. Fast, and
    /// it survives crashes and power cuts of this machine; others see it once it is uploaded.
    #[arg(long)]
    writeback: bool,
    /// With --writeback: only blocks smaller than this wait on the disk; 0 means all.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "0")]
    writeback_threshold_size: u64,
    /// With --writeback: blocks wait at least this long; what is deleted meanwhile is never uploaded.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0")]
    upload_delay: Duration,
    /// With --writeback: blocks go up in these hours of the day only, such as 1-6 or 22,5 [default: always].
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    upload_hours: Option<Hours>,
    /// With --writeback: bytes that may wait on the disk, in GiB or with a unit [default: 20G].
    #[arg(long, value_name = "SIZE", value_parser = units::gib)]
    staging_size: Option<u64>,
}

fn hours(text: &str) -> Result<Hours, String> {
    Hours::parse(text, i64::from(chrono::Local::now().offset().local_minus_utc()))
}

/// Directories of the local cache.
fn directories(given: Option<&str>) -> Vec<PathBuf> {
    let usual = || match (rustix::process::geteuid().is_root(), std::env::var_os("HOME")) {
        (false, Some(home)) => PathBuf::from(home).join(".juicefs/cache"),
        _ => PathBuf::from("/var/jfsCache"),
    };
    match given {
        None | Some("") => vec![usual()],
        Some(list) => {
            let mark = if list.contains(':') { ':' } else { ',' };
            list.split(mark).filter(|dir| !dir.is_empty() && *dir != "memory").map(PathBuf::from).collect()
        }
    }
}

impl StagingArgs {
    /// Refuses what makes no sense.
    pub(super) fn check(&self, cache_dir: Option<&str>) -> anyhow::Result<()> {
        if self.writeback && directories(cache_dir).is_empty() {
            bail!("--writeback needs a disk: name a directory with --cache-dir, not memory");
        }
        Ok(())
    }

    /// What is to be staged where. Without --writeback what an earlier mount left is finished.
    pub(super) fn plan(&self, cache_dir: Option<&str>, uploads: usize) -> StagingPlan {
        let usual = Bounds::default();
        StagingPlan {
            dirs: directories(cache_dir),
            stage: self.writeback,
            below: u32::try_from(self.writeback_threshold_size).unwrap_or(u32::MAX),
            patience: Patience {
                delay: self.upload_delay,
                hours: self.upload_hours,
                longest: self.upload_delay.max(Duration::from_secs(STAGING_AGE_SECS)),
            },
            bounds: Bounds { bytes: self.staging_size.unwrap_or(usual.bytes), ..usual },
            uploads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        staging: StagingArgs,
    }

    fn parse(text: &str) -> StagingArgs {
        Alone::try_parse_from(text.split(' ')).unwrap().staging
    }

    #[test]
    fn options_of_the_write_back_mode() {
        let plan = parse("x").plan(Some("/a:/b"), 7);
        assert!(!plan.stage && plan.patience.delay.is_zero() && plan.patience.hours.is_none());
        assert_eq!(plan.uploads, 7);
        assert_eq!(plan.dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
        let plan = parse("x --writeback --upload-delay 1m --upload-hours 22,5 --writeback-threshold-size 4K")
            .plan(None, 20);
        assert!(plan.stage && plan.below == 4096 && plan.dirs.len() == 1);
        assert_eq!(plan.patience.delay, Duration::from_secs(60));
        assert_eq!(plan.patience.hours.map(|hours| (hours.from, hours.to)), Some((22, 5)));
        assert!(Alone::try_parse_from(["x", "--upload-hours", "25-26"]).is_err());
        assert!(parse("x --writeback").check(Some("memory")).is_err());
        assert!(parse("x").check(Some("memory")).is_ok());
    }
}
