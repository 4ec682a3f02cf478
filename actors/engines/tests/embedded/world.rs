//! A world in which work elsewhere is done on the spot, or when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zest_types::Time;
use zest_world::objects::{ObjectError, ObjectMeta};
use zest_world::trace::Silent;
use zest_world::{BoxFuture, Chance, Clock, Objects, Offload, World};

pub struct Nothing;

impl Clock for Nothing {
    fn now(&self) -> Time {
        Time::default()
    }

    fn mono(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

impl Chance for Nothing {
    fn next_u64(&self) -> u64 {
        0
    }
}

impl Objects for Nothing {
    fn put(&self, key: &str, _: bytes::Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        let key = key.to_string();
        Box::pin(async move { Err(ObjectError::NotFound(key)) })
    }

    fn get(
        &self,
        key: &str,
        _: Option<std::ops::Range<u64>>,
    ) -> BoxFuture<'static, Result<bytes::Bytes, ObjectError>> {
        let key = key.to_string();
        Box::pin(async move { Err(ObjectError::NotFound(key)) })
    }

    fn delete(&self, _: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        Box::pin(async { Ok(()) })
    }

    fn list(&self, _: &str, _: &str, _: usize) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Does work at once and counts it.
#[derive(Default)]
pub struct OnTheSpot(pub AtomicUsize);

impl Offload for OnTheSpot {
    fn run(&self, _: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { job() })
    }
}

pub fn world_with(offload: Arc<dyn Offload>) -> World {
    World {
        clock: Arc::new(Nothing),
        chance: Arc::new(Nothing),
        offload,
        objects: Arc::new(Nothing),
        trace: Arc::new(Silent),
    }
}

pub fn world() -> World {
    world_with(Arc::new(OnTheSpot::default()))
}
