//! A mount in the background: the program starts itself again without a terminal, waits for the word that the
//! mount is ready, and leaves. What goes wrong before that is seen on the terminal, with an exit status.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Set for the process in the background.
const MARK: &str = "ZEST_BACKGROUND";
/// Seconds to wait for readiness, where it is set.
const TIMEOUT: &str = "ZEST_MOUNT_TIMEOUT";
/// Seconds to wait otherwise: a check after a crash reads all metadata.
const TIMEOUT_DEFAULT: u64 = 300;
/// What the process in the background says when it is ready, in front of the text for the user.
const READY: &str = "ready ";

/// Whether this is the process in the background.
#[must_use]
pub fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts this program again in the background, with the arguments it was given itself, and waits until it is ready
/// or over. Gives the exit status. A password goes through the environment: arguments everybody can see.
pub fn start(given: &[OsString]) -> io::Result<ExitCode> {
    let (arguments, password) = crate::secret::for_child(given);
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments.iter().skip(1))
        .envs(password.map(|password| ("REDIS_PASSWORD", password)))
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let seconds =
        [TIMEOUT, "JFS_MOUNT_TIMEOUT"].iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    let seconds = seconds.unwrap_or(TIMEOUT_DEFAULT);
    match first_line(&mut child, Duration::from_secs(seconds)) {
        Some(line) => match line.strip_prefix(READY) {
            Some(text) => {
                crate::log::say(text);
                Ok(ExitCode::SUCCESS)
            }
            // It ended, and has said why.
            None => Ok(exit_code(child.wait()?.code())),
        },
        None => {
            child.kill()?;
            child.wait()?;
            crate::log::tell(&format!(
                "the mount was not ready within {seconds} seconds and was given up: see the log, or set {TIMEOUT}"
            ));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn exit_code(code: Option<i32>) -> ExitCode {
    // A process that ended before it was ready failed, whatever it says.
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) | None => {
            crate::log::tell("the mount ended before it was ready: see the log");
            ExitCode::FAILURE
        }
        Some(code) => ExitCode::from(code),
    }
}

/// The first line the child says, empty if it ended without one; `None` if it says nothing for this long.
fn first_line(child: &mut Child, patience: Duration) -> Option<String> {
    let stdout = child.stdout.take()?;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = tell.send(line.trim_end().to_owned());
    });
    told.recv_timeout(patience).ok()
}

/// In the background: no terminal can send signals to this process any more.
pub fn detach() {
    // Fails for the leader of a session, which has no terminal to lose.
    let _ = rustix::process::setsid();
}

/// In the background: tells the one who waits that the mount is ready, and lets go of the terminal and of the
/// current directory. What is written to stderr from now on goes to the log.
pub fn ready(text: &str, log: &File) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{READY}{text}")?;
    out.flush()?;
    std::env::set_current_dir("/")?;
    rustix::stdio::dup2_stdout(log)?;
    rustix::stdio::dup2_stderr(log)?;
    Ok(())
}
