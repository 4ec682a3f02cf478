//! How a mount ends: unmounted by somebody, told to by a signal, or dead. One thread hears of all that, and whatever
//! it was, everything acknowledged is written before the process ends, unless further signals say not to wait: where
//! something would be lost, the first of them is told what, and the next one takes it as it is.

use super::doors::OpenDoor;
use super::handing::Handing;
use super::staging;
use crate::mount_point::{PointError, leave};
use anyhow::{Context, anyhow, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use zest_host::{Arbiters, Role};
use zest_types::{Caller, Errno, Request};
use zest_vfs::Mount;
use zest_vfs::standing::Over;

/// How long files that are still open may keep a mount that was told to end.
const GRACE: Duration = Duration::from_secs(10);
/// How long it may take until the kernel lets go of a mount nobody uses.
const SETTLE: Duration = Duration::from_secs(10);
/// After this long of writing at the end the user is told what is going on.
const QUIET: Duration = Duration::from_secs(5);

/// What the coordinating thread hears of.
pub(super) enum Event {
    /// A signal to end.
    Signal,
    /// The door is closed: the mount is gone.
    Closed(io::Result<()>),
    /// Everything is written, or can't be.
    Flushed(Result<(), Errno>),
    /// Another process shall go on with the mount.
    HandOver,
    /// The volume is not there any more, or not the same: nothing may be written to it.
    Over(Over),
}

/// The door's threads, until they end.
pub(super) struct RunningDoor(Option<JoinHandle<()>>);

impl Drop for RunningDoor {
    fn drop(&mut self) {
        // After a forced end the door's threads may wait for a kernel that waits for us: they end with the process.
        if let Some(thread) = self.0.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

/// Lets the door in; tells when it is closed.
pub(super) fn run_door(door: OpenDoor, events: Sender<Event>) -> anyhow::Result<RunningDoor> {
    let thread = std::thread::Builder::new().name("zest-door".into()).spawn(move || {
        let _ = events.send(Event::Closed(door.run()));
    });
    Ok(RunningDoor(Some(thread.context("the door's thread can't be started")?)))
}

/// From now on signals that end a process end the mount in good order.
pub(super) fn catch_signals(events: Sender<Event>) -> anyhow::Result<()> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals can't be caught")?;
    std::thread::Builder::new()
        .name("zest-signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                tracing::info!("signal {signal}: the mount ends");
                if events.send(Event::Signal).is_err() {
                    return;
                }
            }
        })
        .context("the thread for signals can't be started")?;
    Ok(())
}

/// Tells how the last flush went, also when it was broken off.
struct Tell(Option<Sender<Event>>);

impl Tell {
    fn tell(&mut self, result: Result<(), Errno>) {
        if let Some(events) = self.0.take() {
            let _ = events.send(Event::Flushed(result));
        }
    }
}

impl Drop for Tell {
    fn drop(&mut self) {
        self.tell(Err(Errno::EIO));
    }
}

/// The end of a mount, to come.
pub(super) struct End<'a> {
    pub(super) heard: Receiver<Event>,
    pub(super) events: Sender<Event>,
    pub(super) mount: &'a Arc<Mount>,
    pub(super) arbiters: &'a Arbiters,
    pub(super) point: &'a Path,
    /// Where a supervisor has the mount, too.
    pub(super) handing: Option<Handing>,
}

/// How a process stops serving a mount.
pub(super) enum How {
    /// The mount is gone.
    Gone,
    /// Another process goes on with it.
    HandedOver,
}

impl End<'_> {
    /// Waits until the mount is gone, and takes it away when a signal asks for it; or until it is handed over.
    pub(super) fn wait(&self) -> anyhow::Result<How> {
        if let Some(handing) = &self.handing {
            handing.ready();
        }
        let mut first = self.heard.recv();
        while let (Ok(Event::HandOver), Some(handing)) = (&first, &self.handing) {
            if handing.hand_over(self.mount, self.arbiters) {
                return Ok(How::HandedOver);
            }
            first = self.heard.recv();
        }
        if let Some(handing) = &self.handing {
            handing.ending();
        }
        self.end(first).map(|()| How::Gone)
    }

    fn end(&self, first: Result<Event, RecvError>) -> anyhow::Result<()> {
        match first {
            Ok(Event::Closed(result)) => return self.closed(result),
            Ok(Event::Signal) => {}
            Ok(Event::Over(why)) => {
                tracing::error!(
                    "{}: {why}: the mount ends, and what is not written yet is dropped",
                    self.point.display()
                );
                leave(self.point, true)?;
                return Err(why.into());
            }
            Ok(Event::Flushed(_) | Event::HandOver) | Err(_) => {
                bail!("the mount at {} ended without a word", self.point.display())
            }
        }
        let patience = match leave(self.point, false) {
            Ok(()) => SETTLE,
            Err(PointError::Busy(_)) => {
                crate::log::tell(&format!(
                    "{} is in use: it is taken away now, and this process ends when its files are closed, in {} seconds, or at a second signal",
                    self.point.display(),
                    GRACE.as_secs()
                ));
                leave(self.point, true)?;
                // Those who have files open may go on; what they wrote so far is on its way.
                self.start_sync();
                GRACE
            }
            // Unmounted by somebody else in the same moment.
            Err(PointError::Io { error, .. }) if error.raw_os_error() == Some(libc::EINVAL) => SETTLE,
            Err(error) => return Err(error.into()),
        };
        match self.heard.recv_timeout(patience) {
            Ok(Event::Closed(result)) => self.closed(result),
            _ => {
                tracing::warn!("files at {} are still open and are cut off", self.point.display());
                Ok(())
            }
        }
    }

    fn closed(&self, result: io::Result<()>) -> anyhow::Result<()> {
        result.map_err(|error| anyhow!("the mount at {} died: {error}", self.point.display()))
    }

    fn start_sync(&self) {
        self.mount.vfs.serve(&Caller::SYSTEM, Request::SyncAll, |result| {
            if let Err(errno) = result {
                tracing::warn!("not everything could be written: {errno}");
            }
        });
    }

    /// Says what is left to do; answers when to say so again.
    fn still_storing(&self) -> Duration {
        let point = self.point.display();
        match &self.mount.vfs.shared().staging {
            Some(staging) => {
                let left = staging::words(staging);
                crate::log::tell(&format!(
                    "{point} is unmounted; {left} and go to the object store (a signal leaves them to the next mount)"
                ));
                QUIET * 2
            }
            None => {
                crate::log::tell(&format!(
                    "{point} is unmounted; what was written to it is still being stored (a signal shows how much, another gives that up)"
                ));
                Duration::MAX
            }
        }
    }

    /// What it means that the user waits no longer.
    fn given_up(&self) -> anyhow::Error {
        let shared = self.mount.vfs.shared();
        match shared.staging.as_ref().filter(|staging| staging.stats().waiting.blocks > 0) {
            Some(staging) if !shared.files.any_dirty() => {
                anyhow!(
                    "{}: mount the volume again with the same --cache-dir to store them",
                    staging::words(staging)
                )
            }
            _ => {
                let what = self.unflushed().unwrap_or_else(|| "what was under way".into());
                lost(&format!("given up at a signal: {what}"))
            }
        }
    }

    /// What would be lost by ending now, in words.
    fn unflushed(&self) -> Option<String> {
        let shared = self.mount.vfs.shared();
        let files = shared.files.dirty().iter().filter(|file| file.writer().pending_slices() > 0).count();
        let mib = shared.budget.used().div_ceil(1 << 20);
        (files > 0).then(|| format!("unflushed writes to {files} files, {mib} MiB"))
    }

    /// Writes everything and ends the session. Signals while that lasts ask what would be lost, and give up.
    pub(super) fn close(&self) -> anyhow::Result<()> {
        let (mount, mut tell) = (Arc::clone(self.mount), Tell(Some(self.events.clone())));
        self.arbiters.handle(Role::Metadata).spawn_fn(move || {
            actix::spawn(async move { tell.tell(mount.close().await) });
        });
        let (mut patience, mut warned) = (QUIET, false);
        loop {
            match self.heard.recv_timeout(patience) {
                Ok(Event::Flushed(Ok(()))) => return Ok(()),
                Ok(Event::Flushed(Err(errno))) => return Err(lost(errno.text())),
                Ok(Event::Signal) => match self.unflushed().filter(|_| !std::mem::replace(&mut warned, true))
                {
                    Some(what) => crate::log::tell(&format!(
                        "{}: {what}, would be lost, and are still being stored: another signal gives them up",
                        self.point.display()
                    )),
                    None => return Err(self.given_up()),
                },
                // The door of a forced end, closed after all; or who asks for a mount that ends.
                Ok(Event::Closed(_) | Event::HandOver) => {}
                Ok(Event::Over(why)) => return Err(why.into()),
                Err(RecvTimeoutError::Timeout) => patience = self.still_storing(),
                Err(RecvTimeoutError::Disconnected) => return Err(lost("input/output error")),
            }
        }
    }
}

fn lost(why: &str) -> anyhow::Error {
    anyhow!(
        "not everything could be written ({why}): what no fsync or close confirmed may be missing; see the log for why"
    )
}
