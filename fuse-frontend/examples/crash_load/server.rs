//! The process under test: started, waited for until its mount is there, killed without warning, its dead mount
//! taken away.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a mount may take to come or to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// A serving process and its mount point. Ends with this value, however that goes.
pub struct Server {
    child: Child,
    mount: PathBuf,
}

fn device(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|meta| meta.dev())
}

fn is_mounted(mount: &Path) -> bool {
    let above = mount.parent().and_then(|parent| device(parent).ok());
    device(mount).is_ok_and(|own| Some(own) != above)
}

fn wait_until(what: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

impl Server {
    /// Starts the command, whose output goes to `log`, and waits for the mount.
    pub fn start(command: &[String], mount: &Path, log: &Path) -> io::Result<Server> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| io::Error::other("no command that serves the mount"))?;
        let out = OpenOptions::new().create(true).append(true).open(log)?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()?;
        let mut server = Server { child, mount: mount.into() };
        let begin = Instant::now();
        while !is_mounted(&server.mount) {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended before it was ready: {status}")));
            }
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::other("the mount did not come up in a minute"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Kills the process and what it started, at once and without warning, and takes the dead mount away.
    pub fn kill(&mut self) -> io::Result<()> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let mut all = vec![pid.to_string()];
        all.extend(children.split_whitespace().map(str::to_owned));
        Command::new("kill").arg("-KILL").args(&all).stderr(Stdio::null()).status()?;
        self.child.wait()?;
        self.detach();
        Ok(())
    }

    fn detach(&self) {
        for (program, argument) in [("umount", "-l"), ("fusermount3", "-uz")] {
            let ran = Command::new(program).arg(argument).arg(&self.mount).stderr(Stdio::null()).status();
            if ran.is_ok_and(|status| status.success()) {
                return;
            }
        }
    }

    /// Asks the process to end with TERM and gives its status.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status()?;
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                wait_until(|| !is_mounted(&self.mount));
                return Ok(status);
            }
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::other("the server is still there a minute after TERM"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.kill().is_err() {
            eprintln!("the server, process {}, could not be ended", self.child.id());
        }
    }
}
