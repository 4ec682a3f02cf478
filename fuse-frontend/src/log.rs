//! Where the program's log goes and how much of it: lines on stderr, or in a file, for everything that happens
//! while nobody waits for an answer.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;

/// Opens a log file, for its owner only: it names files of the volume.
pub fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The log of a mount in the background, unless another is given.
#[must_use]
pub fn default_path() -> PathBuf {
    match std::env::var_os("HOME") {
        Some(home) if !rustix::process::geteuid().is_root() => Path::new(&home).join(".zest/zest.log"),
        _ => PathBuf::from("/var/log/zest.log"),
    }
}

/// Begins to log at this level; `colour` only where a terminal is watching. Does nothing the second time.
pub fn begin(level: &str, colour: bool, file: Option<File>) {
    // Ours all begin like this. What libraries have to say is of interest from warnings on; but what fuser says
    // of mounts that are gone already, and of replies to processes that were killed, only when much is asked for.
    let fuser = if matches!(level, "debug" | "trace") { "warn" } else { "off" };
    let filter = EnvFilter::new(format!("warn,fuser={fuser},zest={level}"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    let _ = match file {
        Some(file) => subscriber.with_ansi(false).with_writer(Mutex::new(file)).try_init(),
        None => {
            let colour = colour && std::io::stderr().is_terminal();
            subscriber.with_ansi(colour).with_writer(std::io::stderr).try_init()
        }
    };
}

/// Says something on stdout. Nobody may be listening any more, or the disk behind it be full: then it is unsaid.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Tells the person at the terminal something, on stderr, in the program's name. As [`say`] where nobody listens.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "zest: {text}");
}

/// Makes panics lines of the log, with the place where they happened.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        tracing::error!("thread {:?} panicked: {panic}", thread.name().unwrap_or("without a name"));
    }));
}
