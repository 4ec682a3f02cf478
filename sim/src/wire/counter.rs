//! Users that count, one after the other: whoever's turn it is finds what the one before him wrote, in whichever mount.
//! In two files it is a lock that gives the turn; in the third they agree among themselves, and open and close it for
//! each step. In the first and the third a number stands in its place; in the second each step is one more in a row, so
//! that the file grows.

use super::life::Shared;
use crate::devices::SimChance;
use crate::judge::Violation;
use crate::kernel::Kernel;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Handle, Ino, Name, Request, Response};
use zest_world::Clock;

/// Files with numbers.
const FILES: usize = 3;
/// The file with a row.
const ROW: usize = 1;
/// The file without locks.
const TURNS: usize = 2;
/// Users of each client that count.
pub const USERS: u64 = 2;
/// Bytes of a number.
const WIDTH: u64 = 8;
/// More than all users of a world count to.
const MOST: u64 = 4096;
/// Bytes that are read of a row.
const READ: u32 = 64 << 10;
/// How much longer than sessions of the dead somebody waits for a lock.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often an unlock that fails is tried again.
const TRIES: u32 = 500;
const O_RDWR: u32 = 2;

/// What must stand in a file.
#[derive(Clone, Copy, Default)]
struct Last {
    number: u64,
    /// Who wrote it: if he died with the lock, it may still be the one before.
    by: usize,
}

/// The files, and what must stand in them.
#[derive(Default)]
pub struct Counters {
    files: [Cell<Option<Ino>>; FILES],
    last: [Cell<Last>; FILES],
    /// Whose turn it is where there are no locks.
    turn: tokio::sync::Mutex<()>,
    /// A write failed where that may be: nothing is certain any more.
    broken: Cell<bool>,
}

/// Makes the files.
///
/// # Errors
/// What the volume says instead.
pub async fn create(kernel: &Kernel, counters: &Counters) -> Result<(), Errno> {
    for (number, file) in counters.files.iter().enumerate() {
        let name = Name::new(format!("counter{number}").as_bytes())?;
        let create = Request::Create { parent: Ino::ROOT, name, mode: 0o644, umask: 0, flags: O_RDWR };
        let Response::Created { ino, handle, .. } = kernel.ask(create).await? else { return Err(Errno::EIO) };
        kernel.ask(Request::Release { ino, handle }).await?;
        file.set(Some(ino));
    }
    Ok(())
}

/// One user of a client.
pub struct Counter {
    kernel: Rc<Kernel>,
    shared: Rc<Shared>,
    client: usize,
    /// Who he is to locks.
    owner: u64,
    chance: SimChance,
    lenient: bool,
}

/// Why a step was not made.
enum Stop {
    /// A call failed.
    Failed(&'static str, Errno),
    /// The lock was not given in time.
    NoLock,
}

/// A number as it stands in a file.
fn bytes_of(number: u64) -> &'static [u8] {
    static ALL: OnceLock<Vec<[u8; WIDTH as usize]>> = OnceLock::new();
    let all = ALL.get_or_init(|| (0..=MOST).map(u64::to_le_bytes).collect());
    &all[number.min(MOST) as usize]
}

fn or(what: &'static str) -> impl Fn(Errno) -> Stop {
    move |errno| Stop::Failed(what, errno)
}

impl Counter {
    /// User `user` of a client.
    #[must_use]
    pub fn new(shared: Rc<Shared>, kernel: Rc<Kernel>, client: usize, user: u64) -> Counter {
        let seed = shared.setup.seed.wrapping_mul(37).wrapping_add(client as u64 * 7 + user);
        let lenient = shared.setup.may_fail() || shared.setup.forgets();
        Counter { kernel, shared, client, owner: 50 + user, chance: SimChance::new(seed, "counter"), lenient }
    }

    /// Does all of it.
    pub async fn live(self) {
        let mut handles = Vec::new();
        for file in &self.shared.counters.files {
            let Some(ino) = file.get() else { return };
            match self.kernel.ask(Request::Open { ino, flags: O_RDWR }).await {
                Ok(Response::Opened { handle, .. }) => handles.push((ino, handle)),
                Ok(_) => return self.ended(Stop::Failed("open", Errno::EIO)),
                Err(errno) => return self.ended(Stop::Failed("open", errno)),
            }
        }
        for _ in 0..self.shared.setup.counts {
            self.pause(40).await;
            let file = self.chance.below(FILES as u64) as usize;
            let Some(opened) = handles.get(file) else { return };
            if self.over() {
                return;
            }
            if let Err(stop) = self.step(file, *opened).await {
                return self.ended(stop);
            }
        }
        for (ino, handle) in handles {
            let _closed = self.kernel.ask(Request::Release { ino, handle }).await;
        }
    }

    fn over(&self) -> bool {
        self.kernel.scene.is_over() || self.shared.counters.broken.get()
    }

    async fn pause(&self, most: u64) {
        self.kernel.scene.clock.sleep(Duration::from_millis(self.chance.between(0, most))).await;
    }

    fn lock(&self, ino: Ino, kind: LockKind) -> Request<'static> {
        let lock = RangeLock { kind, start: 0, end: i64::MAX as u64, pid: 1 };
        Request::SetLock { ino, owner: self.owner, lock, wait: true }
    }

    async fn step(&self, file: usize, (ino, handle): (Ino, Handle)) -> Result<(), Stop> {
        if file == TURNS {
            let _mine = self.shared.counters.turn.lock().await;
            return self.in_turn(ino).await;
        }
        let patience = self.shared.setup.session_over() + PATIENCE;
        let asked = tokio::time::timeout(patience, self.kernel.ask(self.lock(ino, LockKind::Write))).await;
        asked.map_err(|_| Stop::NoLock)?.map_err(or("lock"))?;
        let mut written = self.count(file, (ino, handle)).await;
        // Whoever wants to know that nothing was lost asks before he gives the lock back.
        if written.is_ok() && (self.lenient || self.chance.permille(200)) {
            written = self.kernel.ask(Request::Fsync { ino, handle }).await.map(drop).map_err(or("fsync"));
        }
        if self.lenient && written.is_err() {
            self.shared.counters.broken.set(true);
        }
        self.unlock(ino).await.map_err(or("unlock"))?;
        written
    }

    async fn in_turn(&self, ino: Ino) -> Result<(), Stop> {
        let opened = self.kernel.ask(Request::Open { ino, flags: O_RDWR }).await.map_err(or("open"))?;
        let Response::Opened { handle, .. } = opened else { return Err(Stop::Failed("open", Errno::EIO)) };
        let counted = self.count(TURNS, (ino, handle)).await;
        let flushed = self.kernel.ask(Request::Flush { ino, handle, lock_owner: 0 }).await;
        let released = self.kernel.ask(Request::Release { ino, handle }).await;
        counted.and(flushed.and(released).map(drop).map_err(or("close")))
    }

    /// Reads, judges, and writes the next.
    async fn count(&self, file: usize, (ino, handle): (Ino, Handle)) -> Result<(), Stop> {
        let number = self.read(file, (ino, handle)).await.map_err(or("read"))?;
        self.judge(file, number);
        let next = number.wrapping_add(1);
        self.shared.counters.last[file].set(Last { number: next, by: self.client });
        let offset = if file == ROW { number * WIDTH } else { 0 };
        let data = bytes_of(next);
        self.kernel.ask(Request::Write { ino, handle, offset, data }).await.map(drop).map_err(or("write"))
    }

    /// The number that stands there; of a row, how many there are, if they are right.
    async fn read(&self, file: usize, (ino, handle): (Ino, Handle)) -> Result<u64, Errno> {
        let size = if file == ROW { READ } else { WIDTH as u32 };
        let Response::Data(pieces) = self.kernel.ask(Request::Read { ino, handle, offset: 0, size }).await?
        else {
            return Err(Errno::EIO);
        };
        let bytes = pieces.concat();
        let last = bytes.len().saturating_sub(WIDTH as usize);
        Ok(bytes[last..].try_into().map_or(0, u64::from_le_bytes))
    }

    fn judge(&self, file: usize, number: u64) {
        let last = self.shared.counters.last[file].get();
        self.kernel.scene.tape.say(|| format!("client {} counts: file {file} is at {number}", self.client));
        let died = self.shared.dead.borrow().contains(&last.by);
        if number != last.number && !(died && number + 1 == last.number) && !self.over() {
            let text = format!(
                "it is the turn of client {} at counter{file}, and it reads {number}; client {} wrote {} before",
                self.client, last.by, last.number
            );
            self.kernel.scene.violated(Violation::new("lock sees", text));
        }
    }

    async fn unlock(&self, ino: Ino) -> Result<(), Errno> {
        let mut last = Errno::EIO;
        // Where answers may be errors, others wait until it works.
        for _ in 0..TRIES {
            match self.kernel.ask(self.lock(ino, LockKind::Unlock)).await {
                Ok(_) => return Ok(()),
                Err(errno) => last = errno,
            }
            if self.kernel.scene.is_over() || !self.lenient {
                break;
            }
            self.pause(400).await;
        }
        Err(last)
    }

    fn ended(&self, stop: Stop) {
        self.shared.counters.broken.set(true);
        let text = match stop {
            Stop::Failed(..) if self.lenient => return,
            Stop::Failed(what, errno) => {
                format!("client {} can't {what} what it counts: {errno}", self.client)
            }
            Stop::NoLock => {
                format!("client {} waits for a lock longer than sessions of the dead last", self.client)
            }
        };
        self.kernel.scene.violated(Violation::new("lock sees", text));
    }
}
