//! Blocking work, without threads: it takes virtual time, then runs where it is. Work of a dead client is not
//! begun, and work during which the client dies is never reported as done.

use super::chance::SimChance;
use super::faults::{Fates, Fault};
use super::life::{Life, silence};
use std::sync::Arc;
use std::time::Duration;
use zest_world::{BoxFuture, Offload};

/// Runs blocking work in virtual time.
pub struct SimOffload {
    /// The incarnation.
    pub life: Arc<Life>,
    /// Draws delays.
    pub chance: Arc<SimChance>,
    /// Draws faults.
    pub fates: Arc<Fates>,
}

impl Offload for SimOffload {
    fn run(&self, what: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let slow = self.fates.strikes(Fault::SlowOffload);
        let delay = if slow { self.chance.between(100, 2_000) } else { self.chance.between(1, 3) };
        let life = self.life.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            if !life.effect("offload", what) {
                return silence().await;
            }
            job();
            if life.is_dead() {
                silence::<()>().await;
            }
        })
    }
}
