//! `zest umount MOUNTPOINT`: takes a mount away and waits until the process that serves it has written everything.

use crate::control::{Wait, mount_name};
use crate::mount_point::{PointError, find, leave};
use anyhow::anyhow;
use clap::Args;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Arguments of `umount`.
#[derive(Args)]
pub(super) struct UmountArgs {
    /// The directory.
    #[arg(value_name = "MOUNTPOINT")]
    point: PathBuf,
    /// Take the name away also while files are open; they stay usable until they are closed.
    #[arg(short, long)]
    force: bool,
    /// Wait until everything is uploaded: this version always does.
    #[arg(long, hide = true)]
    flush: bool,
}

/// Programs that end just now may hold their files for a moment longer than they seem to: a busy mount is asked
/// again for this long before it is called busy.
const MOMENT: Duration = Duration::from_secs(1);

/// Unmounts; a mount that is busy at first is tried again for a moment.
fn leave_when_idle(point: &Path, force: bool) -> Result<(), PointError> {
    let begin = Instant::now();
    loop {
        match leave(point, force) {
            Err(PointError::Busy(_)) if begin.elapsed() < MOMENT => sleep(Duration::from_millis(20)),
            outcome => return outcome,
        }
    }
}

impl UmountArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mount = find(&self.point)?;
        // Before the mount is gone, and with it the process.
        let wait = Wait::begin(&mount_name(&mount.device));
        leave_when_idle(&mount.point, self.force)?;
        match wait {
            // Who forces does not wait for those who still have files open.
            Some(wait) if !self.force => {
                let slow = || {
                    crate::log::tell(&format!(
                        "waiting until what was written to {} is stored",
                        self.point.display()
                    ))
                };
                wait.end(slow).map_err(|why| anyhow!("{} is unmounted, but {why}", self.point.display()))
            }
            _ => Ok(()),
        }
    }
}
