//! A place for a test: a directory of its own, the program, and mounts that are gone when the test is over.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a volume `v` and a mount point `m` to come.
pub struct Place {
    temp: tempfile::TempDir,
}

/// What a command said and how it ended.
pub struct Said {
    /// Exit status; −1 for a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// It worked.
    #[track_caller]
    pub fn good(self) -> Said {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    /// It failed with this status and said so in one line that has all these words.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) -> Said {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        assert_eq!(self.err.trim_end().lines().count(), 1, "one line, not: {}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        self
    }
}

impl Place {
    pub fn new() -> Place {
        let place = Place { temp: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.path("m")).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// The program, working in this place.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zest"));
        command.args(args).current_dir(self.temp.path()).stdin(Stdio::null());
        for name in ["ACCESS_KEY", "SECRET_KEY", "SESSION_TOKEN", "JFS_S3_VHOST_STYLE", "JFS_RSA_PASSPHRASE"]
        {
            command.env_remove(name);
        }
        command
    }

    pub fn zest(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// Mounts `v` at `m` in the background, making it where it is missing.
    #[track_caller]
    pub fn mount(&self) -> PathBuf {
        need_fuse();
        let said = self.zest(&["mount", "--create", "v", "m", "-d", "--log", "log"]).good();
        assert!(said.out.starts_with("OK, "), "{}", said.out);
        self.path("m")
    }

    #[track_caller]
    pub fn umount(&self) {
        self.zest(&["umount", "m"]).good();
    }

    /// Process that serves `v`.
    pub fn server(&self) -> u32 {
        let status: serde_json::Value =
            serde_json::from_str(&self.zest(&["status", "v"]).good().out).unwrap();
        let sessions = status["Sessions"].as_array().unwrap();
        sessions.last().unwrap()["ProcessID"].as_u64().unwrap().try_into().unwrap()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A failed test must not leave a mount behind, which would also keep the directory.
        let _ = self.command(&["umount", "--force", "m"]).output();
    }
}

/// These tests are about mounts: without FUSE they can only fail, and say why.
pub fn need_fuse() {
    assert!(
        Path::new("/dev/fuse").exists(),
        "there is no /dev/fuse: load the fuse module to run the mounted tests"
    );
}

/// Waits until something holds.
#[track_caller]
pub fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal.
pub fn kill(process: u32, signal: &str) {
    let status = Command::new("kill").args([format!("-{signal}"), process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Whether a process is there; one that ended and was not waited for is not.
pub fn lives(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
