//! Requests that come a second time, since the process that read them first died before it answered. Most can simply
//! be done again. Those that change names may have been done already, and would fail because of it: then what is there
//! is looked at, and where it is what the request would have made, that is the answer. It can be wrong only where
//! somebody else made or took the same name in the same moment.

use zest_types::request::{RenameMode, XattrMode};
use zest_types::{Attr, Caller, Errno, FileType, Ino, Name, Request, Response, ServeResult};

/// Set in the number of a request that comes once more.
pub(super) const SENT_AGAIN: u64 = 1 << 63;
/// What is older was not made by a request that nobody answered yet, seconds.
const RECENT: i64 = 120;
/// `O_EXCL`.
const EXCL: u32 = 0o200;

/// What the request would leave behind.
#[derive(Clone, Debug)]
enum Trace {
    /// This error says that it is done.
    Error(Errno),
    /// A node of this kind under this name, made by whoever asked.
    Made(Ino, Name, FileType),
    /// The same, to be opened with this request.
    Created(Ino, Name, Request<'static>),
    /// This node under this name.
    Linked(Ino, Name, Ino),
    /// Something under this name.
    Moved(Ino, Name),
    /// Nothing that could be told from what was there before.
    None,
}

/// A request that comes once more.
#[derive(Clone, Debug)]
pub(super) struct Again {
    trace: Trace,
    uid: u32,
    now: i64,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Step {
    Answer(ServeResult),
    Ask(Request<'static>),
}

impl Again {
    /// `None` for those that can simply be done again.
    pub fn of(caller: &Caller, request: &Request<'_>, now: i64) -> Option<Again> {
        let trace = match request {
            Request::Unlink { .. } | Request::Rmdir { .. } => Trace::Error(Errno::ENOENT),
            Request::RemoveXattr { .. } => Trace::Error(Errno::ENODATA),
            Request::SetXattr { mode: XattrMode::Create, .. } => Trace::Error(Errno::EEXIST),
            Request::Mkdir { parent, name, .. } => Trace::Made(*parent, name.clone(), FileType::Directory),
            Request::Symlink { parent, name, .. } => Trace::Made(*parent, name.clone(), FileType::Symlink),
            Request::Mknod { parent, name, kind, .. } => Trace::Made(*parent, name.clone(), *kind),
            Request::Create { parent, name, mode, umask, flags } if flags & EXCL != 0 => {
                let (parent, name, flags) = (*parent, name.clone(), flags & !EXCL);
                let open = Request::Create { parent, name: name.clone(), mode: *mode, umask: *umask, flags };
                Trace::Created(parent, name, open)
            }
            Request::Link { ino, parent, name } => Trace::Linked(*parent, name.clone(), *ino),
            Request::Rename { mode: RenameMode::Exchange, .. } => Trace::None,
            Request::Rename { new_parent, new_name, .. } => Trace::Moved(*new_parent, new_name.clone()),
            _ => return None,
        };
        Some(Again { trace, uid: caller.uid, now })
    }

    /// Whether doing it again could undo it.
    pub fn is_unknown(&self) -> bool {
        matches!(self.trace, Trace::None)
    }

    /// What follows from the answer of the request itself.
    pub fn asked(&self, result: ServeResult) -> Step {
        let lookup = |parent: &Ino, name: &Name| Request::Lookup { parent: *parent, name: name.clone() };
        match (&self.trace, &result) {
            (Trace::Error(done), Err(errno)) if errno == done => Step::Answer(Ok(Response::Done)),
            (
                Trace::Made(parent, name, _)
                | Trace::Created(parent, name, _)
                | Trace::Linked(parent, name, _),
                Err(Errno::EEXIST),
            )
            | (Trace::Moved(parent, name), Err(Errno::ENOENT)) => Step::Ask(lookup(parent, name)),
            _ => Step::Answer(result),
        }
    }

    /// What follows from what is under the name.
    pub fn looked(&self, found: ServeResult) -> Step {
        let fresh = |attr: &Attr| attr.uid == self.uid && attr.ctime.sec >= self.now - RECENT;
        match (&self.trace, found) {
            (Trace::Moved(..), Ok(_)) => Step::Answer(Ok(Response::Done)),
            (Trace::Moved(..), Err(_)) => Step::Answer(Err(Errno::ENOENT)),
            (Trace::Linked(_, _, linked), Ok(Response::Entry { ino, attr })) if ino == *linked => {
                Step::Answer(Ok(Response::Entry { ino, attr }))
            }
            (Trace::Made(_, _, kind), Ok(Response::Entry { ino, attr }))
                if attr.kind == *kind && fresh(&attr) =>
            {
                Step::Answer(Ok(Response::Entry { ino, attr }))
            }
            (Trace::Created(_, _, open), Ok(Response::Entry { attr, .. }))
                if attr.is_file() && attr.length == 0 && fresh(&attr) =>
            {
                Step::Ask(open.clone())
            }
            _ => Step::Answer(Err(Errno::EEXIST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::Time;

    const NOW: i64 = 1_000_000;

    fn name() -> Name {
        Name::new(b"n").unwrap()
    }

    fn again(request: &Request<'_>) -> Again {
        Again::of(&Caller { uid: 7, ..Caller::SYSTEM }, request, NOW).unwrap()
    }

    fn found(kind: FileType, uid: u32, ago: i64) -> ServeResult {
        let attr = Attr::new(kind, 0o755, uid, 0, Ino(1), Time::new(NOW - ago, 0));
        Ok(Response::Entry { ino: Ino(9), attr })
    }

    fn answer(step: Step) -> ServeResult {
        match step {
            Step::Answer(result) => result,
            Step::Ask(request) => panic!("{request:?}"),
        }
    }

    #[test]
    fn a_name_that_is_gone_already_was_removed() {
        let unlink = again(&Request::Unlink { parent: Ino(1), name: name() });
        assert_eq!(answer(unlink.asked(Err(Errno::ENOENT))), Ok(Response::Done));
        assert_eq!(answer(unlink.asked(Err(Errno::EACCES))), Err(Errno::EACCES));
        let remove = again(&Request::RemoveXattr { ino: Ino(1), name: name() });
        assert_eq!(answer(remove.asked(Err(Errno::ENODATA))), Ok(Response::Done));
    }

    #[test]
    fn what_is_there_already_was_made_by_the_first_try_if_it_looks_like_that() {
        let make = again(&Request::Mkdir { parent: Ino(1), name: name(), mode: 0o755, umask: 0 });
        assert!(matches!(make.asked(Err(Errno::EEXIST)), Step::Ask(Request::Lookup { .. })));
        assert!(answer(make.looked(found(FileType::Directory, 7, 1))).is_ok());
        for other in [
            found(FileType::File, 7, 1),
            found(FileType::Directory, 8, 1),
            found(FileType::Directory, 7, 9999),
            Err(Errno::ENOENT),
        ] {
            assert_eq!(answer(make.looked(other)), Err(Errno::EEXIST));
        }
        let create = Request::Create { parent: Ino(1), name: name(), mode: 0o644, umask: 0, flags: EXCL | 2 };
        let opens = again(&create).looked(found(FileType::File, 7, 1));
        assert!(matches!(opens, Step::Ask(Request::Create { flags: 2, .. })), "{opens:?}");
        let link = again(&Request::Link { ino: Ino(9), parent: Ino(1), name: name() });
        assert!(answer(link.looked(found(FileType::File, 1, 9999))).is_ok());
        let link = again(&Request::Link { ino: Ino(8), parent: Ino(1), name: name() });
        assert_eq!(answer(link.looked(found(FileType::File, 1, 1))), Err(Errno::EEXIST));
    }

    #[test]
    fn a_move_is_done_when_its_end_is_there_and_an_exchange_is_never_done_twice() {
        let mut rename = Request::Rename {
            parent: Ino(1),
            name: name(),
            new_parent: Ino(2),
            new_name: name(),
            mode: RenameMode::Replace,
        };
        let moved = again(&rename);
        assert!(matches!(moved.asked(Err(Errno::ENOENT)), Step::Ask(Request::Lookup { parent: Ino(2), .. })));
        assert_eq!(answer(moved.looked(found(FileType::File, 1, 1))), Ok(Response::Done));
        assert_eq!(answer(moved.looked(Err(Errno::ENOENT))), Err(Errno::ENOENT));
        assert!(!moved.is_unknown());
        if let Request::Rename { mode, .. } = &mut rename {
            *mode = RenameMode::Exchange;
        }
        assert!(again(&rename).is_unknown());
        assert!(Again::of(&Caller::SYSTEM, &Request::Statfs { ino: Ino(1) }, NOW).is_none());
    }
}
