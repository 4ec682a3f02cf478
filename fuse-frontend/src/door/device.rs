//! The device behind a mount, for notifications. Names are only marked as to be looked up again: the kernel's own way
//! of forgetting a name (and `fuser` 0.18 knows no other) takes it away from under whoever works in that directory.
//! Kernels before 6.2 do it all the same.

use super::Kernel;
use fuser::{INodeNo, Notifier};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use zest_codec::notify::Notification;
use zest_types::{Ino, Name};

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
    fn forget_attr(&self, ino: Ino) {
        note(self.notifier.inval_inode(self.node(ino), -1, 0));
    }

    fn forget_pages(&self, ino: Ino, offset: u64, len: u64) {
        note(self.notifier.inval_inode(self.node(ino), offset.cast_signed(), len.cast_signed()));
    }

    fn forget_name(&self, dir: Ino, name: &Name) {
        let parent = Ino(self.node(dir).0);
        let told = Notification::Entry { parent, name: name.clone(), expire_only: true };
        // One write is one notification.
        note((&self.device).write(&told.to_vec()).map(drop));
    }
}

/// A kernel that does not know the node has nothing to forget.
pub(crate) fn note(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("the kernel could not be told to forget: {error}");
    }
}
