//! Set-user and set-group bits go when somebody changes a file's content who may not keep them. The kernel leaves that
//! to us (`HANDLE_KILLPRIV_V2`), and so has no question of its own with each write. Which bits go is Linux's rule.

use super::session::Reply;
use zest_codec::Operation;
use zest_codec::abi::{OPEN_KILL_SUIDGID, WRITE_KILL_SUIDGID, fattr};
use zest_types::request::SetAttr;
use zest_types::{Attr, Caller, Errno, Handle, Ino, Request, Response, ServeResult};
use zest_vfs::Vfs;

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

/// A request that can be kept for a while.
pub(super) enum Kept {
    Write { ino: Ino, handle: Handle, offset: u64, data: Vec<u8> },
    Other(Request<'static>),
}

impl Kept {
    pub fn of(request: Request<'_>) -> Kept {
        match request.keep() {
            Ok(request) => Kept::Other(request),
            Err(write) => {
                let (ino, handle, offset) = (write.ino, write.handle, write.offset);
                Kept::Write { ino, handle, offset, data: write.data.to_vec() }
            }
        }
    }

    fn serve(self, vfs: &Vfs, caller: &Caller, reply: Reply, send: Answerer) {
        match self {
            Kept::Write { ino, handle, offset, data } => {
                let request = Request::Write { ino, handle, offset, data: &data };
                vfs.serve(caller, request, move |result| send(reply, result));
            }
            Kept::Other(request) => vfs.serve(caller, request, move |result| send(reply, result)),
        }
    }
}

/// How a result is answered.
pub(super) type Answerer = Box<dyn FnOnce(Reply, ServeResult) + Send>;

/// Takes the bits away, then does the request.
pub(super) fn lose_then(vfs: Vfs, caller: Caller, ino: Ino, kept: Kept, reply: Reply, send: Answerer) {
    let system = Caller { check: false, ..caller };
    let next = vfs.clone();
    vfs.serve(&system, Request::GetAttr { ino }, move |found| {
        let mode = match found {
            Ok(Response::Attr { attr, .. }) if lost(&attr) == 0 => {
                return kept.serve(&next, &caller, reply, send);
            }
            Ok(Response::Attr { attr, .. }) => attr.mode & !lost(&attr),
            Ok(_) => return send(reply, Err(Errno::EIO)),
            Err(errno) => return send(reply, Err(errno)),
        };
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        let last = next.clone();
        next.serve(&system, Request::SetAttr { ino, set, handle: None }, move |changed| match changed {
            Ok(_) => kept.serve(&last, &caller, reply, send),
            Err(errno) => send(reply, Err(errno)),
        });
    });
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
