//! The threads that actors run on: one actix system and one arbiter for each role. Which actor goes where is
//! decided by whoever starts it here.

use actix::{Arbiter, ArbiterHandle, System};
use futures::future::LocalBoxFuture;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// What an arbiter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The MetadataActor and what belongs to it.
    Metadata,
    /// CacheActor, UploaderActor and object requests.
    Data,
}

/// A running actix system.
pub struct Arbiters {
    system: System,
    metadata: ArbiterHandle,
    data: ArbiterHandle,
    thread: Option<JoinHandle<()>>,
}

impl Arbiters {
    /// Starts the system's thread and its arbiters.
    pub fn start() -> io::Result<Arbiters> {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new().name("zest-system".into()).spawn(move || {
            let runner = System::new();
            let made = runner.block_on(async {
                Ok::<_, io::Error>((System::current(), Arbiter::try_new()?, Arbiter::try_new()?))
            });
            match made {
                Ok((system, metadata, data)) => {
                    let _ = tell.send(Ok((system, metadata.handle(), data.handle())));
                    if let Err(error) = runner.run() {
                        tracing::error!("the actor system ended: {error}");
                    }
                    for arbiter in [metadata, data] {
                        let _ = arbiter.join();
                    }
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                }
            }
        })?;
        let (system, metadata, data) =
            told.recv().map_err(|_| io::Error::other("the actor system did not start"))??;
        Ok(Arbiters { system, metadata, data, thread: Some(thread) })
    }

    /// The arbiter of a role.
    #[must_use]
    pub fn handle(&self, role: Role) -> ArbiterHandle {
        match role {
            Role::Metadata => self.metadata.clone(),
            Role::Data => self.data.clone(),
        }
    }

    /// Runs a future on the arbiter of a role and waits for what it gives. `None` when the arbiter is gone or
    /// the future panicked. Must not be called on an arbiter's own thread.
    pub fn run<T: Send + 'static>(
        &self,
        role: Role,
        make: impl FnOnce() -> LocalBoxFuture<'static, T> + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = mpsc::channel();
        let sent = self.handle(role).spawn_fn(move || {
            let work = make();
            actix::spawn(async move {
                let _ = tell.send(work.await);
            });
        });
        if sent { told.recv().ok() } else { None }
    }

    /// Stops the arbiters and waits for their threads. Actors get no chance to finish what they do: that comes
    /// before.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.system.stop();
            let _ = thread.join();
        }
    }
}

impl Drop for Arbiters {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn futures_run_on_the_thread_of_their_role() {
        let arbiters = Arbiters::start().unwrap();
        let place = |role| {
            arbiters.run(role, || {
                Box::pin(async {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    std::thread::current().id()
                })
            })
        };
        let (metadata, data) = (place(Role::Metadata).unwrap(), place(Role::Data).unwrap());
        assert_ne!(metadata, data);
        assert_eq!(place(Role::Metadata), Some(metadata));
        let lost = arbiters.run(Role::Data, || Box::pin(async { panic!("the future that panics") }));
        assert_eq!(lost, None::<()>);
        assert_eq!(place(Role::Data), Some(data), "one panic must not end the arbiter");
        arbiters.stop();
    }
}
