//! POSIX as seen from above: the one entry for all doors. Knows handles, directory streams and what may be
//! answered on the spot; knows no kernel bytes, no engine and no object store.

pub mod actor;
pub mod belief;
pub mod bells;
pub mod blocks;
pub mod chunk_views;
pub mod dirs;
pub mod disks;
pub mod ears;
pub mod files;
pub mod handles;
pub mod ids;
pub mod inherited;
pub mod interrupt;
pub mod live;
pub mod mount;
mod now;
pub mod open_flags;
pub mod read;
pub mod reserve;
pub mod shared;
mod slow;
pub mod standing;
pub mod stream;
pub mod waiters;
pub mod warmup;

pub use disks::CacheDisks;
pub use inherited::{Inheritance, Lost};
pub use mount::{Mount, Options, Role, Stage, mount};

use actor::{Forgotten, Slow, SlowWrite};
use interrupt::Interrupt;
use shared::Shared;
use std::sync::Arc;
use zest_types::{Caller, Errno, Ino, Request, ServeResult};

/// A mounted volume, shared by all threads of a door. Cheap to clone.
#[derive(Clone)]
pub struct Vfs {
    shared: Arc<Shared>,
}

impl Vfs {
    /// An entry to this state.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Vfs {
        Vfs { shared }
    }

    /// Answers a request: on the spot where views and cache can, else from an actor's thread when it is done.
    /// Never blocks. `reply` is called exactly once.
    pub fn serve(
        &self,
        caller: &Caller,
        request: Request<'_>,
        reply: impl FnOnce(ServeResult) + Send + 'static,
    ) {
        match self.now(caller, &request) {
            Some(result) => reply(result),
            None => self.later(caller, request, None, reply),
        }
    }

    /// The answer, if views and cache have it; otherwise nothing was done.
    #[must_use]
    pub fn now(&self, caller: &Caller, request: &Request<'_>) -> Option<ServeResult> {
        if self.shared.inherited.is_some()
            && let Some(answer) = self.shared.revive(request)
        {
            return Some(answer);
        }
        self.shared.now(caller, request)
    }

    /// The kernel let go of a node: nobody has it open any more.
    pub fn forgotten(&self, ino: Ino) {
        if self.shared.inherited.is_some()
            && self.shared.files.forgotten(ino)
            && let Ok(links) = self.shared.links()
        {
            links.vfs.do_send(Forgotten(ino));
        }
    }

    /// Answers a request from an actor's thread when it is done. With `interrupt` it ends early when whoever asked is
    /// called away: reads and writes that wait are given up; everything else is done to its end, and only the dying
    /// are not kept waiting for it. `reply` is called exactly once.
    pub fn later(
        &self,
        caller: &Caller,
        request: Request<'_>,
        interrupt: Option<Arc<Interrupt>>,
        reply: impl FnOnce(ServeResult) + Send + 'static,
    ) {
        let links = match self.shared.links() {
            Ok(links) if links.vfs.connected() => links,
            _ => return reply(Err(Errno::EIO)),
        };
        if !self.shared.begin_waiting() {
            return reply(Err(Errno::EAGAIN));
        }
        let (caller, reply) = (*caller, Box::new(reply));
        // The number of waiting requests is bounded above, so the mailbox is too.
        match request.keep() {
            Ok(request) => links.vfs.do_send(Slow { caller, request, interrupt, reply }),
            // Pages of maps are written back by the kernel itself, which takes a short count for all of them.
            Err(write) => match self.shared.reserve.take(write.data, caller.pid == 0) {
                Some(payload) => {
                    let (handle, offset) = (write.handle, write.offset);
                    links.vfs.do_send(SlowWrite { caller, handle, offset, payload, interrupt, reply });
                }
                None => {
                    self.shared.end_waiting();
                    reply(Err(Errno::ENOMEM));
                }
            },
        }
    }

    /// State of the mount, for those who tend it.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
