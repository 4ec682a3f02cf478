//! Kills the serving process of a mount under load, again and again, and checks what the next mount shows: all that
//! was synced is there and equal, and nothing is half there. Not part of the product; `.ci/suite/kill9.sh` runs it.
//!
//! `crash_load --dir MOUNTPOINT [--rounds N] [--threads N] [--seed S] [--log FILE] [-- COMMAND THAT SERVES THE MOUNT…]`
//!
//! Without a command the folder is taken as it is and nothing is killed: so the program itself is tested.
// A test program on the outside: it needs threads, files and the clock of the machine.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod chance;
mod check;
mod load;
mod model;
mod server;

use chance::Chance;
use load::{Counts, Load};
use model::{History, Node};
use server::Server;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

struct Options {
    dir: PathBuf,
    rounds: u64,
    threads: usize,
    seed: u64,
    log: PathBuf,
    command: Vec<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        dir: PathBuf::new(),
        rounds: 5,
        threads: 4,
        seed: 1,
        log: PathBuf::from("/dev/null"),
        command: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--" {
            options.command = words.collect();
            break;
        }
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} wants a number, not {value}"));
        match word.as_str() {
            "--dir" => options.dir = PathBuf::from(value),
            "--rounds" => options.rounds = number()?,
            "--threads" => options.threads = number()?.clamp(1, 64) as usize,
            "--seed" => options.seed = number()?,
            "--log" => options.log = PathBuf::from(value),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    if options.dir.as_os_str().is_empty() { Err("--dir is missing".into()) } else { Ok(options) }
}

/// Runs the load until `stop`, while this thread waits and then kills the server.
fn round(
    options: &Options,
    histories: &mut [History],
    seed: u64,
    server: Option<&mut Server>,
) -> Result<Counts, String> {
    let stop = AtomicBool::new(false);
    let killed = AtomicBool::new(false);
    let wait = Duration::from_millis(300 + Chance::new(seed).below(2700));
    std::thread::scope(|scope| {
        let workers: Vec<_> = histories
            .iter_mut()
            .enumerate()
            .map(|(number, history)| {
                let load = Load::new(number, &options.dir, history, seed.wrapping_mul(1000) + number as u64);
                let (stop, killed) = (&stop, &killed);
                scope.spawn(move || {
                    let (counts, result) = load.run(stop);
                    // An error is expected once the server is dead, and only then.
                    match result {
                        Err(error) if !killed.load(Ordering::SeqCst) => {
                            Err(format!("thread {number}: {error}"))
                        }
                        _ => Ok(counts),
                    }
                })
            })
            .collect();
        std::thread::sleep(wait);
        if let Some(server) = server {
            killed.store(true, Ordering::SeqCst);
            server.kill().map_err(|error| format!("the server can't be killed: {error}"))?;
        }
        stop.store(true, Ordering::SeqCst);
        let mut all = Counts::default();
        for worker in workers {
            let counts = worker.join().map_err(|_| "a load thread panicked".to_owned())??;
            all.operations += counts.operations;
            all.syncs += counts.syncs;
            all.bytes += counts.bytes;
        }
        Ok(all)
    })
}

fn start(options: &Options) -> Result<Option<Server>, String> {
    if options.command.is_empty() {
        return Ok(None);
    }
    Server::start(&options.command, &options.dir, &options.log).map(Some).map_err(|error| error.to_string())
}

fn prepare(root: &Path, histories: &mut [History]) -> io::Result<()> {
    std::fs::create_dir(root.join(load::COMMON))?;
    for (number, history) in histories.iter_mut().enumerate() {
        let own = format!("t{number}");
        std::fs::create_dir(root.join(&own))?;
        history.base.insert(own.clone(), Node::Dir);
        history.now.insert(own, Node::Dir);
    }
    std::fs::File::open(root)?.sync_all()
}

fn check_all(options: &Options, histories: &mut [History]) -> Result<check::Kept, String> {
    let mut all = check::Kept::default();
    for (number, history) in histories.iter_mut().enumerate() {
        let kept = check::check(number, &options.dir, history)
            .map_err(|error| format!("thread {number}: {error}"))?;
        all.lost += kept.lost;
        all.files += kept.files;
    }
    Ok(all)
}

fn run(options: &Options) -> Result<(), String> {
    let mut histories: Vec<History> = (0..options.threads).map(|_| History::default()).collect();
    let mut server = start(options)?;
    prepare(&options.dir, &mut histories).map_err(|error| format!("the folders can't be made: {error}"))?;
    let mut syncs = 0;
    for number in 1..=options.rounds {
        let seed = options.seed.wrapping_mul(1_000_003) + number;
        let counts = round(options, &mut histories, seed, server.as_mut())
            .map_err(|error| format!("round {number}, under load: {error}"))?;
        server = start(options).map_err(|error| format!("round {number}, mounting again: {error}"))?;
        let kept = check_all(options, &mut histories)
            .map_err(|error| format!("round {number} of seed {}: {error}", options.seed))?;
        syncs += counts.syncs;
        println!(
            "round {number}: {} operations, {} syncs, {} KiB; {} files equal, {} unsynced changes lost",
            counts.operations,
            counts.syncs,
            counts.bytes >> 10,
            kept.files,
            kept.lost
        );
    }
    if let Some(mut server) = server {
        let status = server.end().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the server ended with {status} after TERM"));
        }
        let mut server = start(options)?;
        check_all(options, &mut histories).map_err(|error| format!("after a clean end: {error}"))?;
        if let Some(server) = &mut server {
            server.end().map_err(|error| error.to_string())?;
        }
    }
    println!("crash load: {} rounds, {syncs} acknowledged syncs, everything synced is there", options.rounds);
    Ok(())
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash load: {error}");
            ExitCode::FAILURE
        }
    }
}
