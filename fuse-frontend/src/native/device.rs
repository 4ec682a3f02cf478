//! One descriptor of the kernel's FUSE device: requests are read from it, answers to them are written to the same one,
//! gathered from where their parts lie.

use super::recorder::Recorder;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use zest_codec::record::Way;
use zest_codec::{Answer, Body};

/// Parts of an answer that are gathered without allocating.
const PARTS: usize = 32;
/// Parts the kernel takes at once.
const PARTS_MAX: usize = 1024;
/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
const CLONE: rustix::ioctl::Opcode = 0x8004_e500;

/// A descriptor.
pub struct Device {
    fd: OwnedFd,
    recorder: Option<Arc<Recorder>>,
}

/// The connection of one descriptor is shared with another.
struct Share(u32);

// SAFETY: the kernel reads one u32, which lives in this struct for the call, and writes nothing.
unsafe impl rustix::ioctl::Ioctl for Share {
    type Output = ();
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> rustix::ioctl::Opcode {
        CLONE
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(
        _: rustix::ioctl::IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}

impl Device {
    /// A descriptor that is connected already, or will be by mounting. What passes through it is recorded if there is
    /// a recorder.
    #[must_use]
    pub fn new(fd: OwnedFd, recorder: Option<Arc<Recorder>>) -> Device {
        Device { fd, recorder }
    }

    /// The kernel's device, not connected to anything yet.
    pub fn open() -> io::Result<OwnedFd> {
        Ok(File::options().read(true).write(true).open("/dev/fuse")?.into())
    }

    /// Another descriptor of the same connection, so that its thread meets no other one in the kernel.
    pub fn another(&self) -> io::Result<Device> {
        let fd = Device::open()?;
        let number = u32::try_from(self.fd.as_raw_fd()).map_err(|_| Errno::BADF)?;
        // SAFETY: `Share` says exactly what the kernel does with its pointer.
        unsafe { rustix::ioctl::ioctl(&fd, Share(number)) }?;
        Ok(Device { fd, recorder: self.recorder.clone() })
    }

    /// The descriptor, for another process that shall have it, too.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Waits for a request and reads it. 0 when there will be none any more.
    pub(super) fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut broken_off = false;
        loop {
            match rustix::io::read(&self.fd, &mut *room) {
                Ok(len) => {
                    if let Some(recorder) = &self.recorder {
                        recorder.note(Way::Request, &[room.get(..len).unwrap_or_default()]);
                    }
                    return Ok(len);
                }
                Err(error) => match after(error, &mut broken_off) {
                    After::Again => {}
                    After::Over => return Ok(0),
                    After::Dead => return Err(error.into()),
                },
            }
        }
    }

    /// The number of its descriptor, which it has as long as it lives.
    pub(super) fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Records what did not pass through it.
    pub(super) fn note(&self, way: Way, parts: &[&[u8]]) {
        if let Some(recorder) = &self.recorder {
            recorder.note(way, parts);
        }
    }

    /// The same for an answer.
    pub(super) fn note_answer(&self, answer: &Answer) {
        if self.recorder.is_some() {
            self.note(Way::Answer, &[&answer.to_vec()]);
        }
    }

    /// Sends an answer.
    pub(super) fn send(&self, answer: &Answer) -> io::Result<()> {
        match &answer.body {
            Body::None => self.write(&[IoSlice::new(answer.head())]),
            Body::Bytes(bytes) => self.write(&[IoSlice::new(answer.head()), IoSlice::new(bytes)]),
            Body::Pieces(pieces) if pieces.len() < PARTS => {
                let mut parts = [IoSlice::new(&[]); PARTS];
                let bytes = std::iter::once(answer.head()).chain(pieces.iter().map(|piece| &**piece));
                parts.iter_mut().zip(bytes).for_each(|(part, bytes)| *part = IoSlice::new(bytes));
                self.write(parts.get(..=pieces.len()).unwrap_or_default())
            }
            Body::Pieces(pieces) if pieces.len() < PARTS_MAX => {
                let mut parts = Vec::with_capacity(pieces.len() + 1);
                parts.push(IoSlice::new(answer.head()));
                parts.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
                self.write(&parts)
            }
            Body::Pieces(_) => self.write(&[IoSlice::new(&answer.to_vec())]),
        }
    }

    /// Tells the kernel something unasked. It may wait for requests that are under way, so only a thread that answers
    /// none may do this.
    pub fn notify(&self, told: &zest_codec::notify::Notification) -> io::Result<()> {
        self.write(&[IoSlice::new(&told.to_vec())])
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        if let Some(recorder) = &self.recorder {
            let bytes: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
            recorder.note(Way::Answer, &bytes);
        }
        loop {
            match rustix::io::writev(&self.fd, parts) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What an error of a read means.
#[derive(Debug, PartialEq, Eq)]
enum After {
    Again,
    Over,
    Dead,
}

/// `broken_off`: a read was broken off before. The unmount does that to a read that has just found a request, and only to
/// that one; a connection that was aborted does it to each.
fn after(error: Errno, broken_off: &mut bool) -> After {
    match error {
        // A request that was taken back while it was being read.
        Errno::NOENT | Errno::INTR | Errno::AGAIN => After::Again,
        Errno::CONNABORTED if !std::mem::replace(broken_off, true) => After::Again,
        // Unmounted.
        Errno::NODEV => After::Over,
        _ => After::Dead,
    }
}

/// Whether a descriptor's connection is over.
pub fn is_cut(fd: &impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut look = [PollFd::new(fd, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut look, Some(&at_once)) {
        Ok(_) => look.iter().any(|seen| seen.revents().contains(PollFlags::ERR)),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmount_in_the_middle_of_a_read_is_an_unmount() {
        let mut broken_off = false;
        assert_eq!(after(Errno::INTR, &mut broken_off), After::Again);
        assert_eq!(after(Errno::CONNABORTED, &mut broken_off), After::Again);
        assert_eq!(after(Errno::NODEV, &mut broken_off), After::Over);
        assert_eq!(after(Errno::CONNABORTED, &mut broken_off), After::Dead);
        assert_eq!(after(Errno::FAULT, &mut false), After::Dead);
    }
}
