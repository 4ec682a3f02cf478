//! Users that lock: whole files and ranges, alone and shared, waiting and not, over all clients. What they hold is
//! judged at every lock that is given; at rest nothing is locked any more, also where a client died with its locks.

use super::life::Shared;
use crate::devices::SimChance;
use crate::judge::Violation;
use crate::judge::locks::{Claim, Locks, Owner};
use crate::world::scene::Scene;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Handle, Ino, Name, Request, Response};
use zest_world::Clock;

/// Files that are locked.
pub const FILES: usize = 2;
/// Users of each client that lock.
pub const USERS: u64 = 2;
/// Bytes that are locked.
const BYTES: u64 = 20;
/// How long a lock of a dead client may stand when its session counts as dead.
const GRACE: Duration = Duration::from_secs(10);
/// How much longer than sessions of the dead somebody waits for a lock.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often an unlock that fails is tried again.
const TRIES: u32 = 500;
const O_RDWR: u32 = 2;

/// The files, and what is held.
#[derive(Default)]
pub struct Lockers {
    files: [Cell<Option<Ino>>; FILES],
    locks: RefCell<Locks>,
}

impl Lockers {
    /// A client is no more, and its locks may be taken.
    pub fn died(&self, client: usize) {
        self.locks.borrow_mut().died(client);
    }
}

/// Makes the files.
///
/// # Errors
/// What the volume says instead.
pub async fn create(scene: &Scene, lockers: &Lockers) -> Result<(), Errno> {
    for (number, file) in lockers.files.iter().enumerate() {
        let name = Name::new(format!("lock{number}").as_bytes())?;
        let create = Request::Create { parent: Ino::ROOT, name, mode: 0o644, umask: 0, flags: O_RDWR };
        let Response::Created { ino, handle, .. } = scene.plain(create).await? else {
            return Err(Errno::EIO);
        };
        scene.plain(Request::Release { ino, handle }).await?;
        file.set(Some(ino));
    }
    Ok(())
}

/// One user of a client: locks and unlocks, again and again.
pub struct Locker {
    scene: Rc<Scene>,
    shared: Rc<Shared>,
    owner: Owner,
    chance: SimChance,
    lenient: bool,
}

impl Locker {
    /// User `user` of a client.
    #[must_use]
    pub fn new(shared: Rc<Shared>, scene: Rc<Scene>, client: usize, user: u64) -> Locker {
        let seed = shared.setup.seed.wrapping_mul(31).wrapping_add(client as u64 * 7 + user);
        let lenient = shared.setup.may_fail() || shared.setup.forgets();
        Locker { scene, shared, owner: (client, user + 1), chance: SimChance::new(seed, "locker"), lenient }
    }

    /// Does all of it.
    pub async fn live(self) {
        let mut handles = Vec::new();
        for file in &self.shared.lockers.files {
            let Some(ino) = file.get() else { return };
            match self.scene.plain(Request::Open { ino, flags: O_RDWR }).await {
                Ok(Response::Opened { handle, .. }) => handles.push((ino, handle)),
                other => return self.complain("open", &format!("{other:?}")),
            }
        }
        for _ in 0..self.shared.setup.locks {
            self.pause(120).await;
            if self.scene.is_over() {
                return;
            }
            let claim = self.claim();
            let Some(opened) = handles.get(claim.file) else { return };
            if self.take(claim, *opened).await {
                self.pause(200).await;
                self.give_back(claim, *opened).await;
            }
        }
        for (ino, handle) in handles {
            drop(self.scene.plain(Request::Release { ino, handle }).await);
        }
    }

    async fn pause(&self, most: u64) {
        self.scene.clock.sleep(Duration::from_millis(self.chance.between(0, most))).await;
    }

    fn claim(&self) -> Claim {
        let file = self.chance.below(FILES as u64) as usize;
        let start = self.chance.below(BYTES);
        let end = self.chance.between(start, BYTES);
        let range = self.chance.permille(600).then_some((start, end));
        Claim { file, range, alone: self.chance.permille(600) }
    }

    fn request(&self, claim: Claim, ino: Ino, kind: LockKind, wait: bool) -> Request<'static> {
        let owner = self.owner.1;
        match claim.range {
            None => Request::Flock { ino, owner, kind, wait },
            Some((start, end)) => {
                Request::SetLock { ino, owner, lock: RangeLock { kind, start, end, pid: 1 }, wait }
            }
        }
    }

    /// Whether the lock was given.
    async fn take(&self, claim: Claim, (ino, _): (Ino, Handle)) -> bool {
        let kind = if claim.alone { LockKind::Write } else { LockKind::Read };
        let wait = self.chance.permille(700);
        self.scene.tape.say(|| format!("owner {:?} wants {claim:?}", self.owner));
        let patience = self.shared.setup.session_over() + PATIENCE;
        let ask = self.scene.plain(self.request(claim, ino, kind, wait));
        match tokio::time::timeout(patience, ask).await {
            Ok(Ok(_)) => {
                self.scene.tape.say(|| format!("owner {:?} has {claim:?}", self.owner));
                let verdict = self.shared.lockers.locks.borrow_mut().given(self.owner, claim);
                verdict.map_err(|violation| self.scene.violated(violation)).is_ok()
            }
            Ok(Err(Errno::EAGAIN)) if !wait => false,
            Ok(Err(errno)) => {
                self.complain("lock", &errno.to_string());
                // It may have been given nevertheless.
                true
            }
            Err(_) => {
                let text = "it was not there before the owners' sessions would have been over";
                self.complain(&format!("wait for {claim:?}"), text);
                false
            }
        }
    }

    async fn give_back(&self, claim: Claim, (ino, handle): (Ino, Handle)) {
        self.shared.lockers.locks.borrow_mut().returned(self.owner);
        self.scene.tape.say(|| format!("owner {:?} gives {claim:?} back", self.owner));
        // Closing any descriptor takes the owner's locks on ranges away.
        let closing = claim.range.is_some() && self.chance.permille(300);
        let back = match closing {
            true => Request::Flush { ino, handle, lock_owner: self.owner.1 },
            false => self.request(claim, ino, LockKind::Unlock, false),
        };
        // Where answers may be errors, others wait until it works.
        for _ in 0..TRIES {
            match self.scene.plain(back.clone()).await {
                Ok(_) => return,
                Err(errno) => self.complain("unlock", &errno.to_string()),
            }
            if self.scene.is_over() {
                return;
            }
            self.pause(400).await;
        }
    }

    fn complain(&self, what: &str, why: &str) {
        if !self.lenient {
            let text = format!("owner {} of client {} can't {what}: {why}", self.owner.1, self.owner.0);
            self.scene.violated(Violation::new("locks", text));
        }
    }
}

/// Nobody locks any more: every lock can be had, at the latest when the sessions of the dead are over.
pub async fn settle(shared: &Shared, scene: &Scene) -> Result<(), Violation> {
    let deadline = scene.clock.mono() + shared.setup.session_over() + GRACE;
    for (number, file) in shared.lockers.files.iter().enumerate() {
        let Some(ino) = file.get() else { return Ok(()) };
        let (owner, start, end) = (99, 0, BYTES);
        let range = |kind| RangeLock { kind, start, end, pid: 1 };
        let asks = |kind| {
            [
                Request::Flock { ino, owner, kind, wait: false },
                Request::SetLock { ino, owner, lock: range(kind), wait: false },
            ]
        };
        for ask in asks(LockKind::Write) {
            while let Err(errno) = scene.plain(ask.clone()).await {
                if scene.clock.mono() > deadline || errno != Errno::EAGAIN {
                    let text =
                        format!("at rest file lock{number} can't be locked: {errno}; its owner is gone");
                    return Err(Violation::new("locks", text));
                }
                scene.clock.sleep(Duration::from_millis(500)).await;
            }
        }
        for ask in asks(LockKind::Unlock) {
            drop(scene.plain(ask).await);
        }
    }
    Ok(())
}
