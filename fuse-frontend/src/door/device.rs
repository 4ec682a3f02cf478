//! The device behind a mount, for notifications. Names are only marked as to be looked up again: the kernel's own way
//! of forgetting a name (and `fuser` 0.18 knows no other) takes it away from under whoever works in that directory.
//! Kernels before 6.2 do it all the same.

use super::backchannel::Kernel;
use fuser::{INodeNo, Notifier};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use zest_types::{Ino, Name};

/// `FUSE_NOTIFY_INVAL_ENTRY`. Source: the kernel's interface, `linux/fuse.h`.
const INVAL_ENTRY: i32 = 3;
/// `FUSE_EXPIRE_ONLY`, likewise.
const EXPIRE_ONLY: u32 = 1;
/// Bytes of the header and of what stands before a name.
const HEAD: usize = 16 + 16;

/// The kernel.
pub struct Device {
    notifier: Notifier,
    device: File,
    root: super::convert::Root,
}

impl Device {
    /// The kernel at this device, whose node 1 is this directory.
    pub fn new(notifier: Notifier, device: BorrowedFd<'_>, root: Ino) -> io::Result<Device> {
        let device = File::from(device.try_clone_to_owned()?);
        Ok(Device { notifier, device, root: super::convert::Root(root) })
    }

    fn node(&self, ino: Ino) -> INodeNo {
        self.root.outward(ino)
    }
}

impl Kernel for Device {
    fn forget_attr(&self, ino: Ino) -> io::Result<()> {
        self.notifier.inval_inode(self.node(ino), -1, 0)
    }

    fn forget_pages(&self, ino: Ino, offset: u64, len: u64) -> io::Result<()> {
        self.notifier.inval_inode(self.node(ino), offset.cast_signed(), len.cast_signed())
    }

    fn forget_name(&self, dir: Ino, name: &Name) -> io::Result<()> {
        let words = expiry(self.node(dir).0, name.as_bytes());
        // One write is one notification.
        (&self.device).write(&words).map(drop)
    }
}

/// The notification that a name is to be looked up again.
fn expiry(dir: u64, name: &[u8]) -> Vec<u8> {
    let mut words = Vec::with_capacity(HEAD + name.len() + 1);
    let length = (HEAD + name.len() + 1) as u32;
    words.extend(length.to_ne_bytes());
    words.extend(INVAL_ENTRY.to_ne_bytes());
    words.extend(0u64.to_ne_bytes());
    words.extend(dir.to_ne_bytes());
    words.extend((name.len() as u32).to_ne_bytes());
    words.extend(EXPIRE_ONLY.to_ne_bytes());
    words.extend(name);
    words.push(0);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_laid_out_as_the_kernel_reads_it() {
        let words = expiry(7, b"name");
        assert_eq!(words.len(), 37);
        assert_eq!(words[..4], 37u32.to_ne_bytes());
        assert_eq!(words[4..8], 3i32.to_ne_bytes());
        assert_eq!(words[16..24], 7u64.to_ne_bytes());
        assert_eq!(words[24..28], 4u32.to_ne_bytes());
        assert_eq!((&words[32..36], words[36]), (&b"name"[..], 0));
    }
}
