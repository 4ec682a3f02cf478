//! One change from request to commit, and reads that fill the views: what every MetadataActor does, as
//! straight-line async code over the engine. Knows no rule (those are in `rules`) and no engine.

use crate::change::{ChangeSet, Write};
use crate::engine::{CommitError, Engine, EngineError, Found, grown};
use crate::key::{Counter, Key, Scan};
use crate::op::{Env, Op, Outcome};
use crate::record::Record;
use crate::rules::{self, Decision};
use crate::snapshot::{Snapshot, Stop, Want};
use crate::trash;
use crate::unknown;
use crate::views::{ChunkList, Views};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use zest_types::{Caller, Errno, Ino, SliceId, Time, limits};
use zest_world::World;
use zest_world::planted::{self, Bug};

/// Which nodes this client has open. Removal and opening meet here: whoever comes second sees the first.
pub trait OpenFiles: Send + Sync {
    /// A removal of this node is about to be decided: from now until [`OpenFiles::end_removal`] opens take the
    /// slow way. Tells whether the node is open now.
    fn begin_removal(&self, ino: Ino) -> bool;
    /// The removal is committed or given up.
    fn end_removal(&self, ino: Ino);
    /// When an uncommitted slice of an open file was written last, or the time set by hand since.
    fn mtime_of(&self, ino: Ino, slice: SliceId) -> Option<Time>;
}

/// What a mount needs to know of its volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeRules {
    /// Session of this mount.
    pub session: u64,
    /// Removed files stay this many days in the trash; 0 means no trash.
    pub trash_days: u32,
    /// Bytes and inodes the volume may hold; 0 means no limit.
    pub capacity: (u64, u64),
    /// How often this mount's session says that it lives.
    pub heartbeat: Duration,
    /// Whether the volume has access control lists.
    pub acl: bool,
    /// Whether usage of users and groups is kept.
    pub user_quotas: bool,
}

/// State shared by the MetadataActors of a mount.
pub struct MetaCore {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) views: Arc<Views>,
    pub(crate) world: World,
    open_files: Arc<dyn OpenFiles>,
    volume: Mutex<VolumeRules>,
    /// What the session of this mount says of itself.
    pub(crate) session_info: OnceLock<Vec<u8>>,
    /// Inode numbers in stock, and how often they were thrown away.
    inos: Mutex<(Range<u64>, u64)>,
    /// Access rules seen; they never change.
    acl_rules: Mutex<BTreeMap<u32, Record>>,
    /// Directories with a quota, as they were looked up last.
    quota_dirs: Mutex<Arc<BTreeSet<Ino>>>,
    pub(crate) trash_hour: Mutex<trash::CurrentHour>,
    file_locks: Vec<tokio::sync::Mutex<()>>,
}

/// Removals that were announced and must be withdrawn when the change is over.
struct Removals<'a> {
    files: &'a dyn OpenFiles,
    announced: RefCell<Vec<Ino>>,
}

impl Removals<'_> {
    fn begin(&self, ino: Ino) -> bool {
        let open = self.files.begin_removal(ino);
        self.announced.borrow_mut().push(ino);
        open
    }
}

impl Drop for Removals<'_> {
    fn drop(&mut self) {
        for ino in self.announced.borrow_mut().drain(..) {
            self.files.end_removal(ino);
        }
    }
}

impl MetaCore {
    /// A core over an engine.
    #[must_use]
    pub fn new(
        engine: Arc<dyn Engine>,
        views: Arc<Views>,
        world: World,
        open_files: Arc<dyn OpenFiles>,
        volume: VolumeRules,
    ) -> MetaCore {
        MetaCore {
            engine,
            views,
            world,
            open_files,
            volume: Mutex::new(volume),
            session_info: OnceLock::new(),
            inos: Mutex::new((0..0, 0)),
            acl_rules: Mutex::default(),
            quota_dirs: Mutex::default(),
            trash_hour: Mutex::default(),
            file_locks: (0..256).map(|_| tokio::sync::Mutex::new(())).collect(),
        }
    }

    /// Decides and commits one change.
    pub async fn change(&self, caller: Caller, op: &Op) -> Result<Outcome, Errno> {
        let trash = trash::directory_for(self, op).await?;
        let mut outcome = self.change_with_trash(caller, op, trash).await?;
        // Large changes come in steps, each of them whole.
        let mut step = rules::rest(op, &outcome);
        while let Some(op) = step {
            outcome = self.change_with_trash(caller, &op, trash).await?;
            step = rules::rest(&op, &outcome);
        }
        Ok(outcome)
    }

    pub(crate) async fn change_with_trash(
        &self,
        caller: Caller,
        op: &Op,
        trash: Option<Ino>,
    ) -> Result<Outcome, Errno> {
        let _order = match own_file(op) {
            Some(ino) => Some(self.file_locks[(ino.0 % 256) as usize].lock().await),
            None => None,
        };
        let timed = self.with_latest_mtime(op);
        let op = timed.as_ref().unwrap_or(op);
        let makes = matches!(op, Op::Make { .. } | Op::Clone { .. } | Op::CloneDetached { .. });
        let new_ino = if makes { self.take_ino().await? } else { Ino(0) };
        let mut snapshot = Snapshot::default();
        let mut from_views = true;
        for attempt in 0..limits::TXN_RETRIES {
            let removals = Removals { files: &*self.open_files, announced: RefCell::default() };
            let decided =
                self.decide(caller, op, new_ino, trash, &removals, &mut snapshot, from_views).await?;
            let Decision { changes, outcome } = decided;
            if changes.is_empty() {
                return Ok(outcome);
            }
            match self.commit(op, &changes, attempt).await {
                Ok(applied) => {
                    self.world.tell("metadata", "commit", subject(&outcome), changes.write.len() as u64);
                    return Ok(with_fresh_attr(outcome, &applied));
                }
                Err(CommitError::Conflict(found)) => {
                    self.world.tell("metadata", "conflict", u64::from(attempt), found.len() as u64);
                    if !planted::active(Bug::RetryOnOldSnapshot) {
                        snapshot = Snapshot::default();
                        snapshot.learn(found);
                        from_views = false;
                    }
                    drop(removals);
                    self.back_off(attempt).await;
                }
                Err(CommitError::Unknown(why)) => {
                    self.world.tell("metadata", "unknown", u64::from(attempt), why.len() as u64);
                    if !planted::active(Bug::UnknownRepeated) {
                        let looked = unknown::find_out(&*self.engine, &changes, &snapshot).await;
                        if let Some(applied) = looked.map_err(|error| self.errno(&error))? {
                            return Ok(with_fresh_attr(outcome, &applied));
                        }
                        snapshot = Snapshot::default();
                        from_views = false;
                    }
                    drop(removals);
                    self.back_off(attempt).await;
                }
                Err(CommitError::Engine(error)) => return Err(self.errno(&error)),
            }
        }
        Err(Errno::EIO)
    }

    /// Slices are committed with the time their writer knows now, in turn with other changes of the file: a time
    /// set by hand after the write has the last word.
    fn with_latest_mtime(&self, op: &Op) -> Option<Op> {
        let Op::CommitSlices { ino, parts, .. } = op else { return None };
        let mtime = self.open_files.mtime_of(*ino, parts.last()?.record.id)?;
        Some(Op::CommitSlices { ino: *ino, parts: parts.clone(), mtime })
    }

    /// Runs the rule until it has decided, reading what it wants to see. An error that was decided from views is
    /// confirmed from fresh records, since a lease covers lookups and reads only.
    #[allow(clippy::too_many_arguments)]
    async fn decide(
        &self,
        caller: Caller,
        op: &Op,
        new_ino: Ino,
        trash: Option<Ino>,
        removals: &Removals<'_>,
        snapshot: &mut Snapshot,
        mut from_views: bool,
    ) -> Result<Decision, Errno> {
        let mut leased = false;
        let quota_dirs = Arc::clone(&self.quota_dirs.lock());
        loop {
            let decided = {
                let volume = self.volume();
                let is_open = |ino| removals.begin(ino);
                let env = Env {
                    caller,
                    now: self.world.clock.now(),
                    new_ino,
                    session: volume.session,
                    is_open: &is_open,
                    trash,
                    capacity: volume.capacity,
                    acl: volume.acl,
                    user_quotas: volume.user_quotas,
                    quota_dirs: &quota_dirs,
                };
                rules::decide(op, snapshot, &env)
            };
            match decided {
                Ok(decision) if !(decision.changes.is_empty() && leased) => return Ok(decision),
                Err(Stop::Need(wants)) => leased |= self.learn(&wants, snapshot, from_views).await?,
                Err(Stop::Fail(errno)) if !leased => return Err(errno),
                Ok(_) | Err(Stop::Fail(_)) => {
                    leased = false;
                    from_views = false;
                    *snapshot = Snapshot::default();
                }
            }
        }
    }

    /// Adds what is wanted to the snapshot; tells whether a leased view was used.
    async fn learn(&self, wants: &[Want], snapshot: &mut Snapshot, from_views: bool) -> Result<bool, Errno> {
        let mono = self.world.clock.mono();
        let mut leased = false;
        let mut keys = Vec::new();
        for want in wants {
            match want {
                Want::Scan(scan) => {
                    let found = self.engine.scan(scan).await.map_err(|e| self.errno(&e))?;
                    snapshot.learn_scan(scan.clone(), found);
                }
                Want::Key(Key::AclRule(id)) if self.acl_rules.lock().contains_key(id) => {
                    let rule = self.acl_rules.lock().get(id).cloned();
                    snapshot.learn(vec![(Key::AclRule(*id), rule)]);
                }
                Want::Key(key) => match self.views.record(key, mono).filter(|_| from_views) {
                    Some(record) => {
                        leased |= !self.engine.exclusive();
                        snapshot.learn(vec![(key.clone(), record)]);
                    }
                    None => keys.push(key.clone()),
                },
            }
        }
        if !keys.is_empty() {
            snapshot.learn(self.read(keys).await?);
        }
        Ok(leased)
    }

    async fn commit(&self, op: &Op, changes: &ChangeSet, attempt: u32) -> Result<Found, CommitError> {
        if planted::active(Bug::RetryOnOldSnapshot) && attempt > 0 {
            let blind = ChangeSet { expect: Vec::new(), write: changes.write.clone() };
            return self.commit_once(op, &blind).await;
        }
        if planted::active(Bug::RenameInTwoSteps) && matches!(op, Op::Rename { .. }) {
            let (first, second) = split(changes);
            self.commit_once(op, &first).await?;
            self.world.clock.sleep(Duration::from_millis(1)).await;
            return self.commit_once(op, &second).await;
        }
        self.commit_once(op, changes).await
    }

    async fn commit_once(&self, op: &Op, changes: &ChangeSet) -> Result<Found, CommitError> {
        let written: BTreeSet<Key> = changes.write.iter().filter_map(written_key).collect();
        let mark = self.views.begin_commit(written.iter());
        let new_dir = new_directory(changes);
        let empty = new_dir.map(|dir| (dir, self.views.begin_empty(dir)));
        let mono = self.world.clock.mono();
        let known = self.known_lists(&written, mono);
        let lengths = known.iter().map(|(key, list)| (key.clone(), list.len())).collect();
        let result = self.engine.commit_knowing(changes, &lengths).await;
        match result {
            Ok(mut applied) => {
                for key in applied.grown {
                    let list = known.get(&key).map(|list| Record::Slices(grown(&key, list, changes)));
                    applied.records.push((key, list));
                }
                forget_on_purpose(op, &mut applied.records);
                self.views.end_commit(mark, Some(&applied.records), mono);
                if let Some((dir, mark)) = empty {
                    self.views.learn_empty(dir, mark, mono);
                }
                Ok(applied.records)
            }
            Err(error) => {
                self.views.end_commit(mark, None, mono);
                Err(error)
            }
        }
    }

    /// Lists among these keys that need not be read back: nobody changes them without being heard. Should that happen
    /// before the commit is answered, the view goes, whatever the answer.
    fn known_lists(&self, written: &BTreeSet<Key>, mono: Duration) -> BTreeMap<Key, ChunkList> {
        let list = |key: &Key| match key {
            Key::Chunk(ino, index) => Some((key.clone(), self.views.chunk(*ino, *index, mono)?)),
            _ => None,
        };
        written.iter().filter(|_| self.views.hears()).filter_map(list).collect()
    }

    /// Records under keys, fresh from the engine; the views learn them.
    pub async fn read(&self, keys: Vec<Key>) -> Result<Found, Errno> {
        let (mark, asked) = (self.views.begin_read(), self.world.clock.mono());
        let records = self.engine.read(&keys).await.map_err(|e| self.errno(&e))?;
        let found: Found = keys.into_iter().zip(records).collect();
        self.remember_rules(&found);
        self.views.learn(&found, &mark, asked);
        Ok(found)
    }

    /// What the session of this mount says of itself, should it have to begin anew.
    pub fn introduce(&self, info: &[u8]) {
        let _first = self.session_info.set(info.to_vec());
    }

    /// Looks up which directories have a quota: once a mount begins, and at every heartbeat.
    pub async fn look_for_quotas(&self) -> Result<(), Errno> {
        let scan = Scan::DirQuotas { limit: limits::QUOTA_DIRS };
        let found = self.engine.scan(&scan).await.map_err(|e| self.errno(&e))?;
        let dir = |(key, _): (Key, Record)| match key {
            Key::DirQuota(dir) => Some(dir),
            _ => None,
        };
        *self.quota_dirs.lock() = Arc::new(found.into_iter().filter_map(dir).collect());
        Ok(())
    }

    fn remember_rules(&self, found: &Found) {
        for (key, record) in found {
            if let (Key::AclRule(id), Some(rule)) = (key, record) {
                let mut rules = self.acl_rules.lock();
                if rules.len() >= limits::ACL_RULES {
                    rules.clear();
                }
                rules.insert(*id, rule.clone());
            }
        }
    }

    /// What a scan finds; with `attrs`, the attributes of all entries found are learned too.
    pub async fn scan(&self, scan: &Scan, attrs: bool) -> Result<Vec<(Key, Record)>, Errno> {
        let (mark, asked) = (self.views.begin_read(), self.world.clock.mono());
        let found = self.engine.scan(scan).await.map_err(|e| self.errno(&e))?;
        let known: Found = found.iter().map(|(key, record)| (key.clone(), Some(record.clone()))).collect();
        self.views.learn(&known, &mark, asked);
        if let Scan::Dentries { dir, after: None, limit } = scan
            && found.len() < *limit
        {
            self.views.learn_whole(*dir, &mark, asked);
        }
        if attrs {
            let mono = self.world.clock.mono();
            let keys: Vec<Key> = found
                .iter()
                .filter_map(|(_, record)| match record {
                    Record::Dentry { ino, .. } if self.views.attr(*ino, mono).is_none() => {
                        Some(Key::Attr(*ino))
                    }
                    _ => None,
                })
                .collect();
            if !keys.is_empty() {
                self.read(keys).await?;
            }
        }
        Ok(found)
    }

    /// Takes `batch` numbers from a counter. Slice numbers are durable before they are used: an object of a
    /// number that a crash gave back could otherwise be written twice.
    pub async fn take_ids(&self, counter: Counter, batch: u64) -> Result<Range<u64>, Errno> {
        let key = Key::Counter(counter);
        let add = i64::try_from(batch).map_err(|_| Errno::EINVAL)?;
        let changes = ChangeSet { expect: Vec::new(), write: vec![Write::Add(key.clone(), add)] };
        for attempt in 0..limits::TXN_RETRIES {
            match self.engine.commit(&changes).await {
                Ok(applied) => {
                    let end = applied.records.iter().find_map(|(k, r)| match (k == &key, r) {
                        (true, Some(Record::Count(n))) => u64::try_from(*n).ok(),
                        _ => None,
                    });
                    let end = end.ok_or(Errno::EIO)?;
                    if counter == Counter::NextSlice {
                        self.engine.sync().await.map_err(|e| self.errno(&e))?;
                    }
                    return Ok(end.saturating_sub(batch)..end);
                }
                // Numbers lost to an unknown outcome are only numbers.
                Err(CommitError::Conflict(_) | CommitError::Unknown(_)) => self.back_off(attempt).await,
                Err(CommitError::Engine(error)) => return Err(self.errno(&error)),
            }
        }
        Err(Errno::EIO)
    }

    /// Makes everything committed durable.
    pub async fn sync(&self) -> Result<(), Errno> {
        self.engine.sync().await.map_err(|e| self.errno(&e))
    }

    async fn take_ino(&self) -> Result<Ino, Errno> {
        loop {
            let epoch = {
                let mut inos = self.inos.lock();
                match inos.0.next() {
                    Some(number) if number > Ino::ROOT.0 => return Ok(Ino(number)),
                    Some(_) => continue,
                    None => inos.1,
                }
            };
            let batch = self.take_ids(Counter::NextInode, limits::INO_BATCH).await?;
            let mut inos = self.inos.lock();
            if inos.1 == epoch {
                inos.0 = batch;
            }
        }
    }

    /// The store may have forgotten that it gave out the inode numbers in stock: none of them is used any more.
    pub fn forget_numbers(&self) {
        let mut inos = self.inos.lock();
        *inos = (0..0, inos.1 + 1);
    }

    async fn back_off(&self, attempt: u32) {
        let most = u64::from(attempt).saturating_mul(u64::from(attempt)).min(100);
        let wait = if most == 0 { 0 } else { self.world.chance.next_u64() % most };
        self.world.clock.sleep(Duration::from_millis(wait)).await;
    }

    /// The one place where an engine's error becomes an errno.
    pub(crate) fn errno(&self, error: &EngineError) -> Errno {
        self.world.tell("metadata", "engine error", 0, 0);
        self.world.trace.complain(&error.to_string());
        match error {
            EngineError::Full(_) => Errno::ENOSPC,
            EngineError::Damaged { .. } | EngineError::Failed(_) => Errno::EIO,
        }
    }

    pub(crate) fn volume(&self) -> VolumeRules {
        *self.volume.lock()
    }

    /// From now on these limits and trash days hold, and users are counted or not.
    pub fn take_limits(&self, trash_days: u32, capacity: (u64, u64), user_quotas: bool) {
        let mut volume = self.volume.lock();
        (volume.trash_days, volume.capacity, volume.user_quotas) = (trash_days, capacity, user_quotas);
    }
}

/// The file whose attributes a change sets, where changes of one file must not overtake each other.
fn own_file(op: &Op) -> Option<Ino> {
    match op {
        Op::SetAttr { ino, .. }
        | Op::Truncate { ino, .. }
        | Op::Fallocate { ino, .. }
        | Op::CommitSlices { ino, .. } => Some(*ino),
        Op::CopyRange { to, .. } => Some(*to),
        _ => None,
    }
}

/// The key a write writes, where it is one that views know.
fn written_key(write: &Write) -> Option<Key> {
    match write {
        Write::Put(key, _) | Write::Delete(key) => Some(key.clone()),
        Write::Attr(ino, _) | Write::Resize { ino, .. } => Some(Key::Attr(*ino)),
        Write::Append(ino, index, _) | Write::AppendIfPresent(ino, index, _) => {
            Some(Key::Chunk(*ino, *index))
        }
        Write::Add(..)
        | Write::DeleteAll(_)
        | Write::Account { .. }
        | Write::Usage { .. }
        | Write::Charge { .. }
        | Write::AddQuota { .. } => None,
    }
}

/// The directory this change set makes, if it makes one: its record may not have been there before.
fn new_directory(changes: &ChangeSet) -> Option<Ino> {
    changes.write.iter().find_map(|write| match write {
        Write::Put(Key::Attr(ino), Record::Attr(attr)) if attr.is_dir() => Some(*ino),
        _ => None,
    })
}

/// The attributes a commit left have the last word over those a rule expected.
fn with_fresh_attr(outcome: Outcome, applied: &Found) -> Outcome {
    match outcome {
        Outcome::Node { ino, attr, created } => {
            let fresh = applied.iter().find_map(|(key, record)| match (key, record) {
                (Key::Attr(found), Some(Record::Attr(attr))) if *found == ino => Some(attr.clone()),
                _ => None,
            });
            Outcome::Node { ino, attr: fresh.unwrap_or(attr), created }
        }
        other => other,
    }
}

fn subject(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Node { ino, .. } | Outcome::Removed { ino, .. } => ino.0,
        _ => 0,
    }
}

/// Planted: views that a change should have refreshed stay as they were.
fn forget_on_purpose(op: &Op, applied: &mut Found) {
    if planted::active(Bug::StaleReadAfterTruncate) && matches!(op, Op::Truncate { .. }) {
        applied.retain(|(key, _)| !matches!(key, Key::Chunk(..)));
    }
    if planted::active(Bug::LengthNotRefreshed) && matches!(op, Op::CommitSlices { .. }) {
        applied.retain(|(key, _)| !matches!(key, Key::Attr(..)));
    }
}

/// Planted: the entries that go, and then the rest.
fn split(changes: &ChangeSet) -> (ChangeSet, ChangeSet) {
    let goes = |write: &Write| matches!(write, Write::Delete(Key::Dentry(..)));
    let (first, second) = changes.write.iter().cloned().partition(goes);
    (
        ChangeSet { expect: changes.expect.clone(), write: first },
        ChangeSet { expect: Vec::new(), write: second },
    )
}
