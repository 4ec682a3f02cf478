//! A session with the kernel: agreeing at INIT, then threads that take requests, from the device or out of rings, and
//! hand them to whoever serves them. Promises that each request is answered exactly once. Knows nothing of files.

use super::buffer::Buffer;
use super::device::Device;
use super::mounting::Mounted;
use super::parking::{Parking, Place};
use super::uring::{Cut, Mailbox, RingPlan, Rings};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use zest_codec::flags::InitFlags;
use zest_codec::init::{Agreement, Verdict, Wish, negotiate};
use zest_codec::{Answer, Dialect, Fault, Incoming, Opcode, Operation, decode, refuse};
use zest_types::{Errno, limits};

/// `EPROTO`: the kernel speaks a version nobody here knows.
const EPROTO: i32 = 71;
/// Threads that read what does not come through rings.
const BESIDE_RINGS: usize = 2;

/// How requests come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Threads that read the device.
    pub threads: usize,
    /// Rings, where the kernel has them.
    pub rings: Option<RingPlan>,
}

/// Serves requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request, now or later, from any thread.
    fn handle(&self, incoming: &Incoming<'_>, reply: Reply);

    /// Hears what wants no answer: nodes the kernel lets go of, and interrupts.
    fn told(&self, _incoming: &Incoming<'_>) {}
}

/// Where the answer to a request goes.
#[derive(Clone)]
pub(super) enum Back {
    /// To the descriptor it was read from.
    Device(Arc<Device>),
    /// To the thread of its ring.
    Ring { mailbox: Arc<Mailbox>, place: u32 },
}

impl Back {
    fn give(&self, unique: u64, name: &str, answer: Answer) {
        let device = match self {
            Back::Device(device) => device,
            Back::Ring { mailbox, place } => return mailbox.put(*place, answer),
        };
        let Err(error) = device.send(&answer) else { return };
        match error.kind() {
            // Whoever asked is gone, or the whole mount is.
            io::ErrorKind::NotFound => tracing::trace!("nobody waits for the answer to {name} any more"),
            _ if error.raw_os_error() == Some(libc::ENODEV) => {}
            _ => {
                tracing::error!("the kernel does not take the answer to {name}: {error}");
                let _ = device.send(&refuse(unique, Errno::EIO.number()));
            }
        }
    }

    /// Nobody waits for an answer; but what came in a place of a ring leaves it by one.
    fn none(&self, unique: u64) {
        if let Back::Ring { mailbox, place } = self {
            mailbox.put(*place, Answer::with(unique, &()));
        }
    }
}

/// The answer to one request. Dropped without one, it is an input/output error.
pub struct Reply {
    back: Back,
    unique: u64,
    opcode: Opcode,
    open: bool,
}

impl Reply {
    /// The number of the request.
    #[must_use]
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Which request it is.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Sends the answer.
    pub fn send(mut self, answer: Answer) {
        self.open = false;
        self.back.give(self.unique, self.opcode.text(), answer);
    }

    /// Sends an error.
    pub fn refuse(self, errno: Errno) {
        let answer = refuse(self.unique, errno.number());
        self.send(answer);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.open {
            let name = self.opcode.text();
            tracing::error!("{name} was not answered: it becomes an input/output error");
            self.back.give(self.unique, name, refuse(self.unique, Errno::EIO.number()));
        }
    }
}

/// A session that agreed with the kernel and waits to be run.
pub struct Session<H> {
    handler: Arc<H>,
    device: Arc<Device>,
    /// Descriptors of further threads, where they are there already.
    more: Vec<Arc<Device>>,
    agreement: Agreement,
    threads: usize,
    parking: Arc<Parking>,
    rings: Option<Rings>,
    // Dropped last: unmounts if the kernel has not done so.
    _mounted: Option<Mounted>,
}

impl<H: Handler> Session<H> {
    /// Agrees with the kernel over a descriptor that is connected.
    pub fn begin(
        handler: Arc<H>,
        device: Device,
        mounted: Option<Mounted>,
        wish: &Wish,
        ways: Ways,
    ) -> io::Result<Session<H>> {
        let device = Arc::new(device);
        let cut = mounted.as_ref().map_or_else(|| Arc::new(|| {}) as Cut, Mounted::cut);
        let (agreement, rings) = agree(&handler, &device, wish, ways.rings, &cut)?;
        for missing in agreement.missing.names() {
            tracing::info!("the kernel does not know {missing}");
        }
        tracing::debug!("FUSE 7.{} with {:?}", agreement.minor, agreement.flags.names().collect::<Vec<_>>());
        Ok(Session {
            handler,
            device,
            more: Vec::new(),
            agreement,
            threads: ways.threads.max(1),
            parking: Arc::default(),
            rings,
            _mounted: mounted,
        })
    }

    /// Goes on over a connection that another process agreed on. What that one read and did not answer comes once
    /// more.
    pub fn go_on(
        handler: Arc<H>,
        devices: Vec<Device>,
        mounted: Mounted,
        agreement: Agreement,
    ) -> io::Result<Session<H>> {
        let mut devices = devices.into_iter().map(Arc::new);
        let device = devices.next().ok_or_else(|| io::Error::other("there is no connection"))?;
        let more: Vec<Arc<Device>> = devices.collect();
        let threads = more.len() + 1;
        let parking = Arc::default();
        Ok(Session {
            handler,
            device,
            more,
            agreement,
            threads,
            parking,
            rings: None,
            _mounted: Some(mounted),
        })
    }

    /// The descriptors of all threads, which are made now if they are not there. Requests that were read belong to the
    /// one they were read from: whoever has it, too, keeps them from being given up when this process ends.
    pub fn devices(&mut self) -> io::Result<Vec<Arc<Device>>> {
        while self.more.len() + 1 < self.threads {
            self.more.push(Arc::new(self.device.another()?));
        }
        Ok(std::iter::once(&self.device).chain(&self.more).map(Arc::clone).collect())
    }

    /// Where its threads can be made to wait.
    #[must_use]
    pub fn parking(&self) -> Arc<Parking> {
        Arc::clone(&self.parking)
    }

    /// What was agreed on.
    #[must_use]
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Who serves.
    #[must_use]
    pub fn handler(&self) -> &Arc<H> {
        &self.handler
    }

    /// A way to tell the kernel things unasked, for a thread that answers no requests.
    #[must_use]
    pub fn device(&self) -> Arc<Device> {
        Arc::clone(&self.device)
    }

    /// Serves until the mount is gone.
    pub fn run(mut self) -> io::Result<()> {
        let rings = self.rings.take().and_then(|rings| {
            let served = rings.serve(self.agreement.dialect);
            served.inspect_err(no_rings).ok()
        });
        if rings.is_some() {
            self.threads = self.threads.min(BESIDE_RINGS);
        }
        let mut threads: Vec<JoinHandle<io::Result<()>>> = Vec::new();
        let mut there = std::mem::take(&mut self.more).into_iter();
        for number in 1..self.threads {
            let device = match there.next().map_or_else(|| self.device.another().map(Arc::new), Ok) {
                Ok(device) => device,
                Err(error) => {
                    tracing::warn!(
                        "{} of {} threads read requests: {error}",
                        threads.len() + 1,
                        self.threads
                    );
                    break;
                }
            };
            threads.push(self.reader(device, number)?);
        }
        let first = self.reader(Arc::clone(&self.device), 0)?;
        let mut all = Ok(());
        for thread in std::iter::once(first).chain(threads) {
            let ended = thread.join().map_err(|_| io::Error::other("a thread of the door panicked"));
            all = all.and(ended.and_then(|result| result));
        }
        // Whoever reads the device hears first that it is over.
        all.and(rings.map_or(Ok(()), Rings::leave))
    }

    fn reader(&self, device: Arc<Device>, number: usize) -> io::Result<JoinHandle<io::Result<()>>> {
        let (handler, dialect) = (Arc::clone(&self.handler), self.agreement.dialect);
        let (max_write, place) = (self.agreement.max_write, self.parking.place());
        let read = move || serve(&*handler, &device, dialect, max_write, &place);
        std::thread::Builder::new().name(format!("zest-door-{number}")).spawn(read)
    }
}

/// Reads requests until there are none any more.
fn serve<H: Handler>(
    handler: &H,
    device: &Arc<Device>,
    dialect: Dialect,
    max_write: u32,
    place: &Place,
) -> io::Result<()> {
    let mut buffer = Buffer::new(max_write);
    loop {
        let len = device.read(buffer.room())?;
        if len == 0 {
            return Ok(());
        }
        match place.enter() {
            Some(_inside) => one(handler, Back::Device(Arc::clone(device)), buffer.filled(len), dialect),
            // The kernel has it and gives it to whoever goes on.
            None => place.wait(),
        }
    }
}

/// One request. A panic in its handler ends the request (its reply, dropped, is an input/output error), not the mount.
pub(super) fn one<H: Handler>(handler: &H, back: Back, bytes: &[u8], dialect: Dialect) {
    let incoming = match decode(bytes, dialect) {
        Ok(incoming) => incoming,
        Err(Fault::NoHeader) => {
            return tracing::error!("{} bytes from the kernel are no request", bytes.len());
        }
        Err(Fault::Refused { unique, opcode, errno }) => {
            tracing::debug!("request {opcode} of {} bytes is refused: {errno}", bytes.len());
            return back.give(unique, "a request", refuse(unique, errno.number()));
        }
    };
    let (opcode, unique) = (incoming.operation.opcode(), incoming.header.unique);
    let caught = catch_unwind(AssertUnwindSafe(|| match incoming.operation {
        Operation::Forget(_)
        | Operation::BatchForget(_)
        | Operation::Interrupt(_)
        | Operation::NotifyReply { .. } => {
            back.none(unique);
            handler.told(&incoming);
        }
        _ => handler.handle(&incoming, Reply { back, unique, opcode, open: true }),
    }));
    if caught.is_err() {
        tracing::error!("{} panicked: it is answered with an input/output error", opcode.text());
    }
}

/// The wish of a session with rings, whose requests must fit into their places.
fn with_rings(wish: &Wish, plan: RingPlan) -> Wish {
    let flags = wish.flags.or(InitFlags::OVER_IO_URING);
    Wish { flags, max_write: wish.max_write.min(plan.room), ..*wish }
}

fn no_rings(why: &io::Error) {
    tracing::warn!("there are no rings of io_uring, and all requests come over the device: {why}");
}

/// Rings that are ready to begin, if there shall be some and the kernel has them.
fn rings<H: Handler>(
    handler: &Arc<H>,
    device: &Arc<Device>,
    offered: InitFlags,
    plan: Option<RingPlan>,
    cut: &Cut,
) -> Option<Rings> {
    let plan = plan?;
    let prepared = if offered.has(InitFlags::OVER_IO_URING) {
        Rings::prepare(handler, device, plan, cut)
    } else {
        Err(io::Error::other(
            "the kernel offers none (Linux 6.14, and Y in /sys/module/fuse/parameters/enable_uring)",
        ))
    };
    prepared.inspect_err(no_rings).ok()
}

/// Answers INIT, the first request of all. Once the kernel is told of rings it waits for them, so they are made before.
fn agree<H: Handler>(
    handler: &Arc<H>,
    device: &Arc<Device>,
    wish: &Wish,
    plan: Option<RingPlan>,
    cut: &Cut,
) -> io::Result<(Agreement, Option<Rings>)> {
    let mut buffer = Buffer::new(limits::MAX_IO);
    loop {
        let len = device.read(buffer.room())?;
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "unmounted before it could be used"));
        }
        let (header, init) = match decode(buffer.filled(len), Dialect::default()) {
            Ok(Incoming { header, operation: Operation::Init(init), .. }) => (header, init),
            Ok(other) => {
                device.send(&refuse(other.header.unique, Errno::EIO.number()))?;
                continue;
            }
            Err(_) => return Err(io::Error::other("the kernel's first word is no FUSE request")),
        };
        let plain = negotiate(&init, wish);
        let offered = InitFlags::joined(init.flags, init.flags2);
        let rings = match plain {
            Verdict::Agreed(..) => rings(handler, device, offered, plan, cut),
            _ => None,
        };
        let verdict = match (&rings, plan) {
            (Some(_), Some(plan)) => negotiate(&init, &with_rings(wish, plan)),
            _ => plain,
        };
        match verdict {
            Verdict::Agreed(out, agreement) => {
                device.send(&Answer::with(header.unique, &out))?;
                return Ok((agreement, rings));
            }
            Verdict::Again(out) => device.send(&Answer::with(header.unique, &out))?,
            Verdict::TooOld => {
                device.send(&refuse(header.unique, EPROTO))?;
                let version = format!("{}.{}", init.major, init.minor);
                let why = format!("the kernel speaks FUSE {version}, and 7.31 (Linux 5.4) is needed");
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        }
    }
}
