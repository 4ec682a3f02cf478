//! Set-user and set-group bits go when somebody changes a file's content who may not keep them. The kernel leaves that
//! to us (`HANDLE_KILLPRIV_V2`), and so has no question of its own with each write. Which bits go is Linux's rule.

use std::sync::Arc;
use zest_codec::Operation;
use zest_codec::abi::{OPEN_KILL_SUIDGID, WRITE_KILL_SUIDGID, fattr};
use zest_types::request::SetAttr;
use zest_types::{Attr, Caller, Errno, Ino, Request, Response, ServeResult};
use zest_vfs::Vfs;
use zest_vfs::interrupt::Interrupt;

/// Whether the kernel wants the bits to go with this request.
pub(super) fn asked(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Write { arg, .. } => arg.write_flags & WRITE_KILL_SUIDGID != 0,
        Operation::SetAttr(arg) => arg.valid & fattr::KILL_SUIDGID != 0,
        Operation::Open(arg) => arg.open_flags & OPEN_KILL_SUIDGID != 0,
        _ => false,
    }
}

/// The bits that go: set-user always, set-group where the group may execute.
pub(super) fn lost(attr: &Attr) -> u16 {
    match (attr.is_file(), attr.mode & 0o010 != 0) {
        (false, _) => 0,
        (true, true) => attr.mode & 0o6000,
        (true, false) => attr.mode & 0o4000,
    }
}

/// A request on its way, in one step or several; each of them ends early when whoever asked is called away.
pub(super) struct Errand {
    pub vfs: Vfs,
    pub caller: Caller,
    pub interrupt: Arc<Interrupt>,
    /// What is done with the result.
    pub answer: Box<dyn FnOnce(ServeResult) + Send>,
}

impl Errand {
    fn step(
        self,
        caller: &Caller,
        request: Request<'_>,
        then: impl FnOnce(Errand, ServeResult) + Send + 'static,
    ) {
        let (vfs, interrupt) = (self.vfs.clone(), Arc::clone(&self.interrupt));
        let next = move |result| then(self, result);
        match vfs.now(caller, &request) {
            Some(result) => next(result),
            None => vfs.later(caller, request, Some(interrupt), next),
        }
    }

    /// The kernel has checked what this step is part of.
    fn unchecked(&self) -> Caller {
        Caller { check: false, ..self.caller }
    }

    fn last(self, request: Request<'_>) {
        let caller = self.caller;
        self.step(&caller, request, |errand, result| (errand.answer)(result));
    }

    /// Learns the mode that is left without the bits; `None` if there are none.
    fn left(self, ino: Ino, then: impl FnOnce(Errand, Result<Option<u16>, Errno>) + Send + 'static) {
        let system = self.unchecked();
        self.step(&system, Request::GetAttr { ino }, move |errand, found| {
            let left = found.and_then(|found| match found {
                Response::Attr { attr, .. } => {
                    Ok(Some(attr.mode & !lost(&attr)).filter(|mode| *mode != attr.mode))
                }
                _ => Err(Errno::EIO),
            });
            then(errand, left);
        });
    }

    /// Takes the bits away.
    fn take(self, ino: Ino, then: impl FnOnce(Errand, Result<(), Errno>) + Send + 'static) {
        self.left(ino, move |errand, left| match left {
            Ok(Some(mode)) => {
                let (set, system) = (SetAttr { mode: Some(mode), ..SetAttr::default() }, errand.unchecked());
                errand.step(&system, Request::SetAttr { ino, set, handle: None }, |errand, changed| {
                    then(errand, changed.map(drop));
                });
            }
            Ok(None) => then(errand, Ok(())),
            Err(errno) => then(errand, Err(errno)),
        });
    }

    /// Does a request with which the bits go, in the order in which Linux does it: before content is written, in the
    /// same step as another change of attributes, and with a truncating open only if there was one.
    pub fn losing(self, ino: Ino, request: Request<'_>) {
        match request.keep() {
            Err(write) => {
                let (ino, handle, offset) = (write.ino, write.handle, write.offset);
                let data = write.data.to_vec();
                self.take(ino, move |errand, taken| match taken {
                    Ok(()) => errand.last(Request::Write { ino, handle, offset, data: &data }),
                    Err(errno) => (errand.answer)(Err(errno)),
                });
            }
            Ok(Request::SetAttr { ino, set, handle }) => self.left(ino, move |errand, left| match left {
                Ok(left) => {
                    let set = SetAttr { mode: set.mode.or(left), ..set };
                    errand.last(Request::SetAttr { ino, set, handle });
                }
                Err(errno) => (errand.answer)(Err(errno)),
            }),
            Ok(open @ Request::Open { .. }) => self.open(ino, open),
            Ok(other) => self.take(ino, move |errand, taken| match taken {
                Ok(()) => errand.last(other),
                Err(errno) => (errand.answer)(Err(errno)),
            }),
        }
    }

    fn open(self, ino: Ino, open: Request<'_>) {
        let caller = self.caller;
        self.step(&caller, open, move |errand, opened| {
            let Ok(Response::Opened { handle, .. }) = opened else { return (errand.answer)(opened) };
            errand.take(ino, move |errand, taken| match taken {
                Ok(()) => (errand.answer)(opened),
                Err(errno) => {
                    let Errand { vfs, caller, answer, .. } = errand;
                    vfs.serve(&caller, Request::Release { ino, handle }, move |_| answer(Err(errno)));
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_codec::abi::{SetattrIn, WriteIn};
    use zest_types::{FileType, Time};

    #[test]
    fn which_bits_go() {
        let attr = |kind, mode| Attr::new(kind, mode, 1, 1, Ino::ROOT, Time::default());
        assert_eq!(lost(&attr(FileType::File, 0o6755)), 0o6000);
        assert_eq!(lost(&attr(FileType::File, 0o6745)), 0o4000, "set-group without execute is no privilege");
        assert_eq!(lost(&attr(FileType::File, 0o755)), 0);
        assert_eq!(lost(&attr(FileType::Directory, 0o6755)), 0);
    }

    #[test]
    fn only_where_the_kernel_says_so() {
        let write =
            |write_flags| Operation::Write { arg: WriteIn { write_flags, ..WriteIn::default() }, data: b"" };
        assert!(asked(&write(WRITE_KILL_SUIDGID)) && !asked(&write(1)));
        assert!(!asked(&Operation::SetAttr(SetattrIn { valid: fattr::SIZE, ..SetattrIn::default() })));
    }
}
