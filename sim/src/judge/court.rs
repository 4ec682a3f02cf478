//! The court: hears every call and every answer of a run, sends names to `history` and bytes to `body`, and says
//! what is wrong. It also says what must be left after a crash.

use super::answer::shown;
use super::body::{Body, Tick};
use super::content::Content;
use super::history::{CallId, History, LOST, is_failure};
use super::recovered::{Found, Recovered, as_tree};
use super::stamp::Stamp;
use super::tree::Tree;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::BTreeMap;
use zest_types::request::{Fallocate, SeekWhat, SetAttr, SetTime};
use zest_types::{Errno, FileType, Ino, Request, Response, ServeResult, Time};

/// Something that must not happen, happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule was broken.
    pub rule: &'static str,
    /// What was seen.
    pub text: String,
}

std::thread_local! {
    /// How often somebody objected in this thread's world.
    static OBJECTIONS: Cell<u64> = const { Cell::new(0) };
}

/// The rule of a court that can't follow any more: too much may have happened.
pub const UNDECIDED: &str = "undecided";

impl Violation {
    /// A violation. Whoever has one reports it, or forgives it: a world that ends without a word although somebody
    /// objected is broken, too.
    #[must_use]
    pub fn new(rule: &'static str, text: String) -> Violation {
        OBJECTIONS.set(OBJECTIONS.get() + 1);
        Violation { rule, text }
    }

    /// This world does not promise what is missed.
    pub fn forgive(self) {
        OBJECTIONS.set(OBJECTIONS.get().saturating_sub(1));
    }

    /// The verdict over a world: what was reported. Objections nobody reported are a violation of their own.
    #[must_use]
    pub fn verdict(reported: Option<Violation>) -> Option<Violation> {
        let objections = OBJECTIONS.replace(0);
        reported.or_else(|| {
            let text = format!("somebody objected {objections} times, and nobody reported it");
            (objections > 0).then_some(Violation { rule: "verdict", text })
        })
    }
}

/// What this world promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Calls may fail with input/output errors.
    pub lenient: bool,
    /// Unflushed writes may be lost, since uploads can fail for good; reported at the latest by fsync.
    pub lax_reads: bool,
    /// A change is durable when it is answered.
    pub durable_at_once: bool,
    /// Clocks are set: times in attributes are not judged.
    pub lax_times: bool,
    /// Several clients change the same names: there may be more possible states than can be followed.
    pub several: bool,
}

struct Heard {
    request: Request<'static>,
    from: Tick,
    /// The file that gets a new version by it.
    changes: Option<Ino>,
}

/// Judges one run.
pub struct Court {
    terms: Terms,
    tick: Tick,
    history: History,
    bodies: BTreeMap<Ino, Body>,
    heard: BTreeMap<CallId, Heard>,
}

const O_TRUNC: u32 = 0o1000;

impl Court {
    /// A court for a volume that looks like this at first.
    #[must_use]
    pub fn new(terms: Terms, found: &Recovered) -> Court {
        let mut court = Court {
            terms,
            tick: 1,
            history: History::new(as_tree(found, 1), terms.lenient),
            bodies: BTreeMap::new(),
            heard: BTreeMap::new(),
        };
        court.begin(found);
        court
    }

    fn begin(&mut self, found: &Recovered) {
        let first = self.tick + 1;
        self.tick += found.nodes.len() as u64 + 2;
        self.history = History::new(as_tree(found, first), self.terms.lenient);
        self.heard.clear();
        let files = found.nodes.iter().filter(|(_, seen)| seen.attr.is_file());
        self.bodies = files.map(|(ino, seen)| (*ino, body_of(seen))).collect();
    }

    /// Whether input/output errors are part of this world.
    #[must_use]
    pub fn is_lenient(&self) -> bool {
        self.terms.lenient
    }

    /// One of the trees that are possible now.
    #[must_use]
    pub fn some_tree(&self) -> &Tree {
        self.history.some_tree()
    }

    /// Ranges of a file worth reading after a start.
    #[must_use]
    pub fn interesting(&self, ino: Ino) -> Vec<(u64, u64)> {
        self.bodies.get(&ino).map(Body::interesting).unwrap_or_default()
    }

    /// A call is made.
    pub fn ask(&mut self, request: Request<'static>, now: Time) -> CallId {
        // A clock that is set says nothing of when something was asked.
        let now = if self.terms.lax_times { Stamp::ANY.low } else { now };
        self.tick += 1;
        let (id, from) = (self.tick, self.tick);
        let changes = self.expect_bytes(&request, now);
        self.history.asked(id, request.clone(), from, now);
        self.heard.insert(id, Heard { request, from, changes });
        id
    }

    /// A call was turned away, and nothing was done.
    pub fn withdrawn(&mut self, id: CallId) {
        let Some(call) = self.heard.remove(&id) else { return };
        self.history.withdrawn(id);
        if let Some(body) = call.changes.and_then(|ino| self.bodies.get_mut(&ino)) {
            body.refused();
        }
    }

    /// Whether the bytes of a copy are bytes its source had, each at its place.
    pub fn copied(&self, source: Ino, ranges: &[(u64, Vec<u8>)]) -> Result<(), Violation> {
        let Some(body) = self.bodies.get(&source) else { return Ok(()) };
        body.check_copy(ranges).map_err(|text| Violation::new("copies", format!("of inode {source}: {text}")))
    }

    /// Whether it may give up.
    #[must_use]
    pub fn is_of_several(&self) -> bool {
        self.terms.several
    }

    /// A call is answered.
    pub fn answer(&mut self, id: CallId, answer: &ServeResult, now: Time) -> Result<(), Violation> {
        self.tick += 1;
        let Some(call) = self.heard.remove(&id) else {
            return Err(Violation::new("answer", format!("call {id} was answered twice")));
        };
        let named = |text: String| {
            let rule = if text == LOST { UNDECIDED } else { "answer" };
            Violation::new(rule, format!("{} {text}", words(&call.request)))
        };
        self.history.answered(id, answer, self.tick, now).map_err(named)?;
        self.check_bytes(&call, answer, now)
            .map_err(|text| Violation::new("content", format!("{} {text}", words(&call.request))))?;
        self.check_attr(&call, answer)
            .map_err(|text| Violation::new("attributes", format!("{} {text}", words(&call.request))))?;
        if answer.is_ok() {
            self.keep_promise(&call);
        }
        Ok(())
    }

    fn keep_promise(&mut self, call: &Heard) {
        match call.request {
            Request::Fsync { ino, .. } => {
                self.history.safe_before(call.from);
                if let Some(body) = self.bodies.get_mut(&ino) {
                    body.synced(call.from);
                }
            }
            Request::FsyncDir { .. } => self.history.safe_before(call.from),
            Request::SyncAll => {
                self.history.safe_before(call.from);
                self.bodies.values_mut().for_each(|body| body.synced(call.from));
            }
            _ => {}
        }
    }

    /// Whether a volume found after a crash is one that may be found; the court goes on from there. `durable`
    /// is a time: changes answered before it have had time enough to become durable by themselves.
    pub fn crashed(&mut self, found: &Recovered, durable: Time) -> Result<(), Violation> {
        self.found(found, durable, false)
    }

    /// The volume was unmounted, and said that something was lost.
    pub fn lost(&mut self) {
        self.bodies.values_mut().for_each(Body::failed);
    }

    fn found(&mut self, found: &Recovered, durable: Time, orderly: bool) -> Result<(), Violation> {
        if self.terms.durable_at_once {
            self.history.safe_before(self.tick + 1);
        }
        self.history.safe_before_time(durable);
        self.history.recover(found).map_err(|text| Violation::new("recovery", text))?;
        let lax = self.terms.lax_reads && !orderly;
        for (ino, seen) in found.nodes.iter().filter(|(_, seen)| seen.attr.is_file()) {
            let body = self.bodies.entry(*ino).or_default();
            let check = body.check_recovered(lax, seen.attr.length, &seen.ranges, seen.attr.mtime);
            check.map_err(|text| Violation::new("recovered content", format!("inode {ino} {text}")))?;
        }
        self.begin(found);
        Ok(())
    }

    /// Whether a volume found after it was left in good order is exactly what was left.
    pub fn returned(&mut self, found: &Recovered) -> Result<(), Violation> {
        self.history.safe_before(self.tick + 1);
        let all = self.tick + 1;
        self.bodies.values_mut().for_each(|body| body.synced(all));
        self.found(found, Time::new(i64::MIN, 0), true)
    }

    fn is_file(&self, ino: Ino) -> bool {
        let node = self.history.some_tree().node_of(ino);
        self.bodies.contains_key(&ino) || node.is_some_and(|(_, node)| node.kind == FileType::File)
    }

    /// Foresees what a call does to the bytes of a file.
    fn expect_bytes(&mut self, request: &Request<'static>, now: Time) -> Option<Ino> {
        let tick = self.tick;
        let mtime = Stamp::since(now);
        let (ino, change) = self.change_of(request)?;
        let body = self.bodies.entry(ino).or_default();
        let (content, touched) = change;
        let stamp = match touched {
            Touch::Yes => mtime,
            Touch::Set(time) => Stamp::exactly(time),
            Touch::Perhaps => Stamp { low: body.last().mtime.low, ..mtime },
        };
        body.asked(tick, content, stamp);
        Some(ino)
    }

    fn change_of(&self, request: &Request<'static>) -> Option<(Ino, (Content, Touch))> {
        let last =
            |ino: Ino| self.bodies.get(&ino).map(|body| body.last().content.clone()).unwrap_or_default();
        match request {
            Request::Write { ino, offset, data, .. } => {
                let mut content = last(*ino);
                content.write(*offset, Bytes::from_static(data));
                Some((*ino, (content, Touch::Yes)))
            }
            Request::SetAttr { ino, set, .. } if self.is_file(*ino) => set_bytes(*ino, set, last(*ino)),
            Request::Open { ino, flags } if flags & O_TRUNC != 0 && self.is_file(*ino) => {
                let set = SetAttr { size: Some(0), ..SetAttr::default() };
                set_bytes(*ino, &set, last(*ino))
            }
            Request::Fallocate { ino, offset, len, mode, .. } => {
                Some((*ino, (allocated(last(*ino), *offset, *len, *mode), Touch::Yes)))
            }
            Request::CopyRange { from, from_offset, to, to_offset, len, .. } => {
                let mut content = last(*to);
                content.copy(&last(*from), *from_offset, *to_offset, *len);
                Some((*to, (content, Touch::Perhaps)))
            }
            _ => None,
        }
    }

    fn check_bytes(&mut self, call: &Heard, answer: &ServeResult, now: Time) -> Result<(), String> {
        let changed = match &call.request {
            Request::Write { ino, .. } | Request::Fallocate { ino, .. } => Some(*ino),
            Request::SetAttr { ino, set, .. }
                if self.is_file(*ino) && (set.size.is_some() || set.mtime.is_some()) =>
            {
                Some(*ino)
            }
            Request::Open { ino, flags } if flags & O_TRUNC != 0 && self.is_file(*ino) => Some(*ino),
            Request::CopyRange { to, .. } => Some(*to),
            _ => None,
        };
        if let Some(ino) = changed {
            return self.check_change(ino, &call.request, answer, now);
        }
        match (&call.request, answer) {
            (Request::Read { ino, offset, size, .. }, Ok(Response::Data(pieces))) => {
                let seen: Vec<u8> = pieces.concat();
                let body = self.bodies.entry(*ino).or_default();
                body.check_read(self.terms.lax_reads, *offset, u64::from(*size), &seen)
            }
            (Request::Lseek { ino, offset, what, .. }, answer) => {
                let body = self.bodies.entry(*ino).or_default();
                if body.is_doubtful() || self.terms.lax_reads {
                    Ok(())
                } else {
                    check_seek(body, *offset, *what, answer)
                }
            }
            (Request::SyncAll, Err(errno)) if is_failure(*errno) && self.terms.lenient => {
                self.bodies.values_mut().for_each(Body::failed);
                Ok(())
            }
            (Request::SyncAll, Err(errno)) => Err(format!("failed with {errno:?}, expected success")),
            (
                Request::Read { ino, .. }
                | Request::Fsync { ino, .. }
                | Request::Flush { ino, .. }
                | Request::Release { ino, .. },
                Err(errno),
            ) => self.check_failure(*ino, *errno),
            _ => Ok(()),
        }
    }

    fn check_failure(&mut self, ino: Ino, errno: Errno) -> Result<(), String> {
        if is_failure(errno) && self.terms.lenient {
            self.bodies.entry(ino).or_default().failed();
            return Ok(());
        }
        Err(format!("failed with {errno:?}, expected success"))
    }

    fn check_change(
        &mut self,
        ino: Ino,
        request: &Request<'_>,
        answer: &ServeResult,
        now: Time,
    ) -> Result<(), String> {
        let tick = self.tick;
        let source = match request {
            Request::CopyRange { from, .. } => {
                self.bodies.get(from).map(|body| (body.before_last(*from == ino), body.is_doubtful()))
            }
            _ => None,
        };
        let body = self.bodies.entry(ino).or_default();
        if source.as_ref().is_some_and(|(_, doubtful)| *doubtful) {
            body.mixed();
            body.made(tick, now);
            return Ok(());
        }
        let source = source.map(|(content, _)| content);
        match (request, answer) {
            (Request::Open { .. }, Err(Errno::ENOENT | Errno::ESTALE | Errno::EPERM))
            | (Request::SetAttr { .. }, Err(Errno::ENOENT | Errno::ESTALE | Errno::EPERM)) => {
                body.refused(); // whether that is right is for the tree to say
                return Ok(());
            }
            (Request::CopyRange { .. }, Err(Errno::EINVAL)) => {
                body.refused();
                return Ok(());
            }
            (_, Err(errno)) => return self.check_failure(ino, *errno),
            (Request::Write { data, .. }, Ok(Response::Written(n))) if *n as usize != data.len() => {
                return Err(format!("took {n} of {} bytes", data.len()));
            }
            (Request::CopyRange { from_offset, to_offset, len, .. }, Ok(Response::Copied(n))) => {
                let source = source.unwrap_or_default();
                let most = source.len.saturating_sub(*from_offset).min(*len);
                if *n > most || (*n == 0 && most > 0) {
                    return Err(format!("copied {n} bytes where {most} can be copied"));
                }
                let mut content = body.before_last(true);
                content.copy(&source, *from_offset, *to_offset, *n);
                body.corrected(content);
            }
            _ => {}
        }
        body.made(tick, now);
        Ok(())
    }

    /// Length and modification time of a file that was shown.
    fn check_attr(&mut self, call: &Heard, answer: &ServeResult) -> Result<(), String> {
        let Some((ino, attr)) = shown(answer) else { return Ok(()) };
        if !attr.is_file() {
            return Ok(());
        }
        let (from, until) = (call.from, self.tick);
        let lax = self.terms.lax_reads;
        let quiet = !self.heard.values().any(|other| touches(&other.request, ino));
        let body = self.bodies.entry(ino).or_default();
        if !lax && !body.allows_len(from, until, attr.length) {
            return Err(format!(
                "shows length {}, expected {} (inode {ino})",
                attr.length,
                body.last().content.len
            ));
        }
        if !lax && !body.allows_mtime(from, until, attr.mtime) {
            let right = body.last().mtime;
            return Err(format!(
                "shows mtime {:?}, expected {:?} to {:?} (inode {ino})",
                attr.mtime, right.low, right.high
            ));
        }
        if quiet && !lax {
            body.learn_mtime(from, attr.mtime);
        }
        Ok(())
    }
}

enum Touch {
    Yes,
    Perhaps,
    Set(Time),
}

fn body_of(seen: &Found) -> Body {
    let mut content = Content::default();
    for (offset, bytes) in &seen.ranges {
        if bytes.iter().any(|byte| *byte != 0) {
            content.write(*offset, Bytes::copy_from_slice(bytes));
        }
    }
    content.truncate(seen.attr.length);
    Body::new(content, Stamp::exactly(seen.attr.mtime))
}

fn touches(request: &Request<'_>, of: Ino) -> bool {
    match request {
        Request::Write { ino, .. }
        | Request::SetAttr { ino, .. }
        | Request::Fallocate { ino, .. }
        | Request::Open { ino, .. } => *ino == of,
        Request::CopyRange { to, .. } => *to == of,
        _ => false,
    }
}

fn set_bytes(ino: Ino, set: &SetAttr, mut content: Content) -> Option<(Ino, (Content, Touch))> {
    let touch = match (set.size, set.mtime) {
        (None, None) => return None,
        (_, Some(SetTime::At(time))) => Touch::Set(time),
        (Some(size), None) if size == content.len => Touch::Perhaps,
        _ => Touch::Yes,
    };
    if let Some(size) = set.size {
        content.truncate(size);
    }
    Some((ino, (content, touch)))
}

fn allocated(mut content: Content, offset: u64, len: u64, mode: Fallocate) -> Content {
    let end = offset + len;
    match mode {
        Fallocate::KeepSize => {}
        Fallocate::Allocate => content.grow(end),
        Fallocate::PunchHole | Fallocate::ZeroRangeKeepSize => {
            content.clear(offset, end.min(content.len.max(offset)))
        }
        Fallocate::ZeroRange => {
            content.clear(offset, end);
            content.grow(end);
        }
    }
    content
}

fn check_seek(body: &Body, offset: u64, what: SeekWhat, answer: &ServeResult) -> Result<(), String> {
    let content = &body.last().content;
    let zeros = |from: u64, to: u64| content.is_zero(from, to);
    match (what, answer) {
        (_, Err(Errno::ENXIO)) if offset >= content.len => Ok(()),
        (SeekWhat::Data, Err(Errno::ENXIO)) if zeros(offset, content.len) => Ok(()),
        (_, Ok(_)) if offset >= content.len => {
            Err(format!("found something behind the end at {}", content.len))
        }
        (SeekWhat::Data, Ok(Response::Offset(at)))
            if *at >= offset && *at < content.len && zeros(offset, *at) =>
        {
            Ok(())
        }
        (SeekWhat::Hole, Ok(Response::Offset(at))) if *at == content.len => Ok(()),
        (SeekWhat::Hole, Ok(Response::Offset(at)))
            if *at >= offset && *at < content.len && zeros(*at, *at + 1) =>
        {
            Ok(())
        }
        (_, answer) => Err(format!("answered {answer:?}, which the bytes of the file contradict")),
    }
}

/// A request in a few words.
#[must_use]
pub fn words(request: &Request<'_>) -> String {
    match request {
        Request::Write { ino, offset, data, .. } => {
            format!("write of {} bytes at {offset} to inode {ino}", data.len())
        }
        Request::Read { ino, offset, size, .. } => format!("read of {size} bytes at {offset} of inode {ino}"),
        other => format!("{other:?}"),
    }
}
