//! Starting workers: this program or another one, with the arguments that were given, and a socket.

use super::supervisor::Supervisor;
use super::wire::Socket;
use super::worker::MARK;
use anyhow::Context;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// How a worker is started.
pub struct Launch {
    /// The program's file, so that it is the same one also when something else has its name by now; none: this one.
    pub(super) program: Option<File>,
    /// Without secrets.
    pub(super) arguments: Vec<OsString>,
    /// The password for the metadata server, where one was among the arguments.
    pub(super) password: Option<OsString>,
    /// Relative paths among the arguments begin here.
    pub(super) directory: PathBuf,
}

impl Launch {
    /// This program again, with these arguments.
    pub fn again(given: &[OsString]) -> io::Result<Launch> {
        let (arguments, password) = crate::secret::for_child(given);
        Ok(Launch { program: None, arguments, password, directory: std::env::current_dir()? })
    }

    /// Starts a worker; gives our end of the way to it. `point`: the mount, where there is one already, in which
    /// nobody may look for anything before the worker serves.
    pub(super) fn start(&self, point: Option<&Path>) -> io::Result<(Child, Socket)> {
        let (ours, theirs) = Socket::pair()?;
        rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
        let program = match &self.program {
            Some(file) => format!("/proc/self/fd/{}", file.as_raw_fd()),
            None => "/proc/self/exe".to_owned(),
        };
        let inside = point.is_some_and(|point| self.directory.starts_with(point));
        let mut command = Command::new(program);
        if let Some((name, arguments)) = self.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        let child = command
            .current_dir(if inside { Path::new("/") } else { &self.directory })
            .envs(self.password.as_ref().map(|password| ("REDIS_PASSWORD", password)))
            .env(MARK, theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            // A terminal's signals come to the supervisor, which passes them on: they shall come once.
            .process_group(0)
            .spawn()?;
        drop(theirs);
        Ok((child, ours))
    }
}

/// Supervises a mount until it is over; gives the exit status. `log`: where to write what goes to the terminal
/// otherwise, once the mount is ready, for one in the background.
pub fn run(launch: Launch, log: Option<File>) -> anyhow::Result<ExitCode> {
    Supervisor::begin(launch, log).context("the mount's supervisor can't be started")?.run()
}
