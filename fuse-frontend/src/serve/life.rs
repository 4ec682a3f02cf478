//! What a mount with a supervisor has to do beside serving: go on with what an earlier process left, and tell what the
//! next one needs.

use super::ending::Event;
use crate::door::{Backchannel, Kept, Kernel};
use crate::mount_table::mounted_at;
use crate::native::{Device, Mounted, NativeDoor, NativeKernel, Session};
use crate::supervise::{Fixed, Keep, Link, Note, Start};
use crate::volume::KeptRecords;
use anyhow::Context;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use zest_codec::flags::InitFlags;
use zest_codec::init::Agreement;
use zest_codec::notify::Notification;
use zest_host::{Board, KeptFile};
use zest_types::Ino;
use zest_vfs::{Inheritance, Lost, Mount, Options};

/// What an earlier process left.
struct Before {
    note: Note,
    devices: Vec<OwnedFd>,
}

/// The life of a mount beyond this process.
pub struct Life {
    link: Link,
    fixed: Fixed,
    before: Option<Before>,
    generation: u32,
    /// The file whose lock says who has the volume.
    file: KeptFile,
    keep: Keep,
    lost: Vec<Ino>,
}

impl Life {
    /// Hears from the supervisor how to begin. To be called once, before there are threads.
    pub fn take(fixed: Fixed) -> anyhow::Result<Life> {
        let (link, start, keep) = Link::take()?;
        // As the list of processes shows it, whichever way the program was found.
        let _ = std::fs::write("/proc/self/comm", "zest");
        let (before, file) = match start {
            Start::First => (None, None),
            Start::Again(note, mut fds) => {
                let others = fds.split_off(note.devices.min(fds.len()));
                let file = others.into_iter().next().map(File::from);
                (Some(Before { note: *note, devices: fds }), file)
            }
        };
        let generation = before.as_ref().map_or(0, |before| before.note.generation + 1);
        Ok(Life { link, fixed, before, generation, file: KeptFile::of(file), keep, lost: Vec::new() })
    }

    /// Where the mount is, if it is there already.
    #[must_use]
    pub fn point(&self) -> Option<&Path> {
        self.before.as_ref().map(|before| before.note.point.as_path())
    }

    /// The way to the supervisor.
    pub(super) fn link(&self) -> Link {
        self.link.clone()
    }

    /// What of the records outlives this process.
    pub(super) fn records(&self) -> io::Result<KeptRecords> {
        let [one, other] = &self.keep.commits;
        Ok(KeptRecords { file: self.file.clone(), commits: [one.try_clone()?, other.try_clone()?] })
    }

    /// What the mount takes over, and whom it tells.
    pub(super) fn shape(&mut self, options: &mut Options) -> anyhow::Result<()> {
        let board = self.keep.unflushed.try_clone().and_then(Board::open);
        let (board, lost) = board.context("the memory of unflushed writes can't be read")?;
        self.lost = lost.clone().unwrap_or_default();
        options.unflushed = Some(Arc::new(board));
        options.inheritance = self.before.as_ref().map(|before| Inheritance {
            session: before.note.session,
            generation: self.generation,
            lost: lost.map_or(Lost::Any, Lost::Of),
        });
        if !self.lost.is_empty() {
            tracing::warn!("unflushed writes to {} files are lost: who syncs them is told", self.lost.len());
        }
        Ok(())
    }

    /// What the kernel is told is written down, and what an earlier process told is taken back.
    pub(super) fn tells(&self, back: &Backchannel, mount: &Mount) -> io::Result<()> {
        let [one, other] = &self.keep.told;
        let logs = [one.try_clone()?, other.try_clone()?];
        let (kept, before) = Kept::begin(logs, back.told.longest(), mount.vfs.shared().mono())?;
        back.told.keep(Box::new(kept), before);
        Ok(())
    }

    /// Goes on over the connection that is there; `None`: there is none yet.
    pub(super) fn go_on(&mut self, served: Arc<NativeDoor>) -> io::Result<Option<Session<NativeDoor>>> {
        let Some(Before { note, devices }) = self.before.take() else { return Ok(None) };
        let first = devices.first().ok_or_else(|| io::Error::other("there is no connection"))?;
        let mounted = Mounted::before(&note.point, first.as_fd())?;
        let (minor, flags, max_write) = note.agreed;
        let agreement = Agreement::of_before(minor, InitFlags(flags), max_write);
        let devices = devices.into_iter().map(|fd| Device::new(fd, None)).collect();
        Session::go_on(served, devices, mounted, agreement).map(Some)
    }

    /// Gives the supervisor what the next process needs. To be called before the first request is read. `again`: what
    /// was read and not answered before comes once more.
    pub(super) fn serving(
        &mut self,
        session: &mut Session<NativeDoor>,
        mount: &Mount,
        point: &Path,
        again: bool,
    ) -> io::Result<()> {
        let agreed = *session.agreement();
        if !agreed.flags.has(InitFlags::HAS_RESEND) {
            tracing::warn!(
                "this kernel (older than 6.9) can't give requests to another process: the mount ends with this one"
            );
            return Ok(());
        }
        let devices = session.devices()?;
        let device = mounted_at(point)?.map(|entry| entry.device).unwrap_or_default();
        let note = Note {
            fixed: self.fixed.clone(),
            point: point.to_owned(),
            device,
            session: mount.vfs.shared().session,
            generation: self.generation,
            agreed: (agreed.minor, agreed.flags.0, agreed.max_write),
            devices: devices.len(),
        };
        let file = self.file.file();
        let mut fds: Vec<_> = devices.iter().map(|device| device.fd()).collect();
        fds.extend(file.as_ref().map(AsFd::as_fd));
        self.link.serving(&note, &fds)?;
        if again {
            session.device().notify(&Notification::Resend)?;
        }
        Ok(())
    }

    /// The kernel forgets the pages and lengths of files whose writes are lost. In a thread of its own, which waits for
    /// requests that are answered here.
    pub(super) fn forget(&mut self, device: Arc<Device>, root: Ino) {
        let lost = std::mem::take(&mut self.lost);
        let work = move || {
            let kernel = NativeKernel::new(device, root);
            for ino in lost {
                kernel.forget_pages(ino, 0, 0);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("zest-forget".into()).spawn(work) {
            tracing::warn!("the kernel may show writes that are lost: {error}");
        }
    }

    /// Sets the volume, once it is known.
    pub(super) fn of_volume(&mut self, uuid: &str) {
        uuid.clone_into(&mut self.fixed.volume);
    }
}

/// Tells of each wish to hand the mount over, and when there is nobody any more who could have one.
pub(super) fn listen(link: Link, events: Sender<Event>) -> anyhow::Result<()> {
    let listen = move || {
        while link.asked_to_hand_over() {
            if events.send(Event::HandOver).is_err() {
                return;
            }
        }
        tracing::warn!("the mount's supervisor is gone: it goes on without one, and ends with this process");
    };
    let thread = std::thread::Builder::new().name("zest-supervised".into()).spawn(listen);
    thread.map(drop).context("the thread that listens to the supervisor can't be started")
}
