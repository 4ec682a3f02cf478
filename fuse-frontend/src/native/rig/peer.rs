//! The kernel's end of a door: sends requests with numbers of its own, and gets answers, in whichever order they come.

use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;
use zest_codec::abi::{InHeader, InitIn, InitOut, MAJOR, MINOR};
use zest_codec::kernel::{Origin, Told, request, told};
use zest_codec::{Dialect, Opcode, Operation};

/// How long an answer may take before a test fails, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the longest answer here.
const ROOM: usize = 256 << 10;

/// The kernel of a test.
pub struct Peer {
    socket: OwnedFd,
    last: u64,
    /// Answers nobody has asked for yet.
    early: BTreeMap<u64, Vec<u8>>,
}

/// The super-user, about this node.
pub fn root(nodeid: u64) -> Origin {
    Origin { nodeid, ..Origin::default() }
}

impl Peer {
    /// Says which version it speaks, and that it can do everything.
    pub(super) fn begin(socket: OwnedFd) -> Peer {
        Peer::offering(socket, 0)
    }

    /// The same, with these flags in the second word.
    pub(super) fn offering(socket: OwnedFd, flags2: u32) -> Peer {
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
        let mut peer = Peer { socket, last: 0, early: BTreeMap::new() };
        let flags = u32::MAX;
        let init =
            InitIn { major: MAJOR, minor: MINOR, max_readahead: 1 << 17, flags, flags2, ..InitIn::default() };
        peer.send(root(0), &Operation::Init(init));
        peer
    }

    pub(super) fn agreed(self) -> Peer {
        self.agreement().0
    }

    /// What was agreed on.
    pub(super) fn agreement(mut self) -> (Peer, InitOut) {
        let answer = self.answer(self.last);
        match told(Opcode::Init, 0, &answer) {
            Some((_, Told::Init(out))) => (self, out),
            other => panic!("{other:?}"),
        }
    }

    /// Sends a request; gives its number.
    pub fn send(&mut self, origin: Origin, operation: &Operation<'_>) -> u64 {
        self.last += 2;
        let origin = Origin { unique: self.last, ..origin };
        self.write(&request(&origin, operation, Dialect::default()));
        self.last
    }

    /// Sends bytes as they are, under the next number.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> u64 {
        self.last += 2;
        let mut bytes = bytes.to_vec();
        let at = std::mem::offset_of!(InHeader, unique);
        bytes[at..at + 8].copy_from_slice(&self.last.to_ne_bytes());
        self.write(&bytes);
        self.last
    }

    fn write(&self, bytes: &[u8]) {
        assert_eq!(rustix::io::write(&self.socket, bytes), Ok(bytes.len()));
    }

    fn read(&mut self) -> Option<(u64, Vec<u8>)> {
        let mut room = vec![0; ROOM];
        let len = rustix::io::read(&self.socket, &mut *room).ok()?;
        room.truncate(len);
        let unique = u64::from_ne_bytes(*room.get(8..16)?.first_chunk()?);
        Some((unique, room))
    }

    /// The answer to a request.
    pub fn answer(&mut self, unique: u64) -> Vec<u8> {
        loop {
            if let Some(answer) = self.early.remove(&unique) {
                return answer;
            }
            let (number, answer) = self.read().unwrap();
            assert!(self.early.insert(number, answer).is_none(), "request {number} was answered twice");
        }
    }

    /// Whether a request is unanswered after a while.
    pub fn waits(&mut self, unique: u64, time: Duration) -> bool {
        sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, Some(time)).unwrap();
        while !self.early.contains_key(&unique) {
            let Some((number, answer)) = self.read() else { break };
            assert!(self.early.insert(number, answer).is_none(), "request {number} was answered twice");
        }
        sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
        !self.early.contains_key(&unique)
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, origin: Origin, operation: &Operation<'_>) -> Vec<u8> {
        let unique = self.send(origin, operation);
        self.answer(unique)
    }

    /// The error of an answer; 0: it is none.
    pub fn error(answer: &[u8]) -> i32 {
        -i32::from_ne_bytes(*answer.get(4..8).and_then(<[u8]>::first_chunk).unwrap())
    }
}
