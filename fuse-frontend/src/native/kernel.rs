//! The kernel, told to forget what it was told. Names are only marked as to be looked up again, so that nobody loses
//! the directory he works in.

use super::device::Device;
use crate::door::{Kernel, Root, note};
use std::sync::Arc;
use zest_codec::notify::Notification;
use zest_types::{Ino, Name};

/// The kernel behind a device, whose node 1 is this directory.
pub struct NativeKernel {
    device: Arc<Device>,
    root: Root,
}

impl NativeKernel {
    /// The kernel at this device.
    #[must_use]
    pub fn new(device: Arc<Device>, root: Ino) -> NativeKernel {
        NativeKernel { device, root: Root(root) }
    }

    fn node(&self, ino: Ino) -> Ino {
        Ino(self.root.outward(ino).0)
    }
}

impl Kernel for NativeKernel {
    fn forget_attr(&self, ino: Ino) {
        note(self.device.notify(&Notification::Node { ino: self.node(ino), offset: -1, len: 0 }));
    }

    fn forget_pages(&self, ino: Ino, offset: u64, len: u64) {
        let (offset, len) = (offset.cast_signed(), len.cast_signed());
        note(self.device.notify(&Notification::Node { ino: self.node(ino), offset, len }));
    }

    fn forget_name(&self, dir: Ino, name: &Name) {
        let (parent, name) = (self.node(dir), name.clone());
        note(self.device.notify(&Notification::Entry { parent, name, expire_only: true }));
    }
}
