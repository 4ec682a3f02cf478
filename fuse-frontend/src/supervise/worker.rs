//! The worker's side: what it is told when it starts, and what it tells.

use super::keep::Keep;
use super::note::Note;
use super::wire::{Kind, Socket, Word};
use anyhow::{Context, bail};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Set for a worker: the number of its socket.
pub(super) const MARK: &str = "ZEST_WORKER";

/// Whether this process serves a mount for a supervisor.
#[must_use]
pub fn is_worker() -> bool {
    std::env::var_os(MARK).is_some()
}

/// How a worker begins.
pub enum Start {
    /// With a mount that is still to be made.
    First,
    /// With one that is there, and the descriptors that belong to it.
    Again(Box<Note>, Vec<OwnedFd>),
}

/// The way to the supervisor.
#[derive(Clone)]
pub struct Link(Arc<Socket>);

impl Link {
    /// The way, how to begin, and the memory that outlives this process. To be called once, before there are threads.
    pub fn take() -> anyhow::Result<(Link, Start, Keep)> {
        let number = std::env::var(MARK).ok().and_then(|text| text.parse::<i32>().ok());
        let number =
            number.filter(|number| *number > 2).context("the socket to the supervisor is missing")?;
        // SAFETY: the supervisor left this descriptor open for us, and nobody else here knows of it. Should the number
        // be wrong, calls on it fail.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)
            .context("the socket to the supervisor is not open")?;
        let socket = Socket::new(fd);
        let Some(Word { kind, bytes, fds }) = socket.hear()? else { bail!("the supervisor is gone") };
        let (keep, fds) = Keep::take(fds)?;
        let start = match kind {
            Kind::Begin => Start::First,
            Kind::GoOn => Start::Again(serde_json::from_slice(&bytes)?, fds),
            _ => bail!("the supervisor does not say how to begin"),
        };
        Ok((Link(Arc::new(socket)), start, keep))
    }

    /// The mount is there: from now on another could take it over.
    pub fn serving(&self, note: &Note, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.say(Kind::Serving, &serde_json::to_vec(note)?, fds)
    }

    /// The mount can be used.
    pub fn ready(&self) {
        self.tell(Kind::Ready, "");
    }

    /// The mount ends: nobody shall take it over.
    pub fn ending(&self) {
        self.tell(Kind::Ending, "");
    }

    /// Everything is written: another one may come.
    pub fn handed_over(&self) {
        self.tell(Kind::HandedOver, "");
    }

    /// It can't be handed over now.
    pub fn refused(&self, why: &str) {
        self.tell(Kind::Refused, why);
    }

    fn tell(&self, kind: Kind, text: &str) {
        // A supervisor that is gone needs no word.
        let _ = self.0.say(kind, text.as_bytes(), &[]);
    }

    /// Waits until the mount is to be handed over; `false` when there is nobody any more who could ask for it.
    #[must_use]
    pub fn asked_to_hand_over(&self) -> bool {
        loop {
            match self.0.hear() {
                Ok(Some(Word { kind: Kind::HandOver, .. })) => return true,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return false,
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
