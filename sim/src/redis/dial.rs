//! Dials over simulated TCP: what a client of a world is given in place of sockets.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use turmoil::net::TcpStream;
use zest_world::{BoxFuture, Dial, Stream, Target};

/// Connections between hosts of a world, by name. Counts how often one is asked for within a second.
#[derive(Default)]
pub struct SimDial {
    asked: Mutex<VecDeque<tokio::time::Instant>>,
    most: AtomicUsize,
}

impl SimDial {
    /// The most connections that were asked for within one second.
    #[must_use]
    pub fn most_in_a_second(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn count(&self) {
        let now = tokio::time::Instant::now();
        let mut asked = self.asked.lock();
        asked.push_back(now);
        while asked.front().is_some_and(|at| now - *at > Duration::from_secs(1)) {
            asked.pop_front();
        }
        self.most.fetch_max(asked.len(), Ordering::Relaxed);
    }
}

impl Dial for SimDial {
    fn dial(&self, target: &Target) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        self.count();
        let target = target.clone();
        Box::pin(async move {
            match target {
                Target::Tcp { host, port, tls: None } => {
                    let stream = TcpStream::connect((host.as_str(), port)).await?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                }
                other => Err(io::Error::other(format!("{other}: a world has plain TCP only"))),
            }
        })
    }
}
