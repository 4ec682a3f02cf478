//! `zest clone SRC DST`: a copy that shares its data with the original, made by the process that serves the mount.

use crate::control;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use rustix::fs::Mode;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Arguments of `clone`.
#[derive(Args)]
pub(super) struct CloneArgs {
    /// A file or directory of a mount.
    #[arg(value_name = "SRC")]
    from: PathBuf,
    /// Its copy, in the same mount; with / at its end the directory that gets it.
    #[arg(value_name = "DST")]
    to: PathBuf,
    /// Keep owner, group, mode and times.
    #[arg(short, long)]
    preserve: bool,
    /// Workers: a copy is made by one.
    #[arg(long, value_name = "N", hide = true)]
    threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Where a copy goes: the directory, and its name there.
fn place(from: &Path, to: &Path) -> anyhow::Result<(PathBuf, Vec<u8>)> {
    let into = to.as_os_str().as_bytes().ends_with(b"/");
    let named = if into { from } else { to };
    let name = named.file_name().ok_or_else(|| anyhow!("{} has no name of its own", named.display()))?;
    let dir = match (into, to.parent()) {
        (true, _) => to.to_path_buf(),
        (false, Some(dir)) if !dir.as_os_str().is_empty() => dir.to_path_buf(),
        (false, _) => PathBuf::from("."),
    };
    Ok((dir, name.as_bytes().to_vec()))
}

impl CloneArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (from, to) = (self.from.display(), self.to.display());
        let source = std::fs::symlink_metadata(&self.from).with_context(|| from.to_string())?;
        let (dir, name) = place(&self.from, &self.to)?;
        let parent = std::fs::metadata(&dir).with_context(|| dir.display().to_string())?;
        if !parent.is_dir() {
            bail!("{}: not a directory", dir.display());
        }
        if source.dev() != parent.dev() {
            bail!("{from} and {to} are not in the same mount");
        }
        if source.is_dir() && dir.canonicalize()?.starts_with(self.from.canonicalize()?) {
            bail!("{to} lies in {from}: a directory can't be copied into itself");
        }
        let copy = dir.join(OsStr::from_bytes(&name));
        if std::fs::symlink_metadata(&copy).is_ok() {
            bail!("{}: file exists", copy.display());
        }
        // The kernel may have what was written and not passed on yet.
        rustix::fs::syncfs(std::fs::File::open(&dir).with_context(|| dir.display().to_string())?)?;
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let device = format!("{}:{}", rustix::fs::major(source.dev()), rustix::fs::minor(source.dev()));
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let keep = u8::from(self.preserve);
        let question = format!("clone {} {} {name} {keep} {:o}", source.ino(), parent.ino(), umask.bits());
        let answer = control::ask_patiently(&control::mount_name(&device), &question)
            .ok_or_else(|| anyhow!("{from} is in no mount of zest on this machine"))?;
        let done: Value =
            serde_json::from_str(&answer).map_err(|_| anyhow!("the mount does not answer: see its log"))?;
        if let Some(why) = done.get("error").and_then(Value::as_str) {
            bail!("{from} could not be copied to {}: {why}", copy.display());
        }
        if self.json {
            let shown = json!({
                "Source": self.from.to_string_lossy(),
                "Destination": copy.to_string_lossy(),
                "Inode": done.get("inode"),
            });
            crate::log::say(&format!("{shown:#}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_at_the_end_means_into() {
        let at = |from: &str, to: &str| {
            let (dir, name) = place(Path::new(from), Path::new(to)).unwrap();
            (dir.to_str().unwrap().to_owned(), String::from_utf8(name).unwrap())
        };
        assert_eq!(at("m/a", "m/b"), ("m".into(), "b".into()));
        assert_eq!(at("m/a", "m/b/"), ("m/b/".into(), "a".into()));
        assert_eq!(at("a", "b"), (".".into(), "b".into()));
        assert_eq!(at("/m/a/", "/b"), ("/".into(), "b".into()));
        assert!(place(Path::new("a"), Path::new("..")).is_err());
    }
}
