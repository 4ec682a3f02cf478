//! The rings of a session, each with its thread: made before the kernel is told that there will be any, so that whatever
//! may fail has not failed it yet; then begun, all or none; and left when the session is over.

use super::super::device::Device;
use super::super::session::Handler;
use super::mailbox::Mailbox;
use super::plan::RingPlan;
use super::queue::Queue;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use zest_codec::Dialect;

/// What takes the mount away when a ring dies: who waits for it would wait for ever.
pub type Cut = Arc<dyn Fn() + Send + Sync>;

/// What the thread of a ring is told; if nothing more comes, it leaves.
enum Word {
    /// The kernel has agreed.
    Begin(Dialect),
    /// So have all others.
    Serve,
}

struct Ring {
    mailbox: Arc<Mailbox>,
    say: Sender<Word>,
    hear: Receiver<io::Result<()>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Ring {
    fn heard(&self) -> io::Result<()> {
        self.hear.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of a ring ended at once")))
    }
}

/// The rings of a session. Dropped before they serve, their threads leave.
pub struct Rings(Vec<Ring>);

impl Rings {
    /// Makes them, with threads.
    pub fn prepare<H: Handler>(
        handler: &Arc<H>,
        device: &Arc<Device>,
        plan: RingPlan,
        cut: &Cut,
    ) -> io::Result<Rings> {
        let mut rings = Vec::with_capacity(plan.queues);
        for number in 0..plan.queues {
            rings.push(begin(handler, device, plan, number, cut)?);
        }
        rings.iter().try_for_each(Ring::heard)?;
        Ok(Rings(rings))
    }

    /// The kernel has agreed: requests come through all rings from now on, or through none.
    pub fn serve(self, dialect: Dialect) -> io::Result<Rings> {
        let Rings(rings) = &self;
        let say =
            |word: fn(Dialect) -> Word| rings.iter().for_each(|ring| drop(ring.say.send(word(dialect))));
        say(Word::Begin);
        // Each is heard, so that none is left in the middle of it.
        let all: Vec<_> = rings.iter().map(Ring::heard).collect();
        all.into_iter().collect::<io::Result<()>>()?;
        say(|_| Word::Serve);
        Ok(self)
    }

    /// The session is over.
    pub fn leave(self) -> io::Result<()> {
        self.0.iter().for_each(|ring| ring.mailbox.close());
        let mut all = Ok(());
        for ring in self.0 {
            let ended = ring.thread.join().map_err(|_| io::Error::other("a thread of a ring panicked"));
            all = all.and(ended.and_then(|result| result));
        }
        all
    }
}

fn begin<H: Handler>(
    handler: &Arc<H>,
    device: &Arc<Device>,
    plan: RingPlan,
    number: usize,
    cut: &Cut,
) -> io::Result<Ring> {
    let mailbox = Arc::new(Mailbox::new()?);
    let ((say, told), (tell, hear)) = (channel(), channel());
    let (handler, device, mine, cut) =
        (Arc::clone(handler), Arc::clone(device), Arc::clone(&mailbox), Arc::clone(cut));
    let live = move || {
        let mut serves = false;
        let life = || live(&*handler, (device, mine), plan, number, (&told, &tell), &mut serves);
        let ended = catch_unwind(AssertUnwindSafe(life))
            .unwrap_or_else(|_| Err(io::Error::other("the thread of a ring panicked")));
        if let Err(error) = &ended
            && serves
        {
            tracing::error!("ring {number} is dead, and the mount ends: {error}");
            cut();
        }
        ended
    };
    let thread = std::thread::Builder::new().name(format!("zest-ring-{number}")).spawn(live)?;
    Ok(Ring { mailbox, say, hear, thread })
}

/// The life of a ring's thread.
fn live<H: Handler>(
    handler: &H,
    (device, mailbox): (Arc<Device>, Arc<Mailbox>),
    plan: RingPlan,
    number: usize,
    (told, tell): (&Receiver<Word>, &Sender<io::Result<()>>),
    serves: &mut bool,
) -> io::Result<()> {
    pin(number);
    let made = u16::try_from(number)
        .map_err(io::Error::other)
        .and_then(|number| Queue::new(number, plan, device, mailbox));
    let mut queue = match made {
        Ok(queue) => queue,
        Err(error) => {
            let _heard = tell.send(Err(error));
            return Ok(());
        }
    };
    let _heard = tell.send(Ok(()));
    let Ok(Word::Begin(dialect)) = told.recv() else { return Ok(()) };
    let _heard = tell.send(queue.register());
    let Ok(Word::Serve) = told.recv() else { return Ok(()) };
    *serves = true;
    queue.run(handler, dialect)
}

/// Keeps this thread on the processor whose requests it serves, and so its memory near to it. Processors that are not
/// there, or not for us, have a queue nevertheless.
fn pin(number: usize) {
    let mut set = CpuSet::new();
    if number >= CpuSet::MAX_CPU {
        return;
    }
    set.set(number);
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::debug!("the thread of ring {number} is not kept on its processor: {error}");
    }
}
