//! Words between a supervisor and its worker: one letter, some bytes, and descriptors, over a pair of sockets that keep
//! each word apart. Bounded; a word of a kind nobody knows is passed over.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zest_types::limits;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To a worker: begin a mount.
    Begin,
    /// To a worker: go on with a mount; its note and its descriptors come with it.
    GoOn,
    /// To a worker: hand the mount over to another one.
    HandOver,
    /// From a worker: it has the mount, and here is what the next one needs.
    Serving,
    /// From a worker: the mount can be used.
    Ready,
    /// From a worker: the mount ends, nobody shall take it over.
    Ending,
    /// From a worker: everything is written, the next one may come.
    HandedOver,
    /// From a worker: it can't hand over now, and goes on.
    Refused,
}

const KINDS: [(u8, Kind); 8] = [
    (b'b', Kind::Begin),
    (b'g', Kind::GoOn),
    (b'h', Kind::HandOver),
    (b'S', Kind::Serving),
    (b'R', Kind::Ready),
    (b'E', Kind::Ending),
    (b'H', Kind::HandedOver),
    (b'X', Kind::Refused),
];

/// A word.
#[derive(Debug)]
pub(super) struct Word {
    pub kind: Kind,
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// One end.
pub(super) struct Socket(OwnedFd);

impl Socket {
    pub fn new(fd: OwnedFd) -> Socket {
        Socket(fd)
    }

    pub fn pair() -> io::Result<(Socket, OwnedFd)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Socket(one), other))
    }

    /// Says a word. It fails when nobody is there any more.
    pub fn say(&self, kind: Kind, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let letter = KINDS.iter().find(|(_, known)| *known == kind).map_or(0, |(letter, _)| *letter);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(limits::PASSED_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors at once"));
        }
        let parts = [IoSlice::new(std::slice::from_ref(&letter)), IoSlice::new(bytes)];
        loop {
            match sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next word; `None` when the other end is gone.
    pub fn hear(&self) -> io::Result<Option<Word>> {
        loop {
            let mut bytes = vec![0; limits::WORD_BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(limits::PASSED_FDS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let len = match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) => message.bytes,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            if len == 0 {
                return Ok(None);
            }
            let mut fds = Vec::new();
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    fds.extend(received);
                }
            }
            bytes.truncate(len);
            let letter = bytes.remove(0);
            if let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == letter) {
                return Ok(Some(Word { kind: *kind, bytes, fds }));
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_apart_and_carry_descriptors() {
        let (one, other) = Socket::pair().unwrap();
        let other = Socket::new(other);
        let file = tempfile::tempfile().unwrap();
        let many = vec![file.as_fd(); limits::PASSED_FDS];
        one.say(Kind::Serving, b"note", &many).unwrap();
        one.say(Kind::Ready, b"", &[]).unwrap();
        assert!(one.say(Kind::Ready, b"", &vec![file.as_fd(); 2 * limits::PASSED_FDS]).is_err());
        let word = other.hear().unwrap().unwrap();
        assert_eq!((word.kind, &word.bytes[..], word.fds.len()), (Kind::Serving, &b"note"[..], many.len()));
        assert_eq!(other.hear().unwrap().unwrap().kind, Kind::Ready);
        drop(one);
        assert!(other.hear().unwrap().is_none());
        assert!(other.say(Kind::Begin, b"", &[]).is_err());
    }
}
