//! The kernel's door: FUSE requests in, answers out, through `fuser`. It translates and decides nothing; what a
//! request means is `vfs`'s business. No handler waits: whoever has the answer calls the reply.

mod answer;
pub mod capabilities;
mod convert;
mod ioctl;
mod kernel;

use fuser::Errno as KernelErrno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use zest_types::{Caller, Errno, Request, Response};
use zest_vfs::Vfs;

/// How long the kernel may believe what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// Attributes.
    pub attr: Duration,
    /// Names of anything but directories.
    pub entry: Duration,
    /// Names of directories.
    pub dir_entry: Duration,
    /// Names that do not exist; zero: they are asked for each time.
    pub negative: Duration,
}

impl Ttl {
    /// For a volume nobody else can change: an hour.
    pub const EXCLUSIVE: Ttl = {
        let hour = Duration::from_secs(3600);
        Ttl { attr: hour, entry: hour, dir_entry: hour, negative: hour }
    };

    /// For a volume that others change, too: a second, as JuiceFS does it.
    pub const SHARED: Ttl = {
        let second = Duration::from_secs(1);
        Ttl { attr: second, entry: second, dir_entry: second, negative: Duration::ZERO }
    };
}

/// What the door does by itself.
#[derive(Clone, Copy, Debug)]
pub struct DoorOptions {
    /// How long the kernel may believe what it was told.
    pub ttl: Ttl,
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
    /// Whether `vfs` checks permissions; off where the kernel does (`default_permissions`).
    pub check: bool,
}

impl Default for DoorOptions {
    fn default() -> DoorOptions {
        DoorOptions {
            ttl: Ttl::EXCLUSIVE,
            dir_cache: true,
            xattr: true,
            capability_xattr: false,
            selinux_xattr: false,
            shared: false,
            check: false,
        }
    }
}

/// A door of one mounted volume; shared by its reader threads.
pub struct Door {
    vfs: Vfs,
    options: DoorOptions,
}

impl Door {
    /// A door to this volume.
    #[must_use]
    pub fn new(vfs: Vfs, options: DoorOptions) -> Door {
        Door { vfs, options }
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
            Ok(request) => self.vfs.serve(&self.caller(asker), request, move |result| match result {
                Ok(response) => answer(reply, response),
                Err(errno) => reply.refuse(kernel_errno(what, errno)),
            }),
        });
    }

    fn caller(&self, asker: &fuser::Request) -> Caller {
        Caller { uid: asker.uid(), gid: asker.gid(), pid: asker.pid(), check: self.options.check }
    }
}

/// The kernel's error for one of ours, and what the log says about it. The only place where they meet.
fn kernel_errno(what: &'static str, errno: Errno) -> KernelErrno {
    match errno {
        Errno::EIO | Errno::ESTALE | Errno::ETIMEDOUT => tracing::warn!("{what} failed: {errno}"),
        Errno::ENOSPC | Errno::EDQUOT | Errno::ENOMEM => tracing::info!("{what} failed: {errno}"),
        _ => tracing::trace!("{what}: {errno}"),
    }
    KernelErrno::from_i32(errno.number())
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
