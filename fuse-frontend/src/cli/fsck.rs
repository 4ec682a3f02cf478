//! `zest fsck META-URL`: whether every block that records need is in the store, and whether names, nodes, link counts
//! and statistics fit. Status 0 means that nothing is broken; counters kept on the side that are off are warnings.

use super::{block_on, meta_url};
use crate::volume::Volume;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use zest_types::Ino;
use zest_upkeep::failure::Failure;
use zest_upkeep::fsck::{self, Blocks};
use zest_upkeep::repair::repair;
use zest_upkeep::tree::{self, Problem, Remedy, Scope, Seen};
use zest_upkeep::whole::Whole;

/// Broken files whose paths are looked for.
const PATHS: usize = 1000;

/// Arguments of `fsck`.
#[derive(Args)]
pub(super) struct FsckArgs {
    /// The volume: a directory, or the URL of a metadata server.
    #[arg(value_name = "META-URL")]
    url: String,
    /// Only this file or directory: an absolute path inside the volume.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Put link counts, parents, lost directories and statistics right; with --path.
    #[arg(long, requires = "path")]
    repair: bool,
    /// With --path: also what is below its directories.
    #[arg(short, long, requires = "path")]
    recursive: bool,
    /// Count the statistics of directories anew.
    #[arg(long)]
    sync_dir_stat: bool,
    /// Mode of directories made anew, octal.
    #[arg(long, value_name = "MODE", default_value = "0755", value_parser = octal)]
    repair_dir_mode: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn octal(text: &str) -> Result<u16, String> {
    let bad = || format!("{text:?} is no mode: write it in octal, such as 0755");
    u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777).ok_or_else(bad)
}

/// What was found and done.
#[derive(Default)]
struct Outcome {
    blocks: Blocks,
    problems: Vec<Problem>,
    more: u64,
    repaired: Vec<Problem>,
    paths: BTreeMap<Ino, String>,
}

impl FsckArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let url = meta_url(&self.url)?;
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            bail!("--path is a path inside the volume and begins with /");
        }
        let outcome = block_on(async {
            let volume = Volume::open(&url).await?;
            let whole = volume.whole()?;
            let outcome = self.look(&whole, volume.settings.dir_stats).await;
            volume.records().sync().await?;
            outcome.with_context(|| format!("volume {url}"))
        })?;
        self.report(&outcome);
        let errors = outcome.problems.iter().filter(|problem| !problem.drift).count() as u64 + outcome.more;
        let lost = outcome.blocks.lost_in_all;
        match (lost.objects, errors) {
            (0, 0) => Ok(()),
            (0, errors) => Err(anyhow!("volume {url}: {errors} problems of names and nodes")),
            _ => Err(anyhow!(
                "volume {url}: {} objects are lost ({} bytes), {} broken files{}",
                lost.objects,
                lost.bytes,
                outcome.paths.len(),
                if errors > 0 { format!(", {errors} problems of names and nodes") } else { String::new() }
            )),
        }
    }

    async fn look(&self, whole: &Whole, dir_stats: bool) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::default();
        let mut seen = Seen::default();
        match &self.path {
            None => {
                outcome.blocks = fsck::all(whole).await?;
                let scope = Scope {
                    recursive: true,
                    statistics: dir_stats,
                    uncounted: self.sync_dir_stat,
                    files: false,
                };
                for (root, path) in [(Ino::ROOT, "/"), (Ino::TRASH, "/.trash")] {
                    tree::look(whole, root, path, scope, &mut seen).await?;
                }
                seen.settle(whole).await?;
            }
            Some(path) => self.look_at(whole, path, dir_stats, &mut seen, &mut outcome.blocks).await?,
        }
        outcome.more = seen.more;
        for problem in seen.problems {
            let statistics = matches!(problem.remedy, Some(Remedy::Statistics(_)));
            let wanted = self.repair || (self.sync_dir_stat && statistics);
            if wanted && repair(whole, &problem, self.repair_dir_mode).await? {
                outcome.repaired.push(problem);
            } else {
                outcome.problems.push(problem);
            }
        }
        for lost in &outcome.blocks.lost {
            if outcome.paths.contains_key(&lost.ino) {
                continue;
            }
            let known = if outcome.paths.len() < PATHS { whole.paths(lost.ino).await? } else { Vec::new() };
            let shown = if known.is_empty() { "?".to_owned() } else { known.join(" ") };
            outcome.paths.insert(lost.ino, shown);
        }
        Ok(outcome)
    }

    /// One file, or a directory with its files.
    async fn look_at(
        &self,
        whole: &Whole,
        path: &str,
        dir_stats: bool,
        seen: &mut Seen,
        blocks: &mut Blocks,
    ) -> Result<(), Failure> {
        let ino = whole.find(path.as_bytes()).await?;
        let Some(attr) = whole.attrs(&[ino]).await?.remove(&ino) else {
            let text = format!("entry {path} leads to node {ino}, which does not exist");
            seen.problems.push(Problem { ino, text, drift: false, remedy: None });
            return Ok(());
        };
        if !attr.is_dir() {
            return fsck::file(whole, ino, blocks).await;
        }
        let scope = Scope {
            recursive: self.recursive,
            statistics: dir_stats,
            uncounted: self.sync_dir_stat,
            files: true,
        };
        tree::look(whole, ino, path, scope, seen).await?;
        for file in std::mem::take(&mut seen.files) {
            fsck::file(whole, file, blocks).await?;
        }
        Ok(())
    }

    fn report(&self, outcome: &Outcome) {
        let Outcome { blocks, problems, repaired, paths, .. } = outcome;
        if self.json {
            let shown = |problem: &Problem| json!({ "Inode": problem.ino.0, "Problem": problem.text, "Drift": problem.drift });
            let lost: Vec<Value> = blocks
                .lost
                .iter()
                .map(|lost| json!({ "Inode": lost.ino.0, "Object": lost.key, "Size": lost.len, "Problem": lost.why }))
                .collect();
            let all = json!({
                "Blocks": { "Objects": blocks.found.objects, "Bytes": blocks.found.bytes },
                "Slices": { "Slices": blocks.slices.objects, "Bytes": blocks.slices.bytes },
                "Lost": lost,
                "LostObjects": blocks.lost_in_all.objects,
                "LostBytes": blocks.lost_in_all.bytes,
                "BrokenFiles": paths.iter().map(|(ino, path)| json!({ "Inode": ino.0, "Path": path })).collect::<Vec<_>>(),
                "Problems": problems.iter().map(shown).collect::<Vec<_>>(),
                "Repaired": repaired.iter().map(shown).collect::<Vec<_>>(),
            });
            return crate::log::say(&format!("{all:#}"));
        }
        for lost in &blocks.lost {
            let path = paths.get(&lost.ino).map_or("?", String::as_str);
            crate::log::tell(&format!("can't find block {} for file {path}: {}", lost.key, lost.why));
        }
        for problem in problems {
            let level = if problem.drift { "warning: " } else { "" };
            crate::log::tell(&format!("{level}{}", problem.text));
        }
        for problem in repaired {
            crate::log::say(&format!("repaired: {}", problem.text));
        }
        crate::log::say(&format!("Found {} blocks ({} bytes)", blocks.found.objects, blocks.found.bytes));
        crate::log::say(&format!("Used by {} slices ({} bytes)", blocks.slices.objects, blocks.slices.bytes));
        if blocks.orphans > 0 {
            crate::log::tell(&format!(
                "warning: blocks of {} files that do not exist any more are missing, too",
                blocks.orphans
            ));
        }
        if !paths.is_empty() {
            crate::log::say(&format!("{:>13}: PATH", "INODE"));
            for (ino, path) in paths {
                crate::log::say(&format!("{:>13}: {path}", ino.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!(octal("0755"), Ok(0o755));
        assert!(octal("9").is_err() && octal("77777").is_err() && octal("").is_err());
    }
}
