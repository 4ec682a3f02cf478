//! The command line: which command with which options, and how what goes wrong reaches the user: one line that
//! names the thing and the remedy, and an exit status. 0 is success, 1 is failure, 3 an unknown command.

mod arguments;
mod cache;
mod clone;
mod compat;
mod config;
mod encoding;
mod flush;
mod format;
mod fsck;
mod gc;
mod grid;
mod info;
mod metrics;
mod mount;
mod objbench;
mod quota;
mod restore;
mod staging;
mod status;
mod traffic;
mod umount;
mod units;
mod version;
mod warmup;

use crate::meta_url::MetaUrl;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use zest_vfs::standing::Over;

/// ZestFS: a POSIX file system over a metadata engine and an object store.
#[derive(Parser)]
#[command(name = "zest", version, propagate_version = true, max_term_width = 100, args_override_self = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command; they may stand anywhere.
#[derive(Args)]
struct Global {
    /// Log more.
    #[arg(short, long, visible_alias = "debug", global = true)]
    verbose: bool,
    /// Log warnings and errors only.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Log everything there is.
    #[arg(long, global = true)]
    trace: bool,
    /// trace, debug, info, warn or error; wins over the three above.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = ["trace", "debug", "info", "warn", "error"])]
    log_level: Option<String>,
    /// No colours.
    #[arg(long, global = true)]
    no_color: bool,
    /// The arguments as they were given, secrets and all.
    #[arg(skip)]
    given: Vec<OsString>,
}

#[derive(Subcommand)]
enum Command {
    /// Make a volume, or change the settings of one.
    Format(Box<format::FormatArgs>),
    /// Show or change the settings of a volume.
    Config(Box<config::ConfigArgs>),
    /// Mount a volume.
    Mount(Box<mount::MountArgs>),
    /// Unmount, and wait until everything is written.
    #[command(visible_alias = "unmount")]
    Umount(umount::UmountArgs),
    /// Wait until everything written to a mount, or to a file of it, is in the object store.
    Flush(flush::FlushArgs),
    /// Show a volume's settings, sessions and usage, as JSON.
    Status(status::StatusArgs),
    /// Look for lost blocks, and for names and nodes that do not fit.
    Fsck(fsck::FsckArgs),
    /// Count, and remove, objects that nothing refers to.
    Gc(gc::GcArgs),
    /// Limits of directories, users and groups.
    Quota(quota::QuotaArgs),
    /// Bring back what lies in an hour of the trash.
    Restore(restore::RestoreArgs),
    /// Copy a file or directory of a mount without copying its data.
    Clone(clone::CloneArgs),
    /// Show what files and directories of a mount are made of.
    Info(info::InfoArgs),
    /// Bring files into the cache, look what is there, or take them out.
    Warmup(warmup::WarmupArgs),
    /// Try whether an object store does what a volume needs, and how fast it is.
    Objbench(objbench::ObjBenchArgs),
    /// Show the version.
    Version,
}

impl Global {
    fn level(&self) -> &str {
        match &self.log_level {
            Some(level) => level,
            None if self.trace => "trace",
            None if self.verbose => "debug",
            None if self.quiet => "warn",
            None => "info",
        }
    }
}

/// Runs the program.
#[must_use]
pub fn run() -> ExitCode {
    let command = Cli::command();
    let given = crate::secret::arguments();
    let arguments = arguments::normal(&command, given.iter().cloned());
    let mut cli = match command.try_get_matches_from(arguments).and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    cli.global.given = given;
    let outcome = match cli.command {
        Command::Format(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Config(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        // Its log may go to a file.
        Command::Mount(args) => args.run(&cli.global),
        Command::Umount(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Flush(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Status(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Fsck(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Gc(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Restore(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Clone(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Quota(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Info(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Warmup(args) => {
            begin_log(&cli.global);
            args.run().map(|()| ExitCode::SUCCESS)
        }
        Command::Objbench(args) => args.run(&cli.global),
        Command::Version => {
            crate::log::say(&version::text());
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        // One line, whatever a cause has to say.
        let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
        crate::log::tell(&text);
        // Tools tell by this status that the volume is not what was mounted.
        if error.is::<Over>() { ExitCode::from(11) } else { ExitCode::FAILURE }
    })
}

fn begin_log(global: &Global) {
    // A command that ends by itself says what matters on its own.
    let level = if global.level() == "info" { "error" } else { global.level() };
    crate::log::begin(level, !global.no_color, None);
}

fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
        }
        _ => crate::log::tell(&format!("{}; see zest --help", one_line(&error.to_string()))),
    }
    match error.kind() {
        ErrorKind::InvalidSubcommand => ExitCode::from(3),
        _ => ExitCode::FAILURE,
    }
}

/// What is wrong, and the hint if there is one, out of a text of several paragraphs.
fn one_line(text: &str) -> String {
    let mut lines = text.trim_start_matches("error: ").lines().map(str::trim);
    let what: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    match lines.find_map(|line| line.strip_prefix("tip: ")) {
        Some(hint) => format!("{}; {hint}", what.join(" ")),
        None => what.join(" "),
    }
}

/// The volume an argument names. Not read by the parser of arguments, which repeats what it refuses: a URL may
/// hold a password.
fn meta_url(given: &str) -> anyhow::Result<MetaUrl> {
    MetaUrl::parse(given).map_err(|why| anyhow::anyhow!("META-URL: {why}"))
}

/// Runs a future that needs nothing but this thread.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        let said = |args: &str| {
            let error = Cli::try_parse_from(args.split(' ')).err().unwrap();
            one_line(&error.to_string())
        };
        let bad = said("zest format v n --block-size banana");
        assert!(bad.starts_with("invalid value 'banana'") && bad.ends_with("such as 4M"), "{bad}");
        let near = said("zest mount --attr-cahce 1 v m");
        assert!(near.contains("'--attr-cahce'") && near.contains("'--attr-cache'"), "{near}");
        let few = said("zest mount v");
        assert!(few.contains("<MOUNTPOINT>") && !few.contains('\n'), "{few}");
    }
}
