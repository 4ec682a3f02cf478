//! The kernel's door: FUSE requests in, answers out, through `fuser`. It translates and decides nothing; what a
//! request means is `vfs`'s business. No handler waits: whoever has the answer calls the reply.

mod answer;
pub mod capabilities;
mod convert;
mod device;
mod interrupts;
mod kept;
mod kernel;
mod staff;
mod term;
mod xattr;

pub use device::Device;
pub use interrupts::watch as watch_waiters;
pub use kept::Kept;
pub use staff::staff;
pub use zest_vfs::belief::{Backchannel, Kernel, Ttl};

pub(crate) use convert::Root;
pub(crate) use device::note;
pub(crate) use term::Term;
pub(crate) use xattr::xattr_gate;
pub(crate) use zest_vfs::belief::{About, Lasting};

use fuser::Errno as KernelErrno;
use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use zest_types::{Caller, Errno, Ino, Name, Request, Response};
use zest_vfs::Vfs;

/// What the door does by itself.
#[derive(Clone, Copy, Debug)]
pub struct DoorOptions {
    /// How long the kernel may believe what it was told.
    pub ttl: Ttl,
    /// The same where the store tells what others change, so that it can be taken back.
    pub told: Option<Ttl>,
    /// The directory that is the root of the mount.
    pub root: Ino,
    /// The kernel may keep listings of directories.
    pub dir_cache: bool,
    /// Extended attributes are served; otherwise the kernel is told so once and never asks again.
    pub xattr: bool,
    /// `security.capability` is served.
    pub capability_xattr: bool,
    /// `security.selinux` is served.
    pub selinux_xattr: bool,
    /// Others may change files while they are open here: the kernel drops its pages of a file when it sees another
    /// time or length.
    pub shared: bool,
    /// POSIX locks are kept in the volume, for all its clients; otherwise the kernel keeps them. `flock` is always the
    /// kernel's.
    pub posix_locks: bool,
    /// Whether `vfs` checks permissions; off where the kernel does (`default_permissions`).
    pub check: bool,
}

impl Default for DoorOptions {
    fn default() -> DoorOptions {
        DoorOptions {
            ttl: Ttl::EXCLUSIVE,
            told: None,
            root: Ino::ROOT,
            dir_cache: true,
            xattr: true,
            capability_xattr: false,
            selinux_xattr: false,
            shared: false,
            posix_locks: false,
            check: false,
        }
    }
}

/// A door of one mounted volume; shared by its reader threads.
pub struct Door {
    vfs: Vfs,
    options: DoorOptions,
    root: Root,
    back: Arc<Backchannel>,
    lasting: Option<Lasting>,
}

impl Door {
    /// A door to this volume.
    #[must_use]
    pub fn new(vfs: Vfs, options: DoorOptions) -> Door {
        let (back, lasting) = way_back(&vfs, &options);
        Door { root: Root(options.root), vfs, options, back, lasting }
    }

    /// How long an answer holds that is about no name.
    fn term(&self) -> Term {
        self.term_about(About::Other)
    }

    /// How long an answer about this holds.
    fn term_about(&self, about: About) -> Term {
        Term::new(self.root, self.options.ttl, self.lasting.as_ref(), about)
    }

    /// How long one about this name holds.
    fn term_of(&self, dir: Ino, name: &Name) -> Term {
        self.term_about(About::Name(dir, name.clone()))
    }

    /// The same for a name that is still to be judged.
    fn term_for(&self, dir: Ino, name: &OsStr) -> Term {
        match convert::name(name) {
            Ok(name) => self.term_of(dir, &name),
            Err(_) => self.term(),
        }
    }

    /// Its way back into the kernel, to be opened once there is a session.
    #[must_use]
    pub fn back(&self) -> Arc<Backchannel> {
        Arc::clone(&self.back)
    }

    /// Asks `vfs` and gives its answer to `reply`; a request that could not be translated is refused at once.
    fn ask<R: answer::Refuse>(
        &self,
        what: &'static str,
        asker: &fuser::Request,
        request: Result<Request<'_>, Errno>,
        reply: R,
        answer: impl FnOnce(R, Response) + Send + 'static,
    ) {
        guard(what, move || match request {
            Err(errno) => reply.refuse(kernel_errno(what, errno)),
            Ok(request) => {
                let hold = self.back.hold(&request);
                self.vfs.serve(&self.caller(asker), request, move |result| {
                    hold.answer(result, move |result| match result {
                        Ok(response) => answer(reply, response),
                        Err(errno) => reply.refuse(kernel_errno(what, errno)),
                    });
                });
            }
        });
    }

    fn caller(&self, asker: &fuser::Request) -> Caller {
        Caller { uid: asker.uid(), gid: asker.gid(), pid: asker.pid(), check: self.options.check }
    }
}

/// The way back into the kernel of a mount with these options, and what may be told for long because of it.
pub(crate) fn way_back(vfs: &Vfs, options: &DoorOptions) -> (Arc<Backchannel>, Option<Lasting>) {
    let shared = vfs.shared();
    let longest = options.told.map_or(Duration::ZERO, |ttl| ttl.longest());
    let (files, clock) = (Arc::clone(&shared.files), Arc::clone(&shared.world.clock));
    let back = Arc::new(Backchannel::new(files, clock, longest));
    if shared.inherited.is_some() {
        back.told.inherit(shared.mono());
    }
    let lasting = options.told.map(|ttl| {
        shared.ears.pass_on(Arc::clone(&back) as _);
        Lasting { back: Arc::clone(&back), shared: Arc::clone(shared), ttl }
    });
    (back, lasting)
}

impl Drop for Door {
    fn drop(&mut self) {
        self.back.close();
    }
}

/// The kernel's error for one of ours. The only place where `fuser`'s and ours meet.
fn kernel_errno(what: &'static str, errno: Errno) -> KernelErrno {
    log_errno(what, errno);
    KernelErrno::from_i32(errno.number())
}

/// What the log says about an error, whichever door it leaves through.
pub(crate) fn log_errno(what: &'static str, errno: Errno) {
    match errno {
        Errno::EIO | Errno::ESTALE | Errno::ETIMEDOUT => tracing::warn!("{what} failed: {errno}"),
        Errno::ENOSPC | Errno::EDQUOT | Errno::ENOMEM => tracing::info!("{what} failed: {errno}"),
        _ => tracing::trace!("{what}: {errno}"),
    }
}

/// Runs a handler; a panic in it ends the request (its reply, dropped, is an input/output error), not the mount.
fn guard(what: &'static str, handler: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(handler)).is_err() {
        tracing::error!("{what} panicked: the request was answered with an input/output error");
    }
}

/// Says that `vfs` answered something else than was asked: a mistake in this program.
fn misfit(what: &'static str, response: &Response) -> KernelErrno {
    tracing::error!("{what}: {response:?} is no answer to this request");
    KernelErrno::EIO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_keeps_its_number() {
        for errno in Errno::ALL {
            assert_eq!(kernel_errno("test", *errno).code(), errno.number());
        }
    }

    #[test]
    fn a_panic_stays_inside() {
        let mut reached = false;
        guard("test", || panic!("inside"));
        guard("test", || reached = true);
        assert!(reached);
    }
}
