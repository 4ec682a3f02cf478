//! Makes commits durable: freezes what was collected and writes it in one transaction, in `Offload`. One flush
//! runs at a time; who asks while one runs waits for the next, and all who wait share it. After a failure the
//! frozen batch stays, readers go on, and the next flush tries it again, unless a sync of the disk failed.

use super::backend::Faults;
use super::label::Label;
use super::store::Store;
use super::tables::Shared;
use crate::kv::encode_key;
use parking_lot::Mutex;
use std::sync::Arc;
use zest_metadata::{EngineError, Key};
use zest_world::World;

/// The part that runs in `Offload`.
struct Inner {
    shared: Arc<Shared>,
    faults: Arc<Faults>,
    /// Held while the file is written or opened anew.
    writing: Mutex<(Store, Label)>,
    world: World,
}

/// How often was a flush begun, and how did the last failure read.
#[derive(Default)]
struct Attempts {
    begun: u64,
    failed: Option<(u64, EngineError)>,
}

/// See the module.
pub(super) struct Flusher {
    inner: Arc<Inner>,
    turn: futures::lock::Mutex<()>,
    attempts: Mutex<Attempts>,
}

impl Flusher {
    pub(super) fn new(shared: Arc<Shared>, store: Store, label: Label, world: &World) -> Flusher {
        let faults = store.faults();
        let inner = Inner { shared, faults, writing: Mutex::new((store, label)), world: world.clone() };
        Flusher { inner: Arc::new(inner), turn: futures::lock::Mutex::new(()), attempts: Mutex::default() }
    }

    /// Whether changes may be taken at all.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        self.inner.faults.check_sync()
    }

    /// Everything committed before the call is durable when this is `Ok`.
    pub(super) async fn flush(&self) -> Result<(), EngineError> {
        let want = self.inner.shared.committed();
        let seen = self.attempts.lock().begun;
        let _turn = self.turn.lock().await;
        if self.inner.shared.durable() >= want {
            return Ok(());
        }
        let number = {
            let mut attempts = self.attempts.lock();
            // A flush that began while this one waited and failed has answered for this one too.
            if let Some((number, error)) = &attempts.failed
                && *number > seen
            {
                return Err(error.clone());
            }
            attempts.begun += 1;
            attempts.begun
        };
        let outcome = self.run().await;
        if let Err(error) = &outcome {
            self.attempts.lock().failed = Some((number, error.clone()));
        }
        outcome
    }

    async fn run(&self) -> Result<(), EngineError> {
        let answer = Arc::new(Mutex::new(None));
        let (inner, slot) = (self.inner.clone(), answer.clone());
        let job = Box::new(move || {
            let outcome = inner.flush();
            *slot.lock() = Some(outcome);
        });
        self.inner.world.offload.run("meta flush", job).await;
        let outcome = answer.lock().take();
        outcome.unwrap_or_else(|| Err(EngineError::Failed("the flush was broken off".into())))
    }

    /// Reads; when that fails while the file is being opened anew, reads again from the new one.
    pub(super) fn settled_read<T>(
        &self,
        read: impl Fn() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        match read() {
            Err(EngineError::Failed(_)) => {
                drop(self.inner.writing.lock());
                read()
            }
            other => other,
        }
    }
}

impl Inner {
    fn flush(&self) -> Result<(), EngineError> {
        let (store, label) = &mut *self.writing.lock();
        self.faults.check_sync()?;
        let Some((batch, upto)) = self.shared.freeze() else { return Ok(()) };
        match store.write(&batch) {
            Ok(base) => self.shared.settle(base, upto),
            Err(error) => {
                self.world.tell("engine", "flush failed", upto, 0);
                // So that readers can go on. When it fails too, the next flush tries again.
                if let Ok(base) = store.reopen() {
                    self.shared.rebase(base);
                }
                return self.faults.check_sync().and(Err(error));
            }
        }
        self.world.tell("engine", "flushed", upto, batch.len() as u64);
        if let Some(Some(settings)) = batch.get(&encode_key(&Key::Setting))
            && label.write(settings).is_err()
        {
            // Only a copy for those who look: the next open writes it again.
            self.world.tell("engine", "label not written", upto, 0);
        }
        Ok(())
    }
}
