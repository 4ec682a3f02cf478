//! The tape of a run: every event in order, with its time. Its digest is what two runs of a seed must agree on;
//! the events themselves become the timeline. Telling in words costs, so it is off unless asked for.

use super::chance::mix;
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use zest_world::{Event, Trace};

/// Events kept for a comparison; the digest covers all of them.
const KEPT: usize = 1 << 18;

/// So many events at one moment are an endless loop.
const AT_ONCE: u64 = 100_000;

/// An event with its virtual time in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// Microseconds since the world began.
    pub at: u64,
    /// What happened.
    pub event: Event,
}

#[derive(Default)]
struct Inner {
    before: Duration,
    started: Option<tokio::time::Instant>,
    digest: u64,
    count: u64,
    /// The time of the last event, and how many there were at it.
    moment: (u64, u64),
    events: VecDeque<Stamped>,
    words: Vec<(u64, String)>,
    reached: BTreeSet<Reached>,
}

/// What was asked for, and how it was answered.
pub type Reached = (&'static str, String);

/// Listens to everything that happens in a world.
#[derive(Default)]
pub struct Tape {
    telling: bool,
    inner: Mutex<Inner>,
}

impl Tape {
    /// A tape; `telling` also keeps what is said in words.
    #[must_use]
    pub fn new(telling: bool) -> Tape {
        Tape { telling, ..Tape::default() }
    }

    /// From here on, time is that of the host's runtime, which starts when the world is `before` old.
    pub fn starts(&self, before: Duration) {
        let mut inner = self.inner.lock();
        inner.before = before;
        inner.started = Some(tokio::time::Instant::now());
    }

    /// From here on, no host runs; the world is `age` old.
    pub fn stops(&self, age: Duration) {
        let mut inner = self.inner.lock();
        inner.before = age;
        inner.started = None;
    }

    /// Says something in words, if anybody wants to hear it.
    pub fn say(&self, words: impl FnOnce() -> String) {
        if self.telling {
            let mut inner = self.inner.lock();
            let at = inner.now();
            inner.words.push((at, words()));
        }
    }

    /// Whether words are kept.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        self.telling
    }

    /// A request was answered.
    pub fn reached(&self, request: &'static str, answer: String) {
        self.inner.lock().reached.insert((request, answer));
    }

    /// Requests with their kinds of answers.
    #[must_use]
    pub fn all_reached(&self) -> BTreeSet<Reached> {
        self.inner.lock().reached.clone()
    }

    /// Digest over all events.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.inner.lock().digest
    }

    /// Number of events.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.inner.lock().count
    }

    /// Takes the events and the words.
    #[must_use]
    pub fn take(&self) -> (Vec<Stamped>, Vec<(u64, String)>) {
        let mut inner = self.inner.lock();
        (std::mem::take(&mut inner.events).into(), std::mem::take(&mut inner.words))
    }
}

impl Inner {
    fn now(&self) -> u64 {
        let age = self.before + self.started.map_or(Duration::ZERO, |start| start.elapsed());
        u64::try_from(age.as_micros()).unwrap_or(u64::MAX)
    }
}

fn hash_text(text: &str) -> u64 {
    text.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

impl Trace for Tape {
    fn event(&self, event: Event) {
        let mut inner = self.inner.lock();
        let at = inner.now();
        let mut digest = inner.digest;
        for part in [at, hash_text(event.actor), hash_text(event.kind), event.subject, event.detail] {
            digest = mix(digest ^ part);
        }
        inner.digest = digest;
        inner.count += 1;
        let (last, many) = inner.moment;
        inner.moment = if last == at { (at, many + 1) } else { (at, 1) };
        assert!(
            inner.moment.1 < AT_ONCE,
            "endless: {AT_ONCE} events and no time has passed; the last is {event:?}"
        );
        if inner.events.len() == KEPT {
            inner.events.pop_front();
        }
        inner.events.push_back(Stamped { at, event });
        if self.telling {
            let words = format!("    {}: {} {} ({})", event.actor, event.kind, event.subject, event.detail);
            inner.words.push((at, words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_sees_order_and_every_field() {
        let digest = |events: &[(u64, u64)]| {
            let tape = Tape::new(false);
            for (subject, detail) in events {
                tape.event(Event { actor: "a", kind: "k", subject: *subject, detail: *detail });
            }
            tape.digest()
        };
        let base = digest(&[(1, 2), (3, 4)]);
        assert_eq!(base, digest(&[(1, 2), (3, 4)]));
        for other in [&[(3, 4), (1, 2)][..], &[(1, 2), (3, 5)], &[(1, 2), (4, 4)], &[(1, 2)]] {
            assert_ne!(base, digest(other));
        }
    }
}
