//! Times work on names: creates files, asks for their attributes, lists them the way `ls -l` does, and removes them.
//! Not part of the product; `.ci/bench` runs it on several file systems. One thread, one folder.
//!
//! `meta_load FOLDER COUNT`: prints one line `NAME VALUE` for each figure, in operations a second (listing: files a
//! second). The folder must not exist; it is removed at the end.
// A test program on the outside: it needs files and the clock of the machine.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

fn timed(name: &str, count: usize, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let begin = Instant::now();
    work()?;
    println!("{name} {:.1}", count as f64 / begin.elapsed().as_secs_f64());
    Ok(())
}

/// The order in which files are visited: not the one in which they were made.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 88_172_645_463_325_252_u64;
    for place in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(place, (state % (place as u64 + 1)) as usize);
    }
    order
}

fn list(dir: &Path) -> io::Result<()> {
    let status = Command::new("ls").arg("-l").arg(dir).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ls: {status}"))) }
}

fn run(dir: &Path, count: usize) -> io::Result<()> {
    let name = |number: usize| -> PathBuf { dir.join(format!("file-{number:06}")) };
    let order = shuffled(count);
    fs::create_dir(dir)?;
    timed("create", count, || (0..count).try_for_each(|number| File::create_new(name(number)).map(|_| ())))?;
    timed("stat", count, || {
        order.iter().try_for_each(|&number| fs::symlink_metadata(name(number)).map(|_| ()))
    })?;
    list(dir)?;
    timed("list", count, || list(dir))?;
    timed("unlink", count, || order.iter().try_for_each(|&number| fs::remove_file(name(number))))?;
    fs::remove_dir(dir)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, count] = words.as_slice() else {
        eprintln!("usage: meta_load FOLDER COUNT");
        return ExitCode::FAILURE;
    };
    let Ok(count) = count.parse::<usize>() else {
        eprintln!("{count} is no number of files");
        return ExitCode::FAILURE;
    };
    match run(Path::new(dir), count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("meta_load: {error}");
            ExitCode::FAILURE
        }
    }
}
