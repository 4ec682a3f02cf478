//! Handing a mount over to another process: no request is begun any more, those under way are answered, everything is
//! written, and the session stays. Whatever goes wrong on the way, the mount goes on here as before.

use super::Plan;
use super::doors::OpenDoor;
use super::ending::Event;
use super::life;
use crate::native::{Device, NativeDoor, Parking};
use crate::supervise::Link;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};
use zest_codec::notify::Notification;
use zest_host::{Arbiters, Role};
use zest_vfs::Mount;

/// How long requests and writes under way may take.
const PATIENCE: Duration = Duration::from_millis(zest_types::limits::HAND_OVER_MS);
/// How often it is looked whether they are done.
const LOOK: Duration = Duration::from_millis(2);

/// What is needed for it.
pub(super) struct Handing {
    link: Link,
    parking: Arc<Parking>,
    device: Arc<Device>,
    door: Arc<NativeDoor>,
}

/// Listens for wishes to hand over; `None` where there is no supervisor.
pub(super) fn of(
    session: &OpenDoor,
    plan: &mut Plan,
    events: Sender<Event>,
) -> anyhow::Result<Option<Handing>> {
    let (Some(life), OpenDoor::Native(session)) = (&mut plan.life, session) else { return Ok(None) };
    life::listen(life.link(), events)?;
    let (parking, device) = (session.parking(), session.device());
    if plan.options.inheritance.is_some() {
        life.forget(Arc::clone(&device), plan.door.root);
    }
    Ok(Some(Handing { link: life.link(), parking, device, door: Arc::clone(session.handler()) }))
}

impl Handing {
    /// The mount can be used.
    pub fn ready(&self) {
        self.link.ready();
    }

    /// The mount ends: nobody shall go on with it.
    pub fn ending(&self) {
        self.link.ending();
    }

    /// Hands over; `false`: the mount goes on here, and whoever asked was told why.
    pub fn hand_over(&self, mount: &Arc<Mount>, arbiters: &Arbiters) -> bool {
        let begun = Instant::now();
        match self.lay_down(mount, arbiters, begun + PATIENCE) {
            Ok(()) => {
                tracing::info!("the mount is handed over after {} ms", begun.elapsed().as_millis());
                self.link.handed_over();
                true
            }
            Err(why) => {
                tracing::warn!("the mount is not handed over: {why}");
                self.parking.open();
                if let Err(error) = self.device.notify(&Notification::Resend) {
                    tracing::error!("requests that were read meanwhile stay without an answer: {error}");
                }
                self.link.refused(&why);
                false
            }
        }
    }

    fn lay_down(&self, mount: &Arc<Mount>, arbiters: &Arbiters, end: Instant) -> Result<(), String> {
        self.parking.close();
        // Who waits for a lock asks the next process again.
        while !self.parking.is_quiet() || mount.vfs.shared().waiting() > self.door.waits_for_locks() {
            if Instant::now() > end {
                return Err("requests wait for the store or the metadata server for too long".into());
            }
            std::thread::sleep(LOOK);
        }
        within(arbiters, end, Arc::clone(mount), |mount| Box::pin(async move { mount.settle().await }))?;
        within(arbiters, end, Arc::clone(mount), |mount| Box::pin(async move { mount.leave().await }))
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = Result<(), zest_types::Errno>>>>;

/// Does this on the thread for records, and waits for it until then.
fn within(
    arbiters: &Arbiters,
    end: Instant,
    mount: Arc<Mount>,
    work: fn(Arc<Mount>) -> Work,
) -> Result<(), String> {
    let (tell, told) = mpsc::channel();
    arbiters.handle(Role::Metadata).spawn_fn(move || {
        actix::spawn(async move {
            let _ = tell.send(work(mount).await);
        });
    });
    match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(result) => result.map_err(|errno| format!("not everything could be written: {errno}")),
        Err(_) => Err("not everything could be written in time".into()),
    }
}
