//! Options of the local cache: where, how much, what goes, how much is checked. Names, units and defaults are those of
//! JuiceFS's `mount`.

use super::units;
use crate::serve::CachePlan;
use anyhow::bail;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use zest_cache::disk::{Level, Settings};
use zest_cache::evict::Kind;

/// See the head of the file.
#[derive(Args)]
pub(super) struct CacheArgs {
    /// Directories for copies of blocks, separated by colons; "memory" keeps them in memory only [default:
    /// /var/jfsCache, or ~/.juicefs/cache of a user; memory where the objects are files of this machine].
    #[arg(long, value_name = "DIRS")]
    cache_dir: Option<String>,
    /// Bytes of cached blocks over all directories, in MiB or with a unit; 0 means no files [default: 100G].
    #[arg(long, value_name = "SIZE", value_parser = units::mib)]
    cache_size: Option<u64>,
    /// Files of each directory at most; 0 means as many as there is room for.
    #[arg(long, value_name = "N", default_value = "0")]
    cache_items: u64,
    /// The cache leaves this part of a disk free.
    #[arg(long, value_name = "RATIO", value_parser = ratio, default_value = "0.1")]
    free_space_ratio: u64,
    /// What goes when room is short: s3-fifo, 2-random, lru, or none: what does not fit is not kept.
    #[arg(long, value_name = "POLICY", default_value = "s3-fifo")]
    cache_eviction: Kind,
    /// Blocks that nobody used for this long go; 0 means never.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "0")]
    cache_expire: Duration,
    /// How much of cached blocks is checked when it is first read, and when their file changed: none, full, shrink,
    /// extend; always: with each read.
    #[arg(long, value_name = "LEVEL", default_value = "extend")]
    verify_cache_checksum: Level,
    /// Keep only what was read in small pieces, and blocks that are not full.
    #[arg(long)]
    cache_partial_only: bool,
}

/// A part of one, in thousandths.
fn ratio(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..1.0).contains(&part) => Ok((part * 1000.0).round() as u64),
        _ => Err(format!("{text:?} is no part of one: write a number such as 0.1")),
    }
}

impl CacheArgs {
    /// The directories as they were given.
    pub(super) fn given(&self) -> Option<&str> {
        self.cache_dir.as_deref()
    }

    fn in_memory(&self) -> bool {
        self.given() == Some("memory")
    }

    /// Bytes of blocks in memory that these options ask for.
    pub(super) fn memory(&self) -> Option<u64> {
        self.cache_size.filter(|_| self.in_memory())
    }

    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let dirs = self.dirs().unwrap_or_default();
        if let Some(dir) = dirs.iter().find(|dir| dir.to_string_lossy().contains(['*', '?', '['])) {
            bail!("--cache-dir {}: patterns are not supported: name each directory", dir.display());
        }
        if dirs.len() > 1 && dirs.iter().any(|dir| dir.as_os_str() == "memory") {
            bail!("--cache-dir: memory stands alone, or leave it out");
        }
        Ok(())
    }

    fn dirs(&self) -> Option<Vec<PathBuf>> {
        let list = self.given()?;
        let mark = if list.contains(':') { ':' } else { ',' };
        let mut dirs: Vec<PathBuf> =
            list.split(mark).filter(|dir| !dir.is_empty()).map(PathBuf::from).collect();
        dirs.sort();
        dirs.dedup();
        Some(dirs)
    }

    /// What the mount is told.
    pub(super) fn plan(&self) -> CachePlan {
        let dirs = if self.in_memory() { Some(Vec::new()) } else { self.dirs() };
        let settings = Settings {
            size: self.cache_size.unwrap_or(zest_types::limits::CACHE_SIZE),
            items: (self.cache_items > 0).then_some(self.cache_items),
            free_permille: self.free_space_ratio,
            eviction: self.cache_eviction,
            expire: (!self.cache_expire.is_zero()).then_some(self.cache_expire),
            verify: self.verify_cache_checksum,
            partial_only: self.cache_partial_only,
            ..Settings::default()
        };
        CachePlan { dirs, settings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        cache: CacheArgs,
    }

    fn parse(text: &str) -> Result<CacheArgs, clap::Error> {
        Alone::try_parse_from(text.split(' ')).map(|alone| alone.cache)
    }

    #[test]
    fn options_are_read_as_juicefs_reads_them() {
        let plan = parse("x --cache-dir /b:/a --cache-size 2G --free-space-ratio 0.25 --cache-eviction 2-random --cache-expire 1h")
            .unwrap()
            .plan();
        assert_eq!(plan.dirs, Some(vec!["/a".into(), "/b".into()]));
        let settings = plan.settings;
        assert_eq!(
            (settings.size, settings.free_permille, settings.eviction),
            (2 << 30, 250, Kind::TwoRandom)
        );
        assert_eq!(settings.expire, Some(Duration::from_secs(3600)));
        assert_eq!(parse("x").unwrap().plan().dirs, None);
        let memory = parse("x --cache-dir memory --cache-size 512").unwrap();
        assert_eq!((memory.plan().dirs, memory.memory()), (Some(Vec::new()), Some(512 << 20)));
        for bad in ["x --free-space-ratio 1.5", "x --cache-eviction fifo", "x --verify-cache-checksum all"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse("x --cache-dir /a*").unwrap().check().is_err());
    }
}
