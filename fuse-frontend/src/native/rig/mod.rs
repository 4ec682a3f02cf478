//! A volume in memory, and doors to it at a pair of sockets in place of the kernel's device: tests speak to a door as
//! the kernel does, without a mount.

mod outside;
mod peer;

pub use outside::Gate;
pub use peer::{Peer, root};

use super::{Device, NativeDoor, Options, RingPlan, Session, Ways, wish};
use crate::door::{Door, DoorOptions};
use outside::Records;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use tokio::sync::oneshot;
use zest_codec::abi::InitOut;
use zest_data::Shares;
use zest_engines::MemoryEngine;
use zest_metadata::{Engine, format};
use zest_types::volume::Settings;
use zest_types::{Time, limits};
use zest_vfs::{Role, Stage, Vfs};

/// A mounted volume without a door.
pub struct Volume {
    pub vfs: Vfs,
    /// Where its records wait.
    pub records: Arc<Gate>,
    /// Where its blocks wait.
    pub blocks: Arc<Gate>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Here;

impl Stage for Here {
    fn start(&self, _: Role, begin: Box<dyn FnOnce() + Send>) {
        begin();
    }
}

impl Volume {
    /// An empty one, with as little memory for writes as there may be.
    pub fn begin() -> Volume {
        let (records, blocks) = (Arc::<Gate>::default(), Arc::<Gate>::default());
        let (stop, stopped) = oneshot::channel();
        let (begun, begins) = mpsc::channel();
        let gates = (Arc::clone(&records), Arc::clone(&blocks));
        let thread = std::thread::spawn(move || {
            let serve = serve(gates.0, gates.1, begun, stopped);
            actix::System::new().block_on(serve);
        });
        Volume { vfs: begins.recv().unwrap(), records, blocks, stop: Some(stop), thread: Some(thread) }
    }

    /// Our own door, for which `dying` tells who is being killed.
    pub fn native(
        &self,
        options: DoorOptions,
        locks: bool,
        dying: impl Fn(u32) -> bool + Send + Sync + 'static,
    ) -> Peer {
        let served = NativeDoor::with(self.vfs.clone(), Options { door: options, locks }, dying).unwrap();
        let (ours, kernels) = pair();
        let peer = Peer::begin(kernels);
        let wish = wish(false, false, locks, true);
        let ways = Ways { threads: 1, rings: None };
        let session = Session::begin(Arc::new(served), Device::new(ours, None), None, &wish, ways).unwrap();
        std::thread::spawn(move || session.run());
        peer.agreed()
    }

    /// Our own door, which was told of rings, at a kernel that says so much of them; and what was agreed on.
    pub fn with_rings(&self, rings: RingPlan, flags2: u32) -> (Peer, InitOut) {
        let options = Options { door: DoorOptions::default(), locks: false };
        let served = NativeDoor::new(self.vfs.clone(), options).unwrap();
        let (ours, kernels) = pair();
        let peer = Peer::offering(kernels, flags2);
        let (wish, ways) = (wish(false, false, false, true), Ways { threads: 1, rings: Some(rings) });
        let session = Session::begin(Arc::new(served), Device::new(ours, None), None, &wish, ways).unwrap();
        std::thread::spawn(move || session.run());
        peer.agreement()
    }

    /// The library's.
    pub fn fuser(&self, options: DoorOptions) -> Peer {
        let served = Door::new(self.vfs.clone(), options);
        let (ours, kernels) = pair();
        let peer = Peer::begin(kernels);
        let session =
            fuser::Session::from_fd(served, ours, fuser::SessionACL::All, fuser::Config::default()).unwrap();
        std::thread::spawn(move || session.run());
        peer.agreed()
    }
}

async fn serve(
    records: Arc<Gate>,
    blocks: Arc<Gate>,
    begun: mpsc::Sender<Vfs>,
    stopped: oneshot::Receiver<()>,
) {
    let engine = Arc::new(Records { inner: MemoryEngine::default(), gate: records });
    let mut settings = Settings::new("test-volume", "u", "mem", "mem");
    (settings.trash_days, settings.block_size_kib) = (0, 64);
    let first = format::new_volume(settings.to_json(), false, true, Time::new(1, 0));
    engine.commit(&first).await.unwrap();
    let memory = Shares { writes: limits::WRITE_BUDGET_MIN, blocks: 0, ..Shares::default() };
    let options = zest_vfs::Options { memory, ..zest_vfs::Options::default() };
    let world = outside::world(&blocks);
    let mount = zest_vfs::mount(world, engine, &settings, &options, &Here).await.unwrap();
    begun.send(mount.vfs.clone()).unwrap();
    let _stopped = stopped.await;
    mount.close().await.unwrap();
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.records.open();
        self.blocks.open();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A test that failed says why itself.
            let _ended = thread.join();
        }
    }
}

/// Sockets that keep each message apart, as the device does.
fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}
