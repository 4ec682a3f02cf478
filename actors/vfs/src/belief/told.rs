//! What the kernel was told to believe until it hears otherwise, and what of that must be taken back: since somebody
//! else changed it, or since nobody vouches for it any more. Bounded: when it is full, nothing more is told for long.
//! Promises that whatever was told for long is taken back when it is heard to be wrong, and that nothing is taken back of
//! a file behind the back of who was just granted a lock on it: the kernel leaves out the answer to a question for
//! attributes that was under way meanwhile, and believes its old pages once more. Pure but for its lock.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use zest_metadata::Changed;
use zest_types::{Ino, Name, limits};
use zest_world::planted::{self, Bug};

/// An answer may still be on its way into the kernel when it is taken back: what was told within this time is taken
/// back a second time, this much later.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// How many are handed out at once.
const BATCH: usize = 64;
/// All chunks of a file.
pub const WHOLE: u32 = u32::MAX;

/// What is to be done before a lock on a file is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Nothing: what the kernel has of the file is right.
    Right,
    /// Attributes and pages are to be taken back, and [`Told::granted`] to be called then.
    Stale,
    /// Something of this file is being taken back just now: to be asked again when that is done.
    Busy,
}

/// Something to be taken back. Attributes come first: taking them back never waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Back {
    /// Attributes of a node.
    Attr(Ino),
    /// What stands behind a name, or that nothing does.
    Name(Ino, Name),
    /// Pages of a chunk of a file.
    Pages(Ino, u32),
}

impl Back {
    /// The node whose attributes or pages these are.
    fn file(&self) -> Option<Ino> {
        match self {
            Back::Attr(ino) | Back::Pages(ino, _) => Some(*ino),
            Back::Name(..) => None,
        }
    }
}

/// Writes down what is told for long, for the next process.
pub trait Keeper: Send {
    /// This is told now. What can't be written down is believed until its time is over.
    fn note(&mut self, what: &Back, now: Duration);
}

#[derive(Default)]
struct State {
    /// Counts what was heard.
    heard: u64,
    /// When attributes were told.
    attrs: HashMap<Ino, Duration>,
    /// When names were told, by directory.
    names: HashMap<Ino, BTreeMap<Name, Duration>>,
    count: usize,
    queue: BTreeSet<Back>,
    /// Files of which something is being taken back.
    in_hand: Vec<Ino>,
    /// Files of which all was taken back, and of which nothing was heard since.
    right: BTreeSet<Ino>,
    /// Nodes whose attributes the kernel asks for, how often at once, and since when. Bounded by the requests there are.
    asked: BTreeMap<Ino, (usize, Duration)>,
    again: VecDeque<(Duration, Back)>,
    /// When it was looked last for what the kernel has forgotten by itself.
    swept: Duration,
    /// Until then the kernel may believe what an earlier process of this mount told it.
    inherited: Duration,
    /// Where it is written down for the next process.
    kept: Option<Box<dyn Keeper>>,
}

/// What was told.
pub struct Told {
    state: Mutex<State>,
    /// The longest time anything is told for.
    longest: Duration,
    most: usize,
}

impl Told {
    /// Nothing is told for longer than this.
    #[must_use]
    pub fn new(longest: Duration) -> Told {
        Told { state: Mutex::default(), longest, most: limits::KERNEL_TOLD }
    }

    /// What is told is written down from now on; what an earlier process told is taken back.
    pub fn keep(&self, kept: Box<dyn Keeper>, before: Vec<Back>) {
        let mut state = self.state.lock();
        state.kept = Some(kept);
        state.queue.extend(before);
    }

    /// Nothing is told for longer.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// An earlier process told things nobody here knows of.
    pub fn inherit(&self, now: Duration) {
        self.state.lock().inherited = now + self.longest;
    }

    /// To be asked for when a request begins, and given back when its answer is told.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.state.lock().heard
    }

    /// The kernel asks for these attributes: until they are [answered](Told::answered), and for a while at most, nothing
    /// is taken back of the node.
    pub fn asked(&self, ino: Ino, now: Duration) {
        self.state.lock().asked.entry(ino).or_insert((0, now)).0 += 1;
    }

    /// The kernel has the answer; tells whether anything waits to be taken back.
    #[must_use]
    pub fn answered(&self, ino: Ino) -> bool {
        let mut state = self.state.lock();
        if let Some((count, _)) = state.asked.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                state.asked.remove(&ino);
            }
        }
        !state.queue.is_empty()
    }

    /// Whether these attributes may be told for long; they are remembered if so. Not when anything was heard since
    /// the request began: the answer may be older than that.
    pub fn attr(&self, since: u64, ino: Ino, now: Duration) -> bool {
        let mut state = self.state.lock();
        if state.heard != since || !state.has_room(&Back::Attr(ino), now, self.longest, self.most) {
            return false;
        }
        if state.attrs.insert(ino, now).is_none() {
            state.count += 1;
        }
        if let Some(kept) = &mut state.kept {
            kept.note(&Back::Attr(ino), now);
        }
        true
    }

    /// The same for a name.
    pub fn name(&self, since: u64, dir: Ino, name: &Name, now: Duration) -> bool {
        let mut state = self.state.lock();
        let what = Back::Name(dir, name.clone());
        if state.heard != since || !state.has_room(&what, now, self.longest, self.most) {
            return false;
        }
        if state.names.entry(dir).or_default().insert(name.clone(), now).is_none() {
            state.count += 1;
        }
        if let Some(kept) = &mut state.kept {
            kept.note(&what, now);
        }
        true
    }

    /// Whether the kernel was told these attributes for long, and nothing was heard of them since: it believes them, or
    /// asks.
    #[must_use]
    pub fn is_told(&self, ino: Ino) -> bool {
        self.state.lock().attrs.contains_key(&ino)
    }

    /// Somebody else changed something; `open`: whether a file is open here, so that maps of it may be in use.
    pub fn changed(&self, what: &Changed, open: impl Fn(Ino) -> bool, now: Duration) {
        let mut state = self.state.lock();
        state.heard += 1;
        if let Changed::Attr(ino) | Changed::Chunk(ino, _) = what {
            state.right.remove(ino);
        }
        match what {
            Changed::Attr(ino) => {
                if let Some(told) = state.attrs.remove(ino) {
                    state.count -= 1;
                    state.take_back(Back::Attr(*ino), told, now);
                } else if now < state.inherited && state.queue.len() < self.most {
                    state.queue.insert(Back::Attr(*ino));
                }
            }
            Changed::Entries(dir) => {
                let names = state.names.remove(dir).unwrap_or_default();
                state.count -= names.len();
                for (name, told) in names {
                    state.take_back(Back::Name(*dir, name), told, now);
                }
            }
            Changed::Chunk(ino, _) if !open(*ino) => {}
            Changed::Chunk(ino, index) => {
                let full = state.queue.len() >= self.most;
                state.queue.insert(Back::Pages(*ino, if full { WHOLE } else { *index }));
            }
            Changed::Locks(_) => {}
            Changed::Anything => state.all(now),
        }
    }

    /// Nobody vouches for anything any more.
    pub fn silence(&self, now: Duration) {
        let mut state = self.state.lock();
        state.heard += 1;
        state.all(now);
    }

    /// Whether the kernel believes anything because of this.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.lock().count == 0
    }

    /// What is to be done before a lock on this file is granted; `vouched`: whether whatever others change is heard.
    /// From here on nothing is taken back of the file until [`Told::granted`] is called.
    #[must_use]
    pub fn grant(&self, ino: Ino, vouched: bool, now: Duration) -> Grant {
        let mut state = self.state.lock();
        if vouched && state.right.contains(&ino) && !state.in_hand.contains(&ino) {
            return Grant::Right;
        }
        if state.is_busy(ino, now) {
            return Grant::Busy;
        }
        // All of it goes now; the file is known to the kernel, so that no answer on its way brings it back.
        state.queue.retain(|what| what.file() != Some(ino));
        state.again.retain(|(_, what)| what.file() != Some(ino));
        if state.right.len() >= self.most {
            state.right.clear();
        }
        state.right.insert(ino);
        state.in_hand.push(ino);
        Grant::Stale
    }

    /// Attributes and pages of the file were taken back.
    pub fn granted(&self, ino: Ino) {
        self.done(&[Back::Attr(ino)]);
    }

    /// These were taken back.
    pub fn done(&self, batch: &[Back]) {
        let mut state = self.state.lock();
        for what in batch {
            if let Some(at) = state.in_hand.iter().position(|of| Some(*of) == what.file()) {
                state.in_hand.swap_remove(at);
            }
        }
    }

    /// The next things to take back: attributes only, or everything else. [`Told::done`] is to be called then. Pages
    /// come one by one, since they may take long.
    #[must_use]
    pub fn next(&self, attrs: bool, now: Duration) -> Vec<Back> {
        let mut state = self.state.lock();
        while state.again.front().is_some_and(|(due, _)| *due <= now) {
            let due = state.again.pop_front().map(|(_, what)| what);
            state.queue.extend(due);
        }
        let wanted = |what: &&Back| matches!(what, Back::Attr(_)) == attrs;
        let free = |what: &&Back| what.file().is_none_or(|ino| !state.is_busy(ino, now));
        let mut batch: Vec<Back> = match attrs {
            true => state.queue.iter().take_while(wanted).filter(free).take(BATCH).cloned().collect(),
            false => state.queue.iter().rev().take_while(wanted).filter(free).take(BATCH).cloned().collect(),
        };
        if let Some(Back::Pages(..)) = batch.first() {
            batch.truncate(1);
        }
        for what in &batch {
            state.queue.remove(what);
            state.in_hand.extend(what.file());
        }
        batch
    }
}

impl State {
    /// Whether something of a file is being taken back, or its attributes are on their way into the kernel: it leaves an
    /// answer out when something was taken back meanwhile, and whoever reads the file believes an older length then.
    fn is_busy(&self, ino: Ino, now: Duration) -> bool {
        let asked = |(_, since): &(usize, Duration)| now.saturating_sub(*since) < ON_ITS_WAY;
        let on_its_way = self.asked.get(&ino).is_some_and(asked) && !planted::active(Bug::TakenBackOnTheWay);
        on_its_way || self.in_hand.contains(&ino)
    }

    fn take_back(&mut self, what: Back, told: Duration, now: Duration) {
        if now.saturating_sub(told) < ON_ITS_WAY {
            self.again.push_back((now + ON_ITS_WAY, what.clone()));
        }
        self.queue.insert(what);
    }

    fn all(&mut self, now: Duration) {
        for (ino, told) in std::mem::take(&mut self.attrs) {
            self.take_back(Back::Attr(ino), told, now);
        }
        for (dir, names) in std::mem::take(&mut self.names) {
            for (name, told) in names {
                self.take_back(Back::Name(dir, name), told, now);
            }
        }
        self.count = 0;
        self.right.clear();
    }

    /// Whether one more may be told. What the kernel has forgotten by itself makes room.
    fn has_room(&mut self, what: &Back, now: Duration, longest: Duration, most: usize) -> bool {
        // What waits to be taken back counts, too: it is what is told that bounds it.
        let known = match what {
            Back::Attr(ino) => self.attrs.contains_key(ino),
            Back::Name(dir, name) => self.names.get(dir).is_some_and(|names| names.contains_key(name)),
            Back::Pages(..) => false,
        };
        if known || self.count + self.queue.len() + self.again.len() < most {
            return true;
        }
        if now.saturating_sub(self.swept) >= Duration::from_secs(1) {
            self.swept = now;
            let holds = |told: &mut Duration| now.saturating_sub(*told) <= longest;
            self.attrs.retain(|_, told| holds(told));
            self.names.retain(|_, names| {
                names.retain(|_, told| holds(told));
                !names.is_empty()
            });
            self.count = self.attrs.len() + self.names.values().map(BTreeMap::len).sum::<usize>();
        }
        self.count + self.queue.len() + self.again.len() < most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(48);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn next(told: &Told, attrs: bool, now: Duration) -> Vec<Back> {
        let batch = told.next(attrs, now);
        told.done(&batch);
        batch
    }

    fn both(told: &Told, now: Duration) -> Vec<Back> {
        [next(told, true, now), next(told, false, now)].concat()
    }

    #[test]
    fn what_somebody_changed_is_taken_back_and_nothing_else() {
        let told = Told::new(LONG);
        assert!(told.attr(0, Ino(7), at(0)) && told.attr(0, Ino(8), at(0)));
        assert!(told.name(0, Ino(1), &name("a"), at(0)) && told.name(0, Ino(1), &name("b"), at(0)));
        assert!(told.name(0, Ino(2), &name("a"), at(0)));
        told.changed(&Changed::Attr(Ino(7)), |_| false, at(5));
        told.changed(&Changed::Attr(Ino(9)), |_| false, at(5));
        told.changed(&Changed::Entries(Ino(1)), |_| false, at(5));
        told.changed(&Changed::Locks(Ino(8)), |_| true, at(5));
        let back = both(&told, at(5));
        let names = [Back::Name(Ino(1), name("b")), Back::Name(Ino(1), name("a"))];
        assert_eq!(back, [&[Back::Attr(Ino(7))][..], &names[..]].concat());
        assert!(both(&told, at(9)).is_empty() && !told.is_empty());
        assert!(told.is_told(Ino(8)) && !told.is_told(Ino(7)));
    }

    #[test]
    fn an_answer_older_than_what_was_heard_is_not_told_for_long() {
        let told = Told::new(LONG);
        let since = told.heard();
        told.changed(&Changed::Attr(Ino(7)), |_| false, at(1));
        assert!(!told.attr(since, Ino(7), at(1)) && !told.name(since, Ino(1), &name("a"), at(1)));
        assert!(told.attr(told.heard(), Ino(7), at(1)));
    }

    #[test]
    fn what_may_still_be_on_its_way_is_taken_back_twice() {
        let told = Told::new(LONG);
        told.attr(0, Ino(7), at(10));
        told.changed(&Changed::Attr(Ino(7)), |_| false, at(10));
        assert_eq!(both(&told, at(10)), [Back::Attr(Ino(7))]);
        assert!(both(&told, at(10)).is_empty());
        assert_eq!(both(&told, at(11)), [Back::Attr(Ino(7))]);
        assert!(both(&told, at(20)).is_empty());
    }

    #[test]
    fn pages_go_where_somebody_may_map_them() {
        let told = Told::new(LONG);
        told.changed(&Changed::Chunk(Ino(7), 3), |ino| ino == Ino(7), at(1));
        told.changed(&Changed::Chunk(Ino(8), 3), |ino| ino == Ino(7), at(1));
        assert_eq!(both(&told, at(1)), [Back::Pages(Ino(7), 3)]);
    }

    #[test]
    fn silence_and_a_lost_connection_end_everything() {
        let told = Told::new(LONG);
        for end in [Told::silence as fn(&Told, Duration), |told, now| {
            told.changed(&Changed::Anything, |_| false, now)
        }] {
            let since = told.heard();
            told.attr(since, Ino(7), at(1));
            told.name(since, Ino(1), &name("a"), at(1));
            end(&told, at(5));
            assert!(told.is_empty() && !told.attr(since, Ino(7), at(5)));
            assert_eq!(both(&told, at(5)), [Back::Attr(Ino(7)), Back::Name(Ino(1), name("a"))]);
        }
    }

    #[test]
    fn what_is_told_and_what_waits_is_bounded() {
        let told = Told { most: 10, ..Told::new(LONG) };
        let fits = |now| (0..20u64).filter(|ino| told.attr(told.heard(), Ino(*ino), now)).count();
        assert_eq!((fits(at(0)), fits(at(1))), (10, 10), "what is known may be told again");
        told.changed(&Changed::Anything, |_| false, at(1));
        assert_eq!(fits(at(1)), 0, "it waits to be taken back");
        assert_eq!(both(&told, at(1)).len(), 10);
        assert_eq!(both(&told, at(3)).len(), 10, "what was on its way");
        assert_eq!(fits(at(3)), 10);
        let room = |now| told.name(told.heard(), Ino(1), &name("x"), now);
        assert!(!room(at(3) + LONG) && room(at(5) + LONG), "the kernel forgot by itself");
        for chunk in 0..100 {
            told.changed(&Changed::Chunk(Ino(7), chunk), |_| true, at(60));
        }
        let pages: Vec<Back> = (0..100).flat_map(|_| next(&told, false, at(60))).collect();
        assert!(pages.len() <= 11 && pages.contains(&Back::Pages(Ino(7), WHOLE)), "{}", pages.len());
    }

    #[test]
    fn behind_a_granted_lock_nothing_of_its_file_is_taken_back() {
        let (told, open) = (Told::new(LONG), |_| true);
        assert!(told.attr(0, Ino(7), at(0)) && told.attr(0, Ino(8), at(0)));
        for change in [Changed::Attr(Ino(7)), Changed::Attr(Ino(8)), Changed::Chunk(Ino(7), 0)] {
            told.changed(&change, open, at(0));
        }
        assert_eq!(told.grant(Ino(7), true, at(1)), Grant::Stale);
        assert_eq!(told.grant(Ino(7), true, at(1)), Grant::Busy, "one after the other");
        assert_eq!(both(&told, at(0)), [Back::Attr(Ino(8))]);
        told.granted(Ino(7));
        assert_eq!(both(&told, at(2)), [Back::Attr(Ino(8))], "what was on its way is left out, too");
    }

    #[test]
    fn nothing_is_taken_back_while_attributes_are_on_their_way() {
        let told = Told::new(LONG);
        assert!(told.attr(0, Ino(7), at(0)));
        for _ in 0..2 {
            told.asked(Ino(7), at(1));
        }
        told.changed(&Changed::Attr(Ino(7)), |_| true, at(1));
        assert!(both(&told, at(1)).is_empty());
        assert_eq!(told.grant(Ino(7), true, at(1)), Grant::Busy);
        let _waits = told.answered(Ino(7));
        assert!(both(&told, at(1)).is_empty(), "one of two");
        assert_eq!(
            both(&told, at(3)),
            [Back::Attr(Ino(7))],
            "an answer that does not come is not waited for"
        );
        told.changed(&Changed::Chunk(Ino(7), 0), |_| true, at(1));
        assert!(told.answered(Ino(7)));
        assert_eq!(both(&told, at(1)), [Back::Pages(Ino(7), 0)]);
    }

    #[test]
    fn what_is_being_taken_back_holds_a_lock_up() {
        let told = Told::new(LONG);
        told.changed(&Changed::Chunk(Ino(7), 0), |_| true, at(0));
        told.changed(&Changed::Chunk(Ino(7), 1), |_| true, at(0));
        let batch = told.next(false, at(0));
        assert_eq!((batch.len(), told.grant(Ino(7), true, at(1))), (1, Grant::Busy));
        assert!(told.next(false, at(0)).is_empty(), "of one file one after the other");
        told.done(&batch);
        assert_eq!(told.grant(Ino(7), true, at(1)), Grant::Stale);
    }

    #[test]
    fn a_file_is_right_until_something_is_heard_of_it() {
        let told = Told::new(LONG);
        let grant = |vouched| {
            let what = told.grant(Ino(7), vouched, at(1));
            told.granted(Ino(7));
            what
        };
        assert_eq!([grant(true), grant(true), grant(false)], [Grant::Stale, Grant::Right, Grant::Stale]);
        let ends: [fn(&Told); 4] = [
            |told| told.changed(&Changed::Attr(Ino(7)), |_| true, at(1)),
            |told| told.changed(&Changed::Chunk(Ino(7), 3), |_| true, at(1)),
            |told| told.changed(&Changed::Anything, |_| true, at(1)),
            |told| told.silence(at(1)),
        ];
        for end in ends {
            told.changed(&Changed::Attr(Ino(8)), |_| true, at(1));
            assert_eq!(grant(true), Grant::Right);
            end(&told);
            assert_eq!(grant(true), Grant::Stale);
        }
        assert_eq!(told.grant(Ino(7), true, at(1)), Grant::Right);
        told.changed(&Changed::Attr(Ino(7)), |_| true, at(1));
        assert_eq!(told.grant(Ino(7), true, at(1)), Grant::Stale);
        told.changed(&Changed::Attr(Ino(7)), |_| true, at(1));
        told.granted(Ino(7));
        assert_eq!(told.grant(Ino(7), true, at(1)), Grant::Stale, "heard while it was taken back");
    }

    #[test]
    fn what_an_earlier_process_told_is_taken_back_while_it_may_be_believed() {
        let told = Told::new(LONG);
        told.changed(&Changed::Attr(Ino(7)), |_| false, at(1));
        assert_eq!(both(&told, at(1)), []);
        told.inherit(at(1));
        told.changed(&Changed::Attr(Ino(7)), |_| false, at(2));
        assert_eq!(both(&told, at(2)), [Back::Attr(Ino(7))]);
        told.changed(&Changed::Attr(Ino(7)), |_| false, at(50));
        assert_eq!(both(&told, at(50)), []);
    }
}
