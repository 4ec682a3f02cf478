//! Which door a mount gets, and how it is opened.

use super::{Plan, explain, source};
use crate::door::{self, Door, Kernel, capabilities};
use crate::native::{self, Device, MountPlan, NativeDoor, Recorder, RingPlan, Ways};
use crate::volume::Volume;
use anyhow::Context;
use fuser::{MountOption, Session};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use zest_types::Ino;
use zest_vfs::Mount;

/// The ways from the kernel to a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DoorKind {
    /// Whichever is the best here.
    #[default]
    Auto,
    /// Our own, over rings of io_uring, or over the kernel's device where there are none.
    Uring,
    /// Our own, over the kernel's device.
    Dev,
    /// The portable one, of the library fuser.
    Fuser,
}

/// A door that is open; nobody has come through yet.
pub(super) enum OpenDoor {
    Fuser(Box<Session<Door>>),
    Native(native::Session<NativeDoor>),
}

impl OpenDoor {
    /// The kernel behind it, whose node 1 is this directory, for a thread that answers no requests.
    pub fn kernel(&self, root: Ino) -> io::Result<Arc<dyn Kernel>> {
        Ok(match self {
            OpenDoor::Fuser(session) => {
                Arc::new(door::Device::new(session.notifier(), session.as_fd(), root)?)
            }
            OpenDoor::Native(session) => Arc::new(native::NativeKernel::new(session.device(), root)),
        })
    }

    /// Serves until the mount is gone.
    pub fn run(self) -> io::Result<()> {
        match self {
            OpenDoor::Fuser(session) => session.run(),
            OpenDoor::Native(session) => session.run(),
        }
    }
}

/// Mounts, and agrees with the kernel, through our own door.
pub(super) fn open_native(
    mount: &Arc<Mount>,
    volume: &Volume,
    plan: &mut Plan,
) -> anyhow::Result<native::Session<NativeDoor>> {
    let source = &*source(plan, volume);
    let mut options = plan.kernel.clone();
    if plan.options.read_only {
        options.push(MountOption::RO);
    }
    let recorder = match &plan.record {
        Some(path) => {
            let recorder = Recorder::begin(path).with_context(|| {
                format!("the recording {} can't be made: name a new file", path.display())
            })?;
            Some(Arc::new(recorder))
        }
        None => None,
    };
    // Who may change nothing has no session that could hold locks.
    let locks = plan.door.shared && !plan.options.read_only;
    let served = NativeDoor::new(mount.vfs.clone(), native::Options { door: plan.door, locks })
        .context("the door's thread can't be started")?;
    let options = &*options;
    let nosuid = !options.contains(&MountOption::Suid) && !plan.door.capability_xattr;
    let wish = native::wish(plan.door.shared, mount.vfs.shared().acl, locks, nosuid);
    let (point, allow_other) = (&*plan.point, plan.allow_other);
    let (back, served) = (served.back(), Arc::new(served));
    let before = match &mut plan.life {
        Some(life) => {
            life.go_on(Arc::clone(&served)).context("the mount that is there can't be taken over")?
        }
        None => None,
    };
    let again = before.is_some();
    let mut session = match before {
        Some(session) => session,
        None => {
            let (fd, mounted) = MountPlan { point, source, allow_other, options }
                .mount()
                .map_err(|error| explain(point, &error))?;
            let device = Device::new(fd, recorder);
            let ways = Ways { threads: capabilities::reader_threads(), rings: rings(plan) };
            native::Session::begin(served, device, Some(mounted), &wish, ways)
                .map_err(|error| explain(point, &error))?
        }
    };
    if let Some(life) = &mut plan.life {
        if plan.door.told.is_some() {
            life.tells(&back, mount).context("what the kernel is told can't be written down")?;
        }
        life.serving(&mut session, mount, point, again)
            .context("the supervisor can't be told of the mount")?;
    }
    if locks || plan.door.told.is_some() {
        door::staff(&back, native::NativeKernel::new(session.device(), plan.door.root))
            .context("the threads that speak to the kernel can't be started")?;
    }
    Ok(session)
}

/// The rings a mount asks for.
fn rings(plan: &Plan) -> Option<RingPlan> {
    if plan.kind != DoorKind::Uring {
        return None;
    }
    let rings = RingPlan::here(plan.options.memory.total);
    match &rings {
        Some(rings) => tracing::debug!("{rings:?}: {} MiB at most", rings.bytes() >> 20),
        None => tracing::warn!(
            "all requests come over the device: --memory is too little for a ring for each processor, or there are gaps between processors"
        ),
    }
    rings
}
