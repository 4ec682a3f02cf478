//! A world from its beginning to its end: incarnation after incarnation, a crash where the plan has one, and what
//! came of it. Runs inside a sealed universe; turmoil carries the client, and its virtual time is the world's.

use super::incarnation::{self, Media, Progress, Task};
use super::scene::Bench;
use crate::devices::tape::{Reached, Stamped};
use crate::devices::{DiskMedia, Fates, Fault, Life, ObjectMedia, SimChance, Tape};
use crate::judge::Violation;
use crate::plan::more::PAST_TRASH;
use crate::plan::{Ending, Round, Setup};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use zest_engines::memory::MemoryEngine;
use zest_types::Time;

/// Step of the world's control: crashes are noticed at its end. The clock inside runs by the millisecond.
const TICK: Duration = Duration::from_millis(200);
/// Virtual time after which an incarnation that is not done hangs.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Metadata are durable this long after they were answered, fsync or not.
const DURABLE_AFTER: i64 = 1;

/// What came of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Over all events, in order.
    pub digest: u64,
    /// Number of events.
    pub events: u64,
    /// The first broken rule.
    pub violation: Option<Violation>,
    /// How often each class of fault happened.
    pub fired: BTreeMap<Fault, u64>,
    /// Requests with their kinds of answers.
    pub reached: BTreeSet<Reached>,
    /// The events.
    pub tape: Vec<Stamped>,
    /// What was said, with its time in microseconds.
    pub words: Vec<(u64, String)>,
}

impl Outcome {
    /// What a tape says of a world that ended by a panic.
    #[must_use]
    pub fn panicked(text: String, tape: &Tape) -> Outcome {
        Outcome::of(tape, Some(Violation::new("panic", text)), BTreeMap::new())
    }

    /// What a tape says of a world that ended.
    #[must_use]
    pub fn of(tape: &Tape, violation: Option<Violation>, fired: BTreeMap<Fault, u64>) -> Outcome {
        let violation = Violation::verdict(violation);
        let (digest, events) = (tape.digest(), tape.count());
        let reached = tape.all_reached();
        let (tape, words) = tape.take();
        Outcome { digest, events, violation, fired, reached, tape, words }
    }
}

/// Lives through a world. Must be called inside a universe; a panic of an actor is a panic here.
#[must_use]
pub fn live(setup: &Setup, tape: Arc<Tape>) -> Outcome {
    let media = Rc::new(Media {
        setup: setup.clone(),
        objects: Arc::new(ObjectMedia::default()),
        disk: Arc::new(DiskMedia::default()),
        records: Arc::new(MemoryEngine::default()),
        fates: Arc::new(Fates::new(setup.faults.clone(), setup.seed)),
        tape,
        bench: Rc::new(RefCell::new(Bench::default())),
    });
    History::new(media.clone()).run();
    let violation = media.bench.borrow_mut().violation.take();
    Outcome::of(&media.tape, violation, media.fates.fired())
}

struct History {
    media: Rc<Media>,
    crashes: SimChance,
    age: Duration,
}

impl History {
    fn new(media: Rc<Media>) -> History {
        let crashes = SimChance::new(media.setup.seed, "crashes");
        History { media, crashes, age: Duration::ZERO }
    }

    fn run(&mut self) {
        let task: Rc<RefCell<Option<Task>>> = Rc::default();
        let mut builder = turmoil::Builder::new();
        builder.rng_seed(madsim::rand::random()).tick_duration(TICK).epoch(SystemTime::now());
        builder.simulation_duration(Duration::from_secs(1 << 30));
        let mut sim = builder.build();
        let rounds: Vec<Option<Round>> =
            self.media.setup.rounds.iter().cloned().map(Some).chain([None]).collect();
        let (mut orderly, mut durable, mut started) = (true, Time::new(i64::MIN, 0), false);
        let mut over_before = false;
        for (number, round) in rounds.into_iter().enumerate() {
            let dies_in = round.as_ref().map_or("", |round| round.dies_in.as_str());
            let life = Arc::new(Life::in_device(round.as_ref().and_then(|round| round.dies_at), dies_in));
            let progress = Rc::new(Progress::default());
            let later = round.as_ref().map_or(0, |round| round.later);
            self.age += Duration::from_secs(later * 3600);
            let over = later >= PAST_TRASH;
            let (last, cut) =
                (round.is_none(), round.as_ref().is_some_and(|round| round.ending == Ending::Cut));
            let (number, age) = (number as u64, self.age);
            let trash_is_over = std::mem::replace(&mut over_before, over);
            let now = Task {
                number,
                round,
                life: life.clone(),
                progress: progress.clone(),
                age,
                orderly,
                trash_is_over,
                durable,
            };
            *task.borrow_mut() = Some(now);
            if started {
                sim.bounce("client");
            } else {
                started = true;
                let (media, task) = (self.media.clone(), task.clone());
                sim.host("client", move || {
                    let (media, task) = (media.clone(), task.borrow().clone());
                    async move {
                        if let Some(task) = task {
                            incarnation::live(media, task).await;
                        }
                        std::future::pending::<turmoil::Result>().await
                    }
                });
            }
            self.wait(&mut sim, &life, &progress);
            if self.media.bench.borrow().violation.is_some() {
                return;
            }
            self.end(&mut sim, &life, cut || !last && !progress.unmounted.get());
            if over {
                // What was removed long ago loses its last names, unseen by the court: it sits down anew.
                self.media.bench.borrow_mut().court = None;
            }
            orderly = progress.unmounted.get();
            // A slow or failing disk makes nothing durable by itself.
            let slow = [Fault::SlowOffload, Fault::FailedSync];
            let slow = slow.iter().any(|fault| self.media.setup.faults.contains_key(fault));
            let last = self.media.bench.borrow().last;
            durable =
                if slow { Time::new(i64::MIN, 0) } else { Time::new(last.sec - DURABLE_AFTER, last.nsec) };
        }
    }

    /// Lets time pass until the incarnation is done or dead.
    fn wait(&mut self, sim: &mut turmoil::Sim<'_>, life: &Life, progress: &Progress) {
        let deadline = self.age + PATIENCE;
        while !life.is_dead() && !progress.done.get() {
            if self.age > deadline {
                let text = String::from("nothing is answered any more: an hour has passed");
                self.media.bench.borrow_mut().violation.get_or_insert(Violation::new("hang", text));
                return;
            }
            if let Err(error) = sim.step() {
                let violation = Violation::new("panic", error.to_string());
                self.media.bench.borrow_mut().violation.get_or_insert(violation);
                return;
            }
            madsim::time::advance(TICK);
            self.age += TICK;
        }
    }

    fn end(&mut self, sim: &mut turmoil::Sim<'_>, life: &Life, cut: bool) {
        let tape = &self.media.tape;
        tape.stops(self.age);
        let died = life.is_dead();
        if let Some((device, kind)) = life.last_words() {
            tape.say(|| format!("*** the power is cut at effect {}, {device}: {kind}", life.effects()));
        }
        if !died && cut {
            tape.say(|| "*** the power is cut while nothing happens".into());
        }
        if died || cut {
            life.kill();
        }
        sim.crash("client"); // a client that left in good order still closes its files here
        life.kill();
        if died || cut {
            self.media.fates.count(Fault::Crash);
            self.media.disk.crash(&self.crashes, &self.media.fates, tape);
        } else {
            tape.say(|| "*** unmounted in good order".into());
            self.media.disk.closed();
        }
    }
}
