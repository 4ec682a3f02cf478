//! `zest gc META-URL`: counts objects by what records say of them, and with `--delete` removes those that nothing
//! refers to, and what waits for removal.

use super::{block_on, meta_url};
use crate::volume::Volume;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use zest_types::limits;
use zest_upkeep::gc::{Report, Wish, collect};
use zest_upkeep::reclaim::{Overdue, overdue};
use zest_upkeep::shorten::{Shortened, shorten_all};
use zest_upkeep::whole::Count;

/// How old an object must be; the name users of the original client know.
const FRESH: &str = "JFS_GC_SKIPPEDTIME";

/// Arguments of `gc`.
#[derive(Args)]
pub(super) struct GcArgs {
    /// The volume: a directory, or the URL of a metadata server.
    #[arg(value_name = "META-URL")]
    url: String,
    /// Remove leaked objects, data of deleted files, old trash, slices that were replaced long ago, and copies nobody
    /// will finish.
    #[arg(long)]
    delete: bool,
    /// First make one slice of the many that a chunk consists of.
    #[arg(long)]
    compact: bool,
    /// Objects removed, and chunks compacted, at once.
    #[arg(short = 'p', long, value_name = "N", default_value_t = limits::DELETES, value_parser = threads)]
    threads: usize,
    /// Nothing is sorted outside of memory: a large volume is looked at in parts.
    #[arg(long, value_name = "DIR", hide = true)]
    external_sort_dir: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn threads(text: &str) -> Result<usize, String> {
    let bad = || format!("{text:?} is no number of workers: write one from 1 to {}", limits::WORKERS);
    text.parse().ok().filter(|n| (1..=limits::WORKERS).contains(n)).ok_or_else(bad)
}

/// Age in seconds below which objects are left alone.
fn fresh_secs() -> anyhow::Result<i64> {
    match std::env::var(FRESH) {
        Ok(text) if !text.is_empty() => match text.parse() {
            Ok(seconds) if seconds >= 0 => Ok(seconds),
            _ => Err(anyhow!("{FRESH} is {text:?}: write a number of seconds")),
        },
        _ => Ok(limits::UNCOMMITTED_SECS),
    }
}

impl GcArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let url = meta_url(&self.url)?;
        let wish = Wish { delete: self.delete, fresh_secs: fresh_secs()?, threads: self.threads };
        let (extra, report) = block_on(async {
            let volume = Volume::open(&url).await?;
            let done = self.work(&volume, wish).await.with_context(|| format!("volume {url}"));
            // What was changed until then is kept, also when it ended early.
            volume.records().sync().await?;
            done
        })?;
        if self.json {
            crate::log::say(&json_text(&report, &extra));
        } else {
            extra.tell();
            crate::log::say(&summary(&report));
        }
        if report.leaked.objects > 0 && !self.delete && !self.json {
            crate::log::tell("add --delete to remove the leaked objects");
        }
        if let Some(Shortened { left: left @ 1.., .. }) = extra.shortened {
            bail!("volume {url}: {left} chunks could not be compacted: see above, then try again");
        }
        if report.failed > 0 {
            bail!(
                "volume {url}: {} objects could not be removed: look at the object store, then try again",
                report.failed
            );
        }
        Ok(())
    }
}

/// What was done before objects were looked at.
#[derive(Default)]
struct Extra {
    shortened: Option<Shortened>,
    overdue: Option<Overdue>,
}

impl GcArgs {
    async fn work(&self, volume: &Volume, wish: Wish) -> anyhow::Result<(Extra, Report)> {
        let (whole, days) = (volume.whole()?, volume.settings.trash_days);
        whole.owns_objects().await?;
        let mut extra = Extra::default();
        if self.compact {
            extra.shortened = Some(shorten_all(&whole, &volume.codec()?, days > 0, self.threads).await?);
        }
        if self.delete {
            extra.overdue = Some(overdue(&whole, days).await?);
        }
        Ok((extra, collect(&whole, wish).await?))
    }
}

impl Extra {
    fn tell(&self) {
        if let Some(Shortened { chunks, records, bytes, .. }) = self.shortened {
            crate::log::say(&format!("Compacted {chunks} chunks ({records} slices, {bytes} bytes)."));
        }
        if let Some(Overdue { trash, slices, copies }) = self.overdue {
            crate::log::say(&format!("Deleted {slices} pending slices"));
            if trash > 0 {
                crate::log::say(&format!("Deleted {trash} files and directories of the trash"));
            }
            if copies > 0 {
                crate::log::say(&format!("Deleted {copies} copies that were never finished"));
            }
        }
    }
}

fn summary(report: &Report) -> String {
    let with_bytes = |count: Count, what: &str| format!("{} {what} ({} bytes)", count.objects, count.bytes);
    let mut parts = vec![
        format!("scanned {} objects", report.scanned.objects),
        format!("{} valid", report.valid.objects),
        with_bytes(report.pending, "pending delete"),
        with_bytes(report.replaced, "compacted"),
        with_bytes(report.leaked, "leaked"),
        with_bytes(report.delayed, "delslices"),
        with_bytes(report.files, "delfiles"),
        with_bytes(report.skipped, "skipped"),
    ];
    if report.removed.objects > 0 {
        parts.push(with_bytes(report.removed, "deleted"));
    }
    if report.removed_files > 0 {
        parts.push(format!("{} deleted files cleaned up", report.removed_files));
    }
    parts.join(", ")
}

fn json_text(report: &Report, extra: &Extra) -> String {
    let count = |count: Count| json!({ "objects": count.objects, "bytes": count.bytes });
    let mut all = json!({
        "Scanned": count(report.scanned),
        "Valid": count(report.valid),
        "PendingDelete": count(report.pending),
        "Compacted": count(report.replaced),
        "Leaked": count(report.leaked),
        "DelSlices": count(report.delayed),
        "DelFiles": count(report.files),
        "Skipped": count(report.skipped),
        "Deleted": count(report.removed),
        "CleanedFiles": report.removed_files,
        "Failed": report.failed,
    });
    if let (Value::Object(map), Some(done)) = (&mut all, extra.shortened) {
        let shown =
            json!({ "Chunks": done.chunks, "Slices": done.records, "Bytes": done.bytes, "Left": done.left });
        map.insert("Compaction".into(), shown);
    }
    if let (Value::Object(map), Some(done)) = (&mut all, extra.overdue) {
        let shown = json!({ "Trash": done.trash, "Slices": done.slices, "Copies": done.copies });
        map.insert("Overdue".into(), shown);
    }
    format!("{all:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_line_scripts_look_for() {
        let mut report = Report::default();
        report.scanned.add(5);
        report.leaked.add(5);
        let expected = "scanned 1 objects, 0 valid, 0 pending delete (0 bytes), 0 compacted (0 bytes), 1 leaked \
                        (5 bytes), 0 delslices (0 bytes), 0 delfiles (0 bytes), 0 skipped (0 bytes)";
        assert_eq!(summary(&report), expected);
        assert!(json_text(&report, &Extra::default()).contains("\"Leaked\""));
        assert!(threads("0").is_err() && threads("99999999").is_err() && threads("3") == Ok(3));
    }
}
