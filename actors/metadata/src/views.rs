//! What this mount may believe without asking: attributes, directory entries and chunk lists, each with a lease.
//! Shared by all threads of a door; a hit costs one short read lock. A lease ends with its time; where the store
//! tells what others change it ends when that is heard, and all leases end when the store falls silent. Promises
//! that a record read before a change was committed or heard of never replaces what the change left; knows no
//! engine and no rule.

use crate::engine::{Changed, Found, Listener};
use crate::key::Key;
use crate::record::Record;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use zest_types::{Attr, FileType, Ino, Name, SliceRecord, limits};
use zest_world::planted::{self, Bug};

const SHARDS: usize = 64;
/// Directories whose entries are revoked together share one of these places.
const TERMS: usize = 4096;

/// A chunk list as it is shared: readers may tell by the pointer whether it is still the same.
pub type ChunkList = Arc<[SliceRecord]>;

/// What stands behind a name; `None` means that there is no such entry.
pub type DentryView = Option<(FileType, Ino)>;

#[derive(Clone, PartialEq, Eq, Hash)]
enum ViewKey {
    Attr(Ino),
    Dentry(Ino, Name),
    Chunk(Ino, u32),
    /// All entries of a directory are known: a name without a view does not exist.
    Whole(Ino),
}

#[derive(Clone)]
enum View {
    Attr(Attr),
    Dentry(DentryView),
    Chunk(ChunkList),
    /// A node that does not exist.
    NoAttr,
    /// Of a whole directory.
    Known,
}

struct Leased {
    /// When it was asked for.
    asked: Duration,
    /// Believed until then, whatever others do.
    until: Duration,
    /// Believed as long as nothing else is heard and the store is not silent.
    kept: bool,
    /// Of an entry: the term of its directory in which it was learned.
    term: u64,
    view: View,
}

#[derive(Default)]
struct Shard {
    views: RwLock<HashMap<ViewKey, Leased>>,
    /// Counts what our own changes did to this shard, and what was heard of others'.
    changes: AtomicU64,
    /// Counts what was heard.
    heard: AtomicU64,
    /// Views it may hold.
    most: usize,
}

impl Shard {
    /// Takes a view. A full table is thinned out, and nothing is whole after that.
    fn insert(&self, views: &mut HashMap<ViewKey, Leased>, key: ViewKey, leased: Leased) {
        if views.len() >= self.most {
            self.changes.fetch_add(1, Ordering::AcqRel);
            let mut keep = false;
            views.retain(|key, _| {
                keep = !keep;
                keep && !matches!(key, ViewKey::Whole(_))
            });
        }
        views.insert(key, leased);
    }

    /// What changed so far: ours and others' together, and others' alone. The first is counted first.
    fn moves(&self) -> (u64, u64) {
        let heard = self.heard.load(Ordering::Acquire);
        (self.changes.load(Ordering::Acquire).max(heard), heard)
    }
}

/// Proof of when a read began; see [`Views::learn`].
pub struct ReadMark(Vec<(u64, u64)>);

/// Keys of a commit under way; see [`Views::begin_commit`].
pub struct CommitMark(Vec<(ViewKey, u64)>);

/// Proof that a directory was empty from here on, but for what this mount puts there; see [`Views::begin_empty`].
pub struct EmptyMark {
    term: u64,
    heard: u64,
}

/// The views of a mount.
pub struct Views {
    shards: Vec<Shard>,
    /// Commits under way for a key, and whether two ever overlapped: their order is unknown then.
    in_flight: Mutex<BTreeMap<u64, (u32, bool)>>,
    /// How long a record is believed.
    lease: Duration,
    /// Counts how often all entries of a directory were revoked.
    terms: Vec<AtomicU64>,
    /// Whether the store tells what others change.
    pushed: AtomicBool,
    /// Until when nothing was missed, in nanoseconds of the monotonic clock.
    vouched: AtomicU64,
}

impl Views {
    /// Views that are believed for `lease` after they were learned.
    #[must_use]
    pub fn new(lease: Duration) -> Views {
        Views::of(lease, limits::VIEWS_MAX as u64)
    }

    /// The same, but no more than so many.
    #[must_use]
    pub fn of(lease: Duration, most: u64) -> Views {
        let most = usize::try_from(most).unwrap_or(usize::MAX) / SHARDS;
        Views {
            shards: (0..SHARDS).map(|_| Shard { most, ..Shard::default() }).collect(),
            in_flight: Mutex::default(),
            lease,
            terms: (0..TERMS).map(|_| AtomicU64::new(0)).collect(),
            pushed: AtomicBool::new(false),
            vouched: AtomicU64::new(0),
        }
    }

    /// From now on the store tells what others change.
    pub fn hear(&self) {
        self.pushed.store(true, Ordering::Relaxed);
    }

    /// Whether the store tells what others change.
    #[must_use]
    pub fn hears(&self) -> bool {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Attributes of a node.
    #[must_use]
    pub fn attr(&self, ino: Ino, mono: Duration) -> Option<Attr> {
        match self.get(&ViewKey::Attr(ino), mono)? {
            View::Attr(attr) => Some(attr),
            _ => None,
        }
    }

    /// What stands behind a name, if that is known.
    #[must_use]
    pub fn dentry(&self, dir: Ino, name: &Name, mono: Duration) -> Option<DentryView> {
        let key = ViewKey::Dentry(dir, name.clone());
        let views = self.shards[shard_of(&key)].views.read();
        match views.get(&key) {
            Some(leased) if self.holds(&key, leased, mono) => match leased.view {
                View::Dentry(dentry) => Some(dentry),
                _ => None,
            },
            Some(_) => None,
            None => {
                let whole = ViewKey::Whole(dir);
                views.get(&whole).filter(|leased| self.holds(&whole, leased, mono)).map(|_| None)
            }
        }
    }

    /// The list of a chunk; empty where the chunk is a hole.
    #[must_use]
    pub fn chunk(&self, ino: Ino, index: u32, mono: Duration) -> Option<ChunkList> {
        match self.get(&ViewKey::Chunk(ino, index), mono)? {
            View::Chunk(list) => Some(list),
            _ => None,
        }
    }

    /// Attributes that were asked for at this time or later, whether or not they are still believed: what an
    /// operation that began then may see.
    #[must_use]
    pub fn attr_since(&self, ino: Ino, since: Duration) -> Option<Attr> {
        match self.get_since(&ViewKey::Attr(ino), since)? {
            View::Attr(attr) => Some(attr),
            _ => None,
        }
    }

    /// A chunk list, likewise.
    #[must_use]
    pub fn chunk_since(&self, ino: Ino, index: u32, since: Duration) -> Option<ChunkList> {
        match self.get_since(&ViewKey::Chunk(ino, index), since)? {
            View::Chunk(list) => Some(list),
            _ => None,
        }
    }

    /// The record under a key as a rule may see it, whether or not its lease is over: what a rule decides from it
    /// is checked by the commit. The outer `None` means that no view knows.
    #[must_use]
    pub fn record(&self, key: &Key, mono: Duration) -> Option<Option<Record>> {
        let view_key = view_key(key)?;
        let view = match &view_key {
            // Of names that come and go an old view says too little.
            ViewKey::Dentry(dir, name) => View::Dentry(self.dentry(*dir, name, mono)?),
            _ => self.known(&view_key)?,
        };
        Some(match view {
            View::Attr(attr) => Some(Record::Attr(attr)),
            View::Dentry(dentry) => dentry.map(|(kind, ino)| Record::Dentry { kind, ino }),
            View::Chunk(list) if list.is_empty() => None,
            View::Chunk(list) => Some(Record::Slices(list.to_vec())),
            View::NoAttr | View::Known => None,
        })
    }

    /// To be taken before records are read that shall be learned.
    #[must_use]
    pub fn begin_read(&self) -> ReadMark {
        ReadMark(self.shards.iter().map(Shard::moves).collect())
    }

    /// Takes records that were read after `mark`, unless a change of ours came between. Where somebody else's was
    /// heard of, they are no more than what they were when they were asked for, at `mono`.
    pub fn learn(&self, found: &[(Key, Option<Record>)], mark: &ReadMark, mono: Duration) {
        for (key, record) in found {
            let Some((view_key, view)) = to_view(key, record.as_ref()) else { continue };
            let index = shard_of(&view_key);
            let shard = &self.shards[index];
            let mut views = shard.views.write();
            let (changes, heard) = shard.moves();
            let Some((changes_then, heard_then)) = mark.0.get(index) else { continue };
            let undisturbed = heard == *heard_then;
            let newer = || views.get(&view_key).is_none_or(|old| old.asked < mono);
            if changes - heard == changes_then - heard_then && (undisturbed || newer()) {
                let leased = Leased { kept: undisturbed, ..self.leased(&view_key, view, mono) };
                shard.insert(&mut views, view_key, leased);
            }
        }
    }

    /// The entries of a directory that were found after `mark` are all it has, unless something came between.
    pub fn learn_whole(&self, dir: Ino, mark: &ReadMark, mono: Duration) {
        let index = shard_of(&ViewKey::Whole(dir));
        let shard = &self.shards[index];
        let mut views = shard.views.write();
        if self.lasts() && mark.0.get(index) == Some(&shard.moves()) {
            let leased = self.leased(&ViewKey::Whole(dir), View::Known, mono);
            views.insert(ViewKey::Whole(dir), leased);
        }
    }

    /// To be called before a directory is made.
    #[must_use]
    pub fn begin_empty(&self, dir: Ino) -> EmptyMark {
        let key = ViewKey::Whole(dir);
        let heard = self.shards[shard_of(&key)].heard.load(Ordering::Acquire);
        EmptyMark { term: self.term(&key), heard }
    }

    /// A directory was made and has no entries, but for what others were heard to put there since. To be called
    /// before anybody here can know it.
    pub fn learn_empty(&self, dir: Ino, mark: EmptyMark, mono: Duration) {
        if self.lasts() {
            self.change(ViewKey::Whole(dir), |shard, views, key| {
                // A connection that was lost meanwhile ends no term, and what came through it is not believed.
                if shard.heard.load(Ordering::Acquire) == mark.heard {
                    let leased = Leased { term: mark.term, ..self.leased(&key, View::Known, mono) };
                    shard.insert(views, key, leased);
                }
            });
        }
    }

    /// Whether a lease lasts longer than a moment: nobody else changes the volume, or who does is heard.
    fn lasts(&self) -> bool {
        self.lease == Duration::MAX || self.hears()
    }

    /// To be called before a change set that writes these keys is sent to the engine.
    #[must_use]
    pub fn begin_commit<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> CommitMark {
        let keys: Vec<ViewKey> = keys.filter_map(view_key).collect();
        let mut in_flight = self.in_flight.lock();
        for key in &keys {
            let (count, overlapped) = in_flight.entry(hash_of(key)).or_insert((0, false));
            *overlapped |= *count > 0;
            *count += 1;
        }
        let heard = |key: ViewKey| {
            let heard = self.shards[shard_of(&key)].heard.load(Ordering::Acquire);
            (key, heard)
        };
        CommitMark(keys.into_iter().map(heard).collect())
    }

    /// Takes what a commit wrote. Where commits of a key overlapped, or somebody else's change was heard of
    /// meanwhile, nobody knows which came last: the view goes.
    /// `applied` is `None` when the outcome is an error or unknown: all its keys are forgotten.
    pub fn end_commit(&self, mark: CommitMark, applied: Option<&Found>, mono: Duration) {
        let mut doubtful = Vec::new();
        {
            let mut in_flight = self.in_flight.lock();
            for (key, heard) in mark.0 {
                let hash = hash_of(&key);
                let Some((count, overlapped)) = in_flight.get_mut(&hash) else { continue };
                *count -= 1;
                let overlapped = *overlapped;
                if *count == 0 {
                    in_flight.remove(&hash);
                }
                let changed = self.shards[shard_of(&key)].heard.load(Ordering::Acquire) != heard;
                if overlapped || changed || applied.is_none() {
                    doubtful.push(key);
                }
            }
        }
        for (key, record) in applied.into_iter().flatten() {
            let Some((view_key, view)) = to_view(key, record.as_ref()) else { continue };
            if !doubtful.contains(&view_key) {
                self.change(view_key, |shard, views, key| {
                    let leased = self.leased(&key, view, mono);
                    shard.insert(views, key, leased);
                });
            }
        }
        doubtful.iter().for_each(|key| self.forget(key));
    }

    /// Forgets what is known of a file unless its time and length are these: somebody else changed it, and nothing
    /// that was learned of its content before holds.
    pub fn settle_file(&self, ino: Ino, seen: &Attr, unchanged: bool) {
        let stale =
            self.shards[shard_of(&ViewKey::Attr(ino))].views.read().get(&ViewKey::Attr(ino)).is_some_and(
                |leased| match &leased.view {
                    View::Attr(attr) => (attr.mtime, attr.length) != (seen.mtime, seen.length),
                    _ => true,
                },
            );
        if stale {
            self.forget(&ViewKey::Attr(ino));
        }
        if stale || !unchanged {
            // All of them are in the same part of the table.
            let last = u32::try_from(seen.length / limits::CHUNK_SIZE).unwrap_or(u32::MAX);
            self.change(ViewKey::Chunk(ino, 0), |_, views, _| match last {
                0..64 => (0..=last).for_each(|index| drop(views.remove(&ViewKey::Chunk(ino, index)))),
                _ => views.retain(|key, _| !matches!(key, ViewKey::Chunk(of, _) if *of == ino)),
            });
        }
    }

    /// Forgets what is known of a file.
    pub fn forget_file(&self, ino: Ino) {
        self.forget(&ViewKey::Attr(ino));
        // All of them are in the same part of the table.
        self.change(ViewKey::Chunk(ino, 0), |_, views, _| {
            views.retain(|key, _| !matches!(key, ViewKey::Chunk(of, _) if *of == ino));
        });
    }

    /// Entries in all shards.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.views.read().len()).sum()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, key: &ViewKey, mono: Duration) -> Option<View> {
        let views = self.shards[shard_of(key)].views.read();
        views.get(key).filter(|leased| self.holds(key, leased, mono)).map(|leased| leased.view.clone())
    }

    fn get_since(&self, key: &ViewKey, since: Duration) -> Option<View> {
        let views = self.shards[shard_of(key)].views.read();
        views.get(key).filter(|leased| leased.asked >= since).map(|leased| leased.view.clone())
    }

    fn known(&self, key: &ViewKey) -> Option<View> {
        self.shards[shard_of(key)].views.read().get(key).map(|leased| leased.view.clone())
    }

    fn holds(&self, key: &ViewKey, leased: &Leased, mono: Duration) -> bool {
        if planted::active(Bug::NegativeEntrySurvives) && matches!(leased.view, View::Dentry(None)) {
            return true;
        }
        if !self.pushed.load(Ordering::Relaxed) {
            return leased.until >= mono;
        }
        leased.kept
            && leased.term == self.term(key)
            && Duration::from_nanos(self.vouched.load(Ordering::Acquire)) >= mono
    }

    fn term(&self, key: &ViewKey) -> u64 {
        match key {
            ViewKey::Dentry(dir, _) | ViewKey::Whole(dir) => {
                self.terms[term_of(*dir)].load(Ordering::Acquire)
            }
            _ => 0,
        }
    }

    fn leased(&self, key: &ViewKey, view: View, mono: Duration) -> Leased {
        Leased { asked: mono, until: mono.saturating_add(self.lease), kept: true, term: self.term(key), view }
    }

    /// Ends a lease of something that others changed; what it was is still a good guess.
    fn revoke(&self, key: &ViewKey) {
        let shard = &self.shards[shard_of(key)];
        let mut views = shard.views.write();
        shard.changes.fetch_add(1, Ordering::AcqRel);
        shard.heard.fetch_add(1, Ordering::AcqRel);
        if let Some(leased) = views.get_mut(key) {
            leased.kept = false;
        }
    }

    fn forget(&self, key: &ViewKey) {
        self.change(key.clone(), |_, views, key| {
            views.remove(&key);
            if let ViewKey::Dentry(dir, _) = key {
                views.remove(&ViewKey::Whole(dir));
            }
        });
    }

    fn change(&self, key: ViewKey, with: impl FnOnce(&Shard, &mut HashMap<ViewKey, Leased>, ViewKey)) {
        let shard = &self.shards[shard_of(&key)];
        let mut views = shard.views.write();
        shard.changes.fetch_add(1, Ordering::AcqRel);
        with(shard, &mut views, key);
    }
}

impl Listener for Views {
    fn changed(&self, what: &Changed) {
        match what {
            Changed::Attr(ino) => self.revoke(&ViewKey::Attr(*ino)),
            Changed::Chunk(ino, index) => self.revoke(&ViewKey::Chunk(*ino, *index)),
            Changed::Entries(dir) => {
                let shard = &self.shards[shard_of(&ViewKey::Attr(*dir))];
                let _order = shard.views.write();
                shard.changes.fetch_add(1, Ordering::AcqRel);
                shard.heard.fetch_add(1, Ordering::AcqRel);
                self.terms[term_of(*dir)].fetch_add(1, Ordering::AcqRel);
            }
            // Of locks nothing is believed.
            Changed::Locks(_) => {}
            Changed::Anything if planted::active(Bug::SilenceBelieved) => {}
            Changed::Anything => {
                self.vouched.store(0, Ordering::Release);
                for shard in &self.shards {
                    let mut views = shard.views.write();
                    shard.changes.fetch_add(1, Ordering::AcqRel);
                    shard.heard.fetch_add(1, Ordering::AcqRel);
                    views.values_mut().for_each(|leased| leased.kept = false);
                }
            }
        }
    }

    fn vouch(&self, until: Duration) {
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.vouched.store(until, Ordering::Release);
    }
}

fn view_key(key: &Key) -> Option<ViewKey> {
    Some(match key {
        Key::Attr(ino) => ViewKey::Attr(*ino),
        Key::Dentry(dir, name) => ViewKey::Dentry(*dir, name.clone()),
        Key::Chunk(ino, index) => ViewKey::Chunk(*ino, *index),
        _ => return None,
    })
}

/// The view a record becomes.
fn to_view(key: &Key, record: Option<&Record>) -> Option<(ViewKey, View)> {
    let view = match (key, record) {
        (Key::Attr(_), Some(Record::Attr(attr))) => View::Attr(attr.clone()),
        (Key::Attr(_), None) => View::NoAttr,
        (Key::Dentry(..), Some(Record::Dentry { kind, ino })) => View::Dentry(Some((*kind, *ino))),
        (Key::Dentry(..), None) => View::Dentry(None),
        (Key::Chunk(..), Some(Record::Slices(list))) => View::Chunk(list.as_slice().into()),
        (Key::Chunk(..), None) => View::Chunk(Arc::new([])),
        _ => return None,
    };
    Some((view_key(key)?, view))
}

fn hash_of(key: &ViewKey) -> u64 {
    // A fixed hasher: the same key has the same place in every run.
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

fn term_of(dir: Ino) -> usize {
    (dir.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % TERMS
}

fn shard_of(key: &ViewKey) -> usize {
    let number = match key {
        ViewKey::Attr(ino) | ViewKey::Chunk(ino, _) | ViewKey::Dentry(ino, _) | ViewKey::Whole(ino) => ino.0,
    };
    // Records of one inode share a shard; consecutive inodes do not.
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::Time;

    const NOW: Duration = Duration::from_secs(10);

    fn attr(length: u64) -> (Key, Option<Record>) {
        let mut attr = Attr::new(FileType::File, 0o644, 0, 0, Ino::ROOT, Time::new(1, 0));
        attr.length = length;
        (Key::Attr(Ino(5)), Some(Record::Attr(attr)))
    }

    fn entry(name: &str) -> (Key, Option<Record>) {
        let record = Record::Dentry { kind: FileType::File, ino: Ino(5) };
        (Key::Dentry(Ino::ROOT, Name::new(name.as_bytes()).unwrap()), Some(record))
    }

    /// Views that hear, vouched for, and that know this.
    fn knowing(found: &[(Key, Option<Record>)]) -> Views {
        let views = Views::new(Duration::from_secs(1));
        views.hear();
        views.vouch(NOW);
        views.learn(found, &views.begin_read(), NOW);
        views
    }

    fn length(views: &Views) -> Option<u64> {
        views.attr(Ino(5), NOW).map(|attr| attr.length)
    }

    fn knows(views: &Views, name: &str) -> bool {
        views.dentry(Ino::ROOT, &Name::new(name.as_bytes()).unwrap(), NOW).is_some()
    }

    #[test]
    fn a_lease_ends_when_somebody_changes_the_record() {
        let views = knowing(&[attr(1), entry("a")]);
        assert!(length(&views) == Some(1) && knows(&views, "a"));
        views.changed(&Changed::Attr(Ino(5)));
        assert!(length(&views).is_none() && knows(&views, "a"));
        views.changed(&Changed::Entries(Ino::ROOT));
        assert!(!knows(&views, "a"));
    }

    #[test]
    fn what_was_asked_for_since_an_operation_began_will_do_for_it_without_a_lease() {
        let (views, later) = (Views::new(Duration::from_secs(1)), NOW + Duration::from_secs(1));
        views.hear();
        let since = |views: &Views, since| views.attr_since(Ino(5), since).map(|attr| attr.length);
        views.learn(&[attr(1)], &views.begin_read(), NOW);
        assert!(length(&views).is_none(), "nobody vouches for it");
        assert_eq!((since(&views, NOW), since(&views, later)), (Some(1), None));
        let mark = views.begin_read();
        views.changed(&Changed::Attr(Ino(5)));
        views.learn(&[attr(2)], &mark, later);
        views.vouch(later);
        assert!(length(&views).is_none(), "it may be older than the change");
        assert_eq!(since(&views, later), Some(2));
    }

    #[test]
    fn a_revoked_record_is_still_a_guess_for_changes() {
        let views = knowing(&[attr(1)]);
        views.changed(&Changed::Attr(Ino(5)));
        assert_eq!(views.record(&Key::Attr(Ino(5)), NOW), Some(attr(1).1));
    }

    #[test]
    fn negative_entries_end_too() {
        let views = knowing(&[(entry("new").0, None)]);
        assert!(knows(&views, "new"));
        views.changed(&Changed::Entries(Ino::ROOT));
        assert!(!knows(&views, "new"));
    }

    #[test]
    fn a_name_without_a_view_does_not_exist_where_all_are_known() {
        let views = knowing(&[entry("a")]);
        assert!(!knows(&views, "b"));
        views.learn_whole(Ino::ROOT, &views.begin_read(), NOW);
        assert!(knows(&views, "b"));
        assert!(views.dentry(Ino::ROOT, &Name::new(b"a").unwrap(), NOW).unwrap().is_some());
        let absent = Key::Dentry(Ino::ROOT, Name::new(b"b").unwrap());
        assert_eq!(views.record(&absent, NOW), Some(None));
        views.changed(&Changed::Entries(Ino::ROOT));
        assert!(!knows(&views, "b") && views.record(&absent, NOW).is_none());
    }

    #[test]
    fn a_listing_is_not_whole_when_something_came_between() {
        let views = knowing(&[]);
        let mark = views.begin_read();
        views.changed(&Changed::Entries(Ino::ROOT));
        views.learn_whole(Ino::ROOT, &mark, NOW);
        assert!(!knows(&views, "b"));
        let (mark, own) = (views.begin_read(), views.begin_commit([entry("a").0].iter()));
        views.end_commit(own, None, NOW);
        views.learn_whole(Ino::ROOT, &mark, NOW);
        assert!(!knows(&views, "b"), "whether a is there is not known");
    }

    #[test]
    fn an_entry_of_which_nothing_is_known_ends_the_whole() {
        let views = knowing(&[entry("a")]);
        views.learn_whole(Ino::ROOT, &views.begin_read(), NOW);
        let mark = views.begin_commit([entry("c").0].iter());
        views.end_commit(mark, None, NOW);
        assert!(!knows(&views, "c") && !knows(&views, "b") && knows(&views, "a"));
    }

    #[test]
    fn a_new_directory_is_empty_until_others_are_heard_in_it() {
        let dir = Ino(77);
        let absent = |views: &Views| views.dentry(dir, &Name::new(b"x").unwrap(), NOW).is_some();
        let views = knowing(&[]);
        views.learn_empty(dir, views.begin_empty(dir), NOW);
        assert!(absent(&views));
        let views = knowing(&[]);
        let mark = views.begin_empty(dir);
        views.changed(&Changed::Entries(dir));
        views.learn_empty(dir, mark, NOW);
        assert!(!absent(&views), "heard while it was made");
        let views = knowing(&[]);
        let mark = views.begin_empty(dir);
        views.changed(&Changed::Anything);
        views.learn_empty(dir, mark, NOW);
        views.vouch(NOW);
        assert!(!absent(&views), "the connection was lost while it was made");
        let deaf = Views::new(Duration::from_secs(1));
        deaf.learn_empty(dir, deaf.begin_empty(dir), NOW);
        assert!(!absent(&deaf), "others' entries would not be heard of");
    }

    #[test]
    fn when_views_are_thinned_out_no_directory_is_whole() {
        let views = Views::new(Duration::MAX);
        views.learn_whole(Ino::ROOT, &views.begin_read(), NOW);
        assert!(knows(&views, "none"));
        for n in 0..=limits::VIEWS_MAX / SHARDS {
            views.learn(&[(entry(&format!("{n}")).0, None)], &views.begin_read(), NOW);
        }
        assert!(!knows(&views, "none"));
    }

    #[test]
    fn nothing_is_believed_while_the_store_is_silent() {
        let views = knowing(&[attr(1)]);
        let later = NOW + Duration::from_nanos(1);
        assert!(views.attr(Ino(5), later).is_none());
        views.vouch(later);
        assert!(views.attr(Ino(5), later).is_some());
    }

    #[test]
    fn nothing_is_believed_after_the_connection_was_lost() {
        let views = knowing(&[attr(1), entry("a")]);
        let mark = views.begin_read();
        views.changed(&Changed::Anything);
        views.vouch(NOW);
        assert!(length(&views).is_none() && !knows(&views, "a"));
        views.learn(&[attr(1)], &mark, NOW);
        assert!(length(&views).is_none(), "an answer of the lost connection was believed");
    }

    #[test]
    fn what_was_heard_during_a_read_or_a_commit_outdates_it() {
        let views = knowing(&[]);
        let mark = views.begin_read();
        views.changed(&Changed::Attr(Ino(5)));
        views.learn(&[attr(1)], &mark, NOW);
        assert!(length(&views).is_none());
        let mark = views.begin_commit([Key::Attr(Ino(5))].iter());
        views.changed(&Changed::Attr(Ino(5)));
        views.end_commit(mark, Some(&vec![attr(2)]), NOW);
        assert!(length(&views).is_none());
        let mark = views.begin_commit([Key::Attr(Ino(5))].iter());
        views.end_commit(mark, Some(&vec![attr(3)]), NOW);
        assert_eq!(length(&views), Some(3));
    }
}
