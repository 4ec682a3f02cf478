//! One queue: a ring, its places, and the thread that serves them. Each turn it gives the kernel all answers there are,
//! takes all requests that came, and hands them to whoever serves them, with one system call. Promises that each
//! request of a place is answered once, and that no request is left in the kernel while there may be more places.

use super::super::device::Device;
use super::super::session::{self, Back, Handler};
use super::mailbox::Mailbox;
use super::plan::RingPlan;
use super::slots::Slots;
use super::tally::Tally;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::sync::Arc;
use zerocopy::IntoBytes;
use zest_codec::abi::{RingCommand, ring_command};
use zest_codec::notify::Notification;
use zest_codec::record::Way;
use zest_codec::{Dialect, refuse};
use zest_types::{Errno, Ino, limits};

/// Commands handed over with one call.
const COMMANDS: u32 = 64;
/// Marks what the bell has to say.
const BELL: u64 = u64::MAX;
/// Numbers of our own requests; the kernel's begin at the other end.
const OURS: u64 = 1 << 62;
/// Files tried for one of them.
const REMINDERS: usize = 16;
/// Where an entry of the library has the number of vectors.
const LEN: usize = 24;

/// A queue, in its own thread.
pub struct Queue {
    // Dropped first: the kernel lets go of the places before they are gone.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    slots: Slots,
    tally: Tally,
    mailbox: Arc<Mailbox>,
    device: Arc<Device>,
    number: u16,
    depth: usize,
    /// Requests of our own so far.
    reminders: u64,
    /// Places given to the kernel with the next call.
    sent: Vec<u32>,
    /// Places with requests that came with the last one.
    came: Vec<u32>,
    /// Calls so far, and in which one each place had its last request.
    turn: u64,
    turns: Vec<u64>,
    over: bool,
}

impl Queue {
    /// The queue of this number, without a place yet. In the thread that will serve it.
    pub fn new(number: u16, plan: RingPlan, device: Arc<Device>, mailbox: Arc<Mailbox>) -> io::Result<Queue> {
        let answers = u32::try_from(2 * limits::RING_PLACES).unwrap_or(u32::MAX);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            // So that a call that does not wait takes what there is, too.
            .setup_taskrun_flag()
            .setup_cqsize(answers)
            .dontfork()
            .build(COMMANDS)?;
        let mut queue = Queue {
            ring,
            slots: Slots::new(plan.room),
            tally: Tally::new(plan.depth, limits::RING_PLACES),
            mailbox,
            device,
            number,
            depth: plan.depth,
            reminders: 0,
            sent: Vec::new(),
            came: Vec::new(),
            turn: 0,
            turns: Vec::new(),
            over: false,
        };
        queue.listen()?;
        Ok(queue)
    }

    /// Gives the kernel its first places, and fails if it does not take them.
    pub fn register(&mut self) -> io::Result<()> {
        self.add(self.depth)?;
        self.call(false)?;
        let added = self.tally.total();
        self.reap();
        if self.over || self.tally.total() < added {
            return Err(io::Error::other("the kernel takes no places for requests"));
        }
        Ok(())
    }

    /// Serves until the session is over.
    pub fn run<H: Handler>(&mut self, handler: &H, dialect: Dialect) -> io::Result<()> {
        while !self.over {
            for place in std::mem::take(&mut self.came) {
                self.one(handler, place, dialect);
            }
            self.give_back();
            self.answer()?;
            self.keep_up();
            let sleep = self.mailbox.sleep();
            let called = self.call(sleep);
            self.mailbox.awake();
            called?;
            self.reap();
            self.over |= self.mailbox.is_over();
        }
        Ok(())
    }

    fn one<H: Handler>(&mut self, handler: &H, place: u32, dialect: Dialect) {
        let Some(request) = self.slots.request(place as usize) else { return };
        let unique = request.unique;
        let Some(bytes) = request.bytes else {
            tracing::error!("the lengths of a request in the ring can't be: it is refused");
            return self.mailbox.put(place, refuse(unique, Errno::EIO.number()));
        };
        self.device.note(Way::Request, &[bytes]);
        let back = Back::Ring { mailbox: Arc::clone(&self.mailbox), place };
        session::one(handler, back, bytes, dialect);
    }

    /// Writes all answers there are into their places, and hands these over.
    fn answer(&mut self) -> io::Result<()> {
        while let Some((place, answer)) = self.mailbox.take() {
            let index = place as usize;
            if !self.slots.is_taken(index) {
                tracing::error!("an answer for a request that is answered is dropped");
                continue;
            }
            self.device.note_answer(&answer);
            let unique = self.slots.answer(index, &answer).or_else(|| {
                tracing::error!("an answer of {} bytes is longer than there is room for", answer.len());
                let number = answer.head().get(8..16).and_then(<[u8]>::first_chunk);
                let number = u64::from_ne_bytes(*number?);
                self.slots.answer(index, &refuse(number, Errno::EIO.number()))
            });
            let Some(commit_id) = unique else { continue };
            let command = command(&self.device, ring_command::COMMIT_AND_FETCH, commit_id, self.number, None);
            self.push(&command.user_data(u64::from(place)))?;
            self.sent.push(place);
            self.tally.went();
        }
        Ok(())
    }

    /// Adds places where requests wait, and reminds the kernel of what it put aside.
    fn keep_up(&mut self) {
        let wanted = self.tally.wanted();
        if wanted > 0
            && let Err(error) = self.add(wanted)
        {
            tracing::warn!("a ring gets no more places for requests: {error}");
            self.tally.enough();
        }
        if self.tally.remind(!self.sent.is_empty()) {
            self.remind();
        }
    }

    /// Causes a request in this queue: the kernel is asked for no bytes of a file. It must be one that it has, and no
    /// directory; what is waited for here is likely to be one.
    fn remind(&mut self) {
        for file in self.slots.files_waited_for().into_iter().take(REMINDERS) {
            self.reminders += 1;
            let unique = OURS | u64::from(self.number) << 40 | (self.reminders << 1 & 0xff_ffff_ffff);
            match self.device.notify(&Notification::Retrieve { unique, ino: Ino(file), offset: 0, size: 0 }) {
                Ok(()) => return tracing::trace!("reminder {} of queue {}", self.reminders, self.number),
                Err(error) => tracing::debug!("no reminder by way of node {file}: {error}"),
            }
        }
    }

    /// Gives back memory where there are many places. Only when all that came was read and no answer is written yet.
    fn give_back(&mut self) {
        let worth = !self.mailbox.holds_some() || self.tally.wanted() > 0;
        if self.tally.grown() && worth && self.ring.submission().is_empty() {
            self.slots.give_back(self.depth);
        }
    }

    /// Adds places.
    fn add(&mut self, places: usize) -> io::Result<()> {
        let first = self.slots.add(places)?;
        self.turns.resize(first + places, 0);
        let vectors: Vec<_> = (first..first + places).filter_map(|place| self.slots.vectors(place)).collect();
        for (vector, place) in vectors.iter().zip(first as u64..) {
            let command = command(&self.device, ring_command::REGISTER, 0, self.number, Some(vector));
            self.push(&command.user_data(place))?;
        }
        self.tally.added(vectors.len());
        // The kernel has read the vectors once they are submitted.
        self.submit()
    }

    /// Hears the bell from now on.
    fn listen(&mut self) -> io::Result<()> {
        let bell = types::Fd(self.mailbox.bell());
        let poll = opcode::PollAdd::new(bell, libc::POLLIN as u32).multi(true).build().user_data(BELL);
        self.push(&poll.into())
    }

    fn push(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        loop {
            // SAFETY: places and bell live as long as the ring, and vectors until they are submitted.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            passing(self.ring.submit())?;
        }
        Ok(())
    }

    /// Hands over, and takes what there is; if `sleep`, waits until there is something.
    fn call(&mut self, sleep: bool) -> io::Result<()> {
        passing(self.ring.submit_and_wait(usize::from(sleep)))
    }

    /// Looks at all that came.
    fn reap(&mut self) {
        let (mut lost, mut rearm) = (Vec::new(), false);
        self.turn += 1;
        for entry in self.ring.completion() {
            match (entry.user_data(), entry.result()) {
                (BELL, _) => rearm |= !cqueue::more(entry.flags()),
                (place, 0..) => {
                    self.came.push(place as u32);
                    if let Some(turn) = self.turns.get_mut(place as usize) {
                        *turn = self.turn;
                    }
                    self.tally.came();
                }
                (_, error) if is_over(-error) => self.over = true,
                (place, error) => lost.push((place, -error)),
            }
        }
        for (place, error) in lost {
            let why = io::Error::from_raw_os_error(error);
            tracing::error!("place {place} of queue {} is lost: {why}", self.number);
            self.tally.lost();
        }
        if rearm {
            self.mailbox.hush();
            self.over |= self.listen().is_err();
        }
        let (turn, turns) = (self.turn, &self.turns);
        let idle = self.sent.iter().any(|place| turns.get(*place as usize).is_some_and(|last| *last != turn));
        // What was not handed over yet says nothing.
        let handed_over = self.ring.submission().is_empty();
        if handed_over {
            self.sent.clear();
        }
        self.tally.settled(idle && handed_over);
    }
}

/// Whether an error says that the session is over.
fn is_over(error: i32) -> bool {
    matches!(error, libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV | libc::ECANCELED)
}

/// What is tried again with the next call is no error.
fn passing(called: io::Result<usize>) -> io::Result<()> {
    match called {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// A command of the kernel's FUSE device. The vectors of a new place must live until it is submitted.
fn command(
    device: &Device,
    operation: u32,
    commit_id: u64,
    number: u16,
    vectors: Option<&[libc::iovec; 2]>,
) -> squeue::Entry128 {
    let mut area = [0; 80];
    let words = RingCommand { commit_id, qid: number, ..RingCommand::default() };
    area.iter_mut().zip(words.as_bytes()).for_each(|(to, from)| *to = *from);
    let address = vectors.map(|vectors| vectors.as_ptr() as u64);
    let entry =
        opcode::UringCmd80::new(types::Fd(device.number()), operation).cmd(area).addr(address).build();
    match vectors {
        Some(vectors) => with_len(entry, vectors.len() as u32),
        None => entry,
    }
}

/// The library has no word for the length of a command's address.
fn with_len(mut entry: squeue::Entry128, len: u32) -> squeue::Entry128 {
    const { assert!(size_of::<squeue::Entry128>() == 128) };
    let field = (&raw mut entry).cast::<u8>().wrapping_add(LEN);
    // SAFETY: the entry is laid out as the kernel's, whose `len` these four bytes are, whatever was in them.
    unsafe { field.cast::<u32>().write_unaligned(len) };
    entry
}
