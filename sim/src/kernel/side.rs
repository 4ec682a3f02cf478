//! One kernel: what it answers by itself, and what it asks the mount.

use super::files::{Files, PAGE};
use super::posts;
use crate::devices::SimChance;
use crate::world::scene::Scene;
use bytes::Bytes;
use parking_lot::Mutex;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use zest_types::{Attr, Errno, Handle, Ino, Request, Response, ServeResult};
use zest_vfs::belief::{About, Backchannel, Lasting, Term, Ttl};
use zest_world::Clock;

/// How long an answer is on its way into the kernel at most, in microseconds.
const WAY: u64 = 2_000;

/// The kernel of one client.
pub struct Kernel {
    /// The mount it asks.
    pub scene: Rc<Scene>,
    files: Arc<Mutex<Files>>,
    back: Arc<Backchannel>,
    lasting: Lasting,
    chance: SimChance,
    /// Whose it is, for the timeline.
    client: usize,
}

impl Kernel {
    /// A kernel over a mount that was just made, with this time between heartbeats.
    #[must_use]
    pub fn new(scene: Rc<Scene>, client: usize, heartbeat: Duration, seed: u64) -> Kernel {
        let shared = scene.vfs.shared();
        let ttl = Ttl::told(heartbeat);
        let back = Backchannel::new(shared.files.clone(), shared.world.clock.clone(), ttl.longest());
        let (back, files) = (Arc::new(back), Arc::default());
        shared.ears.pass_on(back.clone());
        posts::staff(&back, &files, &scene.clock, seed);
        let lasting = Lasting { back: back.clone(), shared: shared.clone(), ttl };
        Kernel { scene, files, back, lasting, client, chance: SimChance::new(seed, "kernel") }
    }

    /// What a process that asks for this is answered.
    pub async fn ask(&self, request: Request<'static>) -> ServeResult {
        match request {
            Request::GetAttr { ino } => self.attr(ino).await.map(|attr| Response::Attr { ino, attr }),
            Request::Open { ino, .. } => {
                let answer = self.held(request).await;
                if let Ok(Response::Opened { keep_cache: false, .. }) = &answer {
                    self.files.lock().drop_pages(ino);
                }
                answer
            }
            Request::Read { ino, handle, offset, size } => {
                let bytes = self.read(ino, handle, offset, size).await?;
                Ok(Response::Data(vec![Bytes::from(bytes)]))
            }
            Request::Write { ino, offset, data, .. } => {
                let answer = self.scene.plain(request).await;
                if answer.is_ok() {
                    self.files.lock().written(ino, offset, data);
                }
                answer
            }
            Request::SetLock { .. } | Request::Flock { .. } => self.held(request).await,
            other => self.scene.plain(other).await,
        }
    }

    fn say(&self, text: impl Fn() -> String) {
        self.scene.tape.say(|| format!("kernel {}: {}", self.client, text()));
    }

    /// An answer takes its way.
    async fn way(&self) {
        self.scene.clock.sleep(Duration::from_micros(self.chance.below(WAY))).await;
    }

    async fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        if let Some(attr) = self.files.lock().attr(ino, self.scene.clock.mono()) {
            return Ok(attr);
        }
        let asked = self.files.lock().ask(ino);
        let term = Term::new(Ttl::SHARED, Some(&self.lasting), About::Node(ino));
        let Response::Attr { attr, .. } = self.scene.plain(Request::GetAttr { ino }).await? else {
            return Err(Errno::EIO);
        };
        let time = term.valid(ino, &attr).1;
        self.way().await;
        let until = self.scene.clock.mono() + time;
        let taken = self.files.lock().told(ino, &attr, asked, until);
        self.say(|| {
            let what = if taken { "is told" } else { "leaves out" };
            format!("{what} that inode {ino} has {} bytes, for {time:?}", attr.length)
        });
        Ok(attr)
    }

    /// Asks for attributes first where they are not believed, and shows what is there up to the length that is known.
    async fn read(&self, ino: Ino, handle: Handle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        self.attr(ino).await?;
        let mut bytes = Vec::new();
        let mut at = offset;
        loop {
            // A read that was cut short has shortened the file.
            let end = (offset + u64::from(size)).min(self.files.lock().length(ino));
            if at >= end {
                return Ok(bytes);
            }
            let (page, from) = (at / PAGE, (at % PAGE) as usize);
            if let Some(there) = self.files.lock().page(ino, page) {
                let upto = ((end - at) as usize + from).min(PAGE as usize);
                bytes.extend(&there[from..upto]);
                at += (upto - from) as u64;
                continue;
            }
            let whole = self.fetch(ino, handle, page).await?;
            let end = (offset + u64::from(size)).min(self.files.lock().length(ino));
            let upto = ((end.saturating_sub(at)) as usize + from).min(PAGE as usize);
            bytes.extend(&whole[from..upto]);
            at += (upto - from) as u64;
        }
    }

    /// A page, also where it may not be kept.
    async fn fetch(&self, ino: Ino, handle: Handle, page: u64) -> Result<Vec<u8>, Errno> {
        let asked = self.files.lock().ask(ino);
        let request = Request::Read { ino, handle, offset: page * PAGE, size: PAGE as u32 };
        let Response::Data(pieces) = self.scene.plain(request).await? else { return Err(Errno::EIO) };
        let mut bytes = pieces.concat();
        self.way().await;
        self.say(|| format!("reads page {page} of inode {ino}: {} bytes", bytes.len()));
        self.files.lock().fill(ino, page, &bytes, asked);
        bytes.resize(PAGE as usize, 0);
        Ok(bytes)
    }

    /// Some answers are held back by the door.
    async fn held(&self, request: Request<'static>) -> ServeResult {
        let hold = self.back.hold(&request);
        let answer = self.scene.plain(request).await;
        let (given, heard) = tokio::sync::oneshot::channel();
        hold.answer(answer, move |answer| {
            let _nobody_waits = given.send(answer);
        });
        heard.await.map_err(|_| Errno::EIO)?
    }
}
