//! Memory that outlives a worker, since its supervisor has it, too: which files had unflushed writes, what the
//! embedded engine committed and did not write yet, and what the kernel was told to believe. The supervisor never looks at it.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many pieces there are.
const PIECES: usize = 5;

/// Pieces of memory, as files without names.
pub struct Keep {
    /// Files with unflushed writes.
    pub unflushed: File,
    /// Commits of the embedded engine that its file does not have yet.
    pub commits: [File; 2],
    /// What the kernel believes until it hears otherwise.
    pub told: [File; 2],
}

impl Keep {
    /// Empty ones.
    pub(super) fn new() -> io::Result<Keep> {
        let piece = |name: &str| Ok::<File, io::Error>(memfd_create(name, MemfdFlags::CLOEXEC)?.into());
        let pair = |name: &str| Ok::<[File; 2], io::Error>([piece(name)?, piece(name)?]);
        Ok(Keep { unflushed: piece("unflushed")?, commits: pair("commits")?, told: pair("told")? })
    }

    pub(super) fn fds(&self) -> [BorrowedFd<'_>; PIECES] {
        let ([one, two], [three, four]) = (&self.commits, &self.told);
        [self.unflushed.as_fd(), one.as_fd(), two.as_fd(), three.as_fd(), four.as_fd()]
    }

    /// Takes them from the beginning of what came over the socket; gives what is left.
    pub(super) fn take(fds: Vec<OwnedFd>) -> io::Result<(Keep, Vec<OwnedFd>)> {
        let mut fds = fds.into_iter().fuse();
        let mut next = || fds.next().map(File::from).ok_or_else(|| io::Error::other("memory is missing"));
        let keep = Keep { unflushed: next()?, commits: [next()?, next()?], told: [next()?, next()?] };
        Ok((keep, fds.collect()))
    }
}
