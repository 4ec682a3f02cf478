//! `zest warmup PATH…`: has the blocks of files brought into the cache of the mount they are in, looks how many are
//! there, or takes them out. File by file, several at once, at the process that serves the mount.

use super::grid::{bytes, grid};
use crate::control;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// More than these would be told to try again.
const THREADS: usize = 6;
/// How often the state is shown.
const SHOWN: Duration = Duration::from_millis(300);
/// How often a file is tried while too many others ask.
const TRIES: usize = 1200;

/// Arguments of `warmup`.
#[derive(Args)]
pub(super) struct WarmupArgs {
    /// Files, and directories with all that is below them.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// More of them, one a line.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Files under way at once.
    #[arg(short = 'p', long, value_name = "N", default_value = "50")]
    threads: usize,
    /// Come back at once; the work goes on.
    #[arg(short, long)]
    background: bool,
    /// Only say what is cached.
    #[arg(long, conflicts_with = "evict")]
    check: bool,
    /// Take blocks out of the cache.
    #[arg(long)]
    evict: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    files: u64,
    bytes: u64,
    cached: u64,
    fetched: u64,
    evicted: u64,
    failed: u64,
    errors: Vec<String>,
}

impl Sum {
    fn add(&mut self, path: &Path, answer: anyhow::Result<Value>) {
        self.files += 1;
        match answer {
            Ok(answer) => {
                let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
                self.bytes += number("bytes");
                self.cached += number("cached");
                self.fetched += number("fetched");
                self.evicted += number("evicted");
                self.failed += number("failed");
            }
            Err(error) => self.errors.push(format!("{}: {error:#}", path.display())),
        }
    }

    fn json(&self) -> Value {
        json!({
            "files": self.files, "bytes": self.bytes, "cached": self.cached, "fetched": self.fetched,
            "evicted": self.evicted, "failed": self.failed, "errors": self.errors,
        })
    }
}

impl WarmupArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let roots = self.roots()?;
        if self.background {
            return again_in_background();
        }
        let (files, errors) = walk(roots);
        let total = files.len();
        let sum = Mutex::new(Sum { errors, ..Sum::default() });
        let letter = if self.check {
            "c"
        } else if self.evict {
            "e"
        } else {
            "f"
        };
        let (queue, over) = (Mutex::new(VecDeque::from(files)), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads.clamp(1, THREADS))
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let next = queue.lock().pop_front();
                            let Some((path, device, ino)) = next else { return };
                            let answer = ask(&device, ino, letter);
                            sum.lock().add(&path, answer);
                        }
                    })
                })
                .collect();
            if std::io::stderr().is_terminal() && !self.json {
                scope.spawn(|| show(total, &sum, &over));
            }
            workers.into_iter().for_each(|worker| drop(worker.join()));
            over.store(true, Ordering::Release);
        });
        let sum = sum.into_inner();
        self.tell(&sum);
        sum.errors.iter().for_each(|error| crate::log::tell(error));
        match (sum.errors.len(), sum.failed) {
            (0, 0) => Ok(()),
            (0, bytes) => bail!("{bytes} bytes could not be fetched: see the log of the mount"),
            (count, _) => bail!("{count} paths could not be handled"),
        }
    }

    fn roots(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut roots = self.paths.clone();
        if let Some(file) = &self.file {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("list {} can't be read", file.display()))?;
            roots.extend(text.lines().filter(|line| !line.trim().is_empty()).map(PathBuf::from));
        }
        if roots.is_empty() {
            bail!("nothing to warm up: name files or directories, or a list with --file");
        }
        Ok(roots)
    }

    fn tell(&self, sum: &Sum) {
        if self.json {
            return crate::log::say(&format!("{:#}", sum.json()));
        }
        let share = if sum.bytes == 0 { 100.0 } else { sum.cached as f64 * 100.0 / sum.bytes as f64 };
        let cached = format!("{} of {} ({share:.1}%) cached", bytes(sum.cached), bytes(sum.bytes));
        if self.check {
            let row = vec!["this mount".into(), bytes(sum.cached), format!("{share:.1}%")];
            crate::log::say(&grid(&["Location", "Size", "Percentage"], &[row], true));
            crate::log::say(&format!("{} files checked, {cached}", sum.files));
        } else if self.evict {
            crate::log::say(&format!("{} files, {} taken out of the cache", sum.files, bytes(sum.evicted)));
        } else {
            crate::log::say(&format!("{} files, {} fetched, {cached}", sum.files, bytes(sum.fetched)));
        }
    }
}

fn show(total: usize, sum: &Mutex<Sum>, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let now = sum.lock().clone();
        eprint!("\r{} of {total} files, {} cached\x1b[K", now.files, bytes(now.cached));
        std::thread::sleep(SHOWN);
    }
    eprint!("\r\x1b[K");
}

/// The same command without the wish to come back at once, on its own.
fn again_in_background() -> anyhow::Result<()> {
    let args = std::env::args_os().skip(1).filter(|arg| arg != "-b" && arg != "--background");
    let program = std::env::current_exe().context("this program can't be found")?;
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("it can't be started in the background")?;
    crate::log::say(&format!("process {} warms up in the background", child.id()));
    Ok(())
}

/// A file, the mount it is in, and its number.
type Found = (PathBuf, String, u64);

/// Every file at or below these paths, each once, and what could not be looked at.
fn walk(roots: Vec<PathBuf>) -> (Vec<Found>, Vec<String>) {
    let (mut files, mut errors, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut waiting: Vec<PathBuf> = roots.into_iter().rev().collect();
    while let Some(path) = waiting.pop() {
        let mut visit = || -> std::io::Result<()> {
            let stat = std::fs::symlink_metadata(&path)?;
            if stat.is_dir() {
                let mut below = std::fs::read_dir(&path)?
                    .map(|entry| Ok(entry?.path()))
                    .collect::<std::io::Result<Vec<_>>>()?;
                below.sort_unstable_by(|a, b| b.cmp(a));
                waiting.extend(below);
            } else if stat.is_file() && seen.insert((stat.dev(), stat.ino())) {
                let device = format!("{}:{}", rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
                files.push((path.clone(), device, stat.ino()));
            }
            Ok(())
        };
        if let Err(error) = visit() {
            errors.push(format!("{}: {error}", path.display()));
        }
    }
    (files, errors)
}

fn ask(device: &str, ino: u64, letter: &str) -> anyhow::Result<Value> {
    for _ in 0..TRIES {
        let answer = control::ask_patiently(&control::mount_name(device), &format!("warmup {ino} {letter}"))
            .ok_or_else(|| anyhow!("it is in no mount of zest on this machine"))?;
        let found: Value =
            serde_json::from_str(&answer).map_err(|_| anyhow!("the mount does not answer: see its log"))?;
        match found.get("error").and_then(Value::as_str) {
            Some(why) if why.contains("too many") => std::thread::sleep(Duration::from_millis(50)),
            Some(why) => return Err(anyhow!("{why}")),
            None => return Ok(found),
        }
    }
    bail!("too many ask the mount at once: try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_found_once_and_what_is_missing_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        std::fs::create_dir_all(at("d/e")).unwrap();
        for name in ["d/a", "d/e/b", "c"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::fs::hard_link(at("c"), at("d/c2")).unwrap();
        std::os::unix::fs::symlink("c", at("d/link")).unwrap();
        let (files, errors) = walk(vec![at("d"), at("c"), at("nothing")]);
        let names: Vec<_> = files
            .iter()
            .map(|(path, ..)| path.strip_prefix(temp.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["d/a", "d/c2", "d/e/b"]);
        assert!(errors.len() == 1 && errors[0].contains("nothing"));
    }

    #[test]
    fn answers_are_summed_up_and_errors_kept() {
        let mut sum = Sum::default();
        sum.add(
            Path::new("a"),
            Ok(json!({ "bytes": 10, "cached": 7, "fetched": 3, "evicted": 0, "failed": 3 })),
        );
        sum.add(Path::new("b"), Err(anyhow!("gone")));
        assert_eq!((sum.files, sum.bytes, sum.cached, sum.fetched, sum.failed), (2, 10, 7, 3, 3));
        assert_eq!(sum.errors, ["b: gone"]);
    }
}
