//! What quotas say, against a count of what they are about: what is below a directory, each name once, and what users
//! and groups own. A usage that moved while it was counted is counted again; it is put right only if it is still what
//! was compared. Knows no setting and no table.

use crate::failure::Failure;
use crate::reclaim::rules;
use crate::whole::Whole;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zest_metadata::apply::shown;
use zest_metadata::{ChangeSet, CommitError, Expect, Key, MetaCore, Op, Record, Scan, Write};
use zest_types::{Attr, Caller, Errno, FileType, Ino, limits};

/// How often something that moves is counted.
const ROUNDS: usize = 4;
/// Clients of the volume format write what they counted after at most this long.
const LATE: Duration = Duration::from_secs(4);
/// How long clients may take to hear of something new, at most.
const PATIENCE: u32 = 150;

/// Bytes and nodes.
pub type Usage = (i64, i64);

/// A quota as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Quota {
    pub max_space: i64,
    pub max_inodes: i64,
    pub used_space: i64,
    pub used_inodes: i64,
}

impl Quota {
    /// Of a user or group nobody set limits for.
    const NONE: Quota = Quota { max_space: -1, max_inodes: -1, used_space: 0, used_inodes: 0 };

    fn of(record: &Record) -> Option<Quota> {
        match *record {
            Record::Quota { max_space, max_inodes, used_space, used_inodes } => {
                Some(Quota { max_space, max_inodes, used_space, used_inodes })
            }
            _ => None,
        }
    }

    fn record(self) -> Record {
        let Quota { max_space, max_inodes, used_space, used_inodes } = self;
        Record::Quota { max_space, max_inodes, used_space, used_inodes }
    }

    /// What it says is used.
    #[must_use]
    pub fn used(self) -> Usage {
        (self.used_space, self.used_inodes)
    }

    /// Whether it limits anything.
    #[must_use]
    pub fn limits(self) -> bool {
        self.max_space > 0 || self.max_inodes > 0
    }
}

/// How a quota stands against a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It says what was counted.
    Right,
    /// It says something else; this was counted.
    Off(Usage),
    /// It said something else, and was put right.
    Repaired(Usage),
    /// It changed whenever it was counted.
    Moving,
}

/// Which quotas are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// This one.
    One(Key),
    /// Those of users and groups.
    Owners,
    /// Those of directories.
    Directories,
}

/// A quota as it is stored, `None` where there is none.
pub async fn read(whole: &Whole, key: &Key) -> Result<Option<Quota>, Failure> {
    let found = whole.engine.read(std::slice::from_ref(key)).await?;
    Ok(found.into_iter().next().flatten().as_ref().and_then(Quota::of))
}

/// All quotas of a kind, by key.
pub async fn list(whole: &Whole, which: &Which) -> Result<BTreeMap<Key, Quota>, Failure> {
    let limit = limits::QUOTA_DIRS;
    let scans = match which {
        Which::One(key) => {
            return Ok(read(whole, key).await?.map(|quota| (key.clone(), quota)).into_iter().collect());
        }
        Which::Owners => vec![Scan::UserQuotas { limit }, Scan::GroupQuotas { limit }],
        Which::Directories => vec![Scan::DirQuotas { limit }],
    };
    let mut all = BTreeMap::new();
    for scan in scans {
        let found = whole.engine.scan(&scan).await?;
        all.extend(found.into_iter().filter_map(|(key, record)| Some((key, Quota::of(&record)?))));
    }
    Ok(all)
}

/// What is below a directory, each name once, without the directory itself.
pub async fn below(whole: &Whole, dir: Ino) -> Result<Usage, Failure> {
    let (mut sum, mut waiting, mut seen) = ((0, 0), vec![dir], BTreeSet::from([dir]));
    while let Some(dir) = waiting.pop() {
        children(whole, dir, &mut |ino, kind, attr| {
            sum = plus(sum, attr.map_or((4096, 1), cost));
            // A directory that is below itself is damage, and no reason to go round for ever.
            if kind == FileType::Directory && seen.insert(ino) {
                waiting.push(ino);
            }
        })
        .await?;
    }
    Ok(sum)
}

/// What every user and group owns: all nodes with names, those that are removed and still open, and copies in the
/// making; each node once. The root, and what the trash is made of, count for nobody.
pub async fn owned(whole: &Whole) -> Result<BTreeMap<Key, Usage>, Failure> {
    let mut all: BTreeMap<Key, Usage> = BTreeMap::new();
    let mut linked: BTreeSet<Ino> = BTreeSet::new();
    let mut waiting = vec![Ino::ROOT, Ino::TRASH];
    let mut loose: Vec<Ino> = Vec::new();
    for (key, _) in whole.engine.scan(&Scan::Sustained { limit: limits::LINKED_FILES }).await? {
        if let Key::Sustained { ino, .. } = key {
            loose.push(ino);
        }
    }
    for (key, _) in whole.engine.scan(&Scan::Detached { limit: limits::LINKED_FILES }).await? {
        if let Key::Detached(ino) = key {
            loose.push(ino);
            waiting.push(ino);
        }
    }
    loose.sort();
    loose.dedup();
    let mut seen: BTreeSet<Ino> = waiting.iter().copied().collect();
    for batch in loose.chunks(limits::READDIR_BATCH) {
        for (ino, attr) in whole.attrs(batch).await? {
            // What was removed while open may have another name still, and is met there.
            if attr.nlink == 0 || seen.contains(&ino) {
                charge(&mut all, &attr);
            }
        }
    }
    while let Some(dir) = waiting.pop() {
        children(whole, dir, &mut |ino, kind, attr| {
            if kind == FileType::Directory && seen.insert(ino) {
                waiting.push(ino);
            }
            let Some(attr) = attr.filter(|_| !ino.is_trash()) else { return };
            let several = !attr.is_dir() && (attr.parent == Ino(0) || attr.nlink != 1);
            if !several || linked.insert(ino) {
                charge(&mut all, attr);
            }
        })
        .await?;
        if linked.len() > limits::LINKED_FILES {
            return Err(Failure::TooMany(linked.len()));
        }
    }
    Ok(all)
}

async fn children(
    whole: &Whole,
    dir: Ino,
    each: &mut impl FnMut(Ino, FileType, Option<&Attr>),
) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let (batch, next) = whole.children(dir, after).await?;
        for child in &batch {
            each(child.ino, child.kind, child.attr.as_ref());
        }
        if next.is_none() {
            return Ok(());
        }
        after = next;
    }
}

fn cost(attr: &Attr) -> Usage {
    (shown(attr).map_or(0, |(_, space)| space), 1)
}

fn plus(one: Usage, other: Usage) -> Usage {
    (one.0.saturating_add(other.0), one.1.saturating_add(other.1))
}

fn charge(all: &mut BTreeMap<Key, Usage>, attr: &Attr) {
    for key in [Key::UserQuota(attr.uid), Key::GroupQuota(attr.gid)] {
        let sum = all.entry(key).or_default();
        *sum = plus(*sum, cost(attr));
    }
}

async fn counted(whole: &Whole, which: &Which) -> Result<BTreeMap<Key, Usage>, Failure> {
    match which {
        Which::One(Key::DirQuota(dir)) => Ok([(Key::DirQuota(*dir), below(whole, *dir).await?)].into()),
        Which::One(key) => {
            let mut all = owned(whole).await?;
            let used = all.remove(key).unwrap_or_default();
            Ok([(key.clone(), used)].into())
        }
        Which::Owners => owned(whole).await,
        Which::Directories => {
            let mut all = BTreeMap::new();
            for key in list(whole, which).await?.into_keys() {
                if let Key::DirQuota(dir) = key {
                    all.insert(key, below(whole, dir).await?);
                }
            }
            Ok(all)
        }
    }
}

/// Compares quotas with what they are about, and with `repair` puts them right. What others change meanwhile is
/// counted again; while others use the volume, what is off must be off twice.
pub async fn check(whole: &Whole, which: &Which, repair: bool) -> Result<BTreeMap<Key, Found>, Failure> {
    let mut done: BTreeMap<Key, Found> = BTreeMap::new();
    let mut off: BTreeMap<Key, (Usage, Usage)> = BTreeMap::new();
    for round in 0..ROUNDS {
        if round > 0 {
            whole.world.clock.sleep(LATE).await;
        }
        let alone = whole.engine.exclusive() || sessions(whole).await?.is_empty();
        let before = list(whole, which).await?;
        let counted = counted(whole, which).await?;
        let after = list(whole, which).await?;
        let keys: BTreeSet<&Key> = before.keys().chain(counted.keys()).chain(after.keys()).collect();
        let mut open = false;
        for key in keys {
            let stored = |all: &BTreeMap<Key, Quota>| all.get(key).copied();
            let used = stored(&after).unwrap_or(Quota::NONE).used();
            let real = counted.get(key).copied().unwrap_or_default();
            let quiet = stored(&before) == stored(&after);
            let found = if !quiet {
                Found::Moving
            } else if used == real {
                Found::Right
            } else if !alone && off.insert(key.clone(), (used, real)) != Some((used, real)) {
                Found::Moving
            } else if repair {
                match put(whole, key, stored(&after), real).await? {
                    true => Found::Repaired(real),
                    false => Found::Moving,
                }
            } else {
                Found::Off(real)
            };
            // What was put right in a round before is right now.
            let repaired = matches!(done.get(key), Some(Found::Repaired(_))) && found == Found::Right;
            open |= found == Found::Moving;
            if !repaired {
                done.insert(key.clone(), found);
            }
        }
        if !open {
            break;
        }
    }
    Ok(done)
}

/// Writes a usage, if the quota is as it was seen.
async fn put(whole: &Whole, key: &Key, seen: Option<Quota>, real: Usage) -> Result<bool, Failure> {
    let expect = match seen {
        Some(quota) => Expect::Same(key.clone(), quota.record()),
        None => Expect::Absent(key.clone()),
    };
    let quota = Quota { used_space: real.0, used_inodes: real.1, ..seen.unwrap_or(Quota::NONE) };
    let changes = ChangeSet { expect: vec![expect], write: vec![Write::Put(key.clone(), quota.record())] };
    match whole.engine.commit(&changes).await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict(_)) => Ok(false),
        Err(CommitError::Unknown(_)) => Err(Failure::Refused(Errno::EIO)),
        Err(CommitError::Engine(error)) => Err(error.into()),
    }
}

/// Sets limits; what is `None` stays as it is, or is none. A directory that had no quota is counted first.
pub async fn set(
    whole: &Whole,
    key: &Key,
    max_space: Option<i64>,
    max_inodes: Option<i64>,
) -> Result<(), Failure> {
    let usage = match key {
        Key::DirQuota(dir) if read(whole, key).await?.is_none() => Some(below(whole, *dir).await?),
        _ => None,
    };
    let op = Op::SetQuota { quota: key.clone(), max_space, max_inodes, usage };
    rules(whole).change(Caller::SYSTEM, &op).await?;
    Ok(())
}

/// Takes limits away.
pub async fn drop(whole: &Whole, key: &Key) -> Result<(), Failure> {
    rules(whole).change(Caller::SYSTEM, &Op::DropQuota { quota: key.clone() }).await?;
    Ok(())
}

/// The first count of users and groups, after the volume was told to keep their usage: what is left from a time when it
/// did so goes, but for limits, and every client must know of it before what it changes is counted.
pub async fn begin_owners(whole: &Whole) -> Result<BTreeMap<Key, Found>, Failure> {
    for (key, quota) in list(whole, &Which::Owners).await? {
        if !quota.limits() {
            remove(whole, key).await?;
        }
    }
    everybody_knows(whole).await?;
    check(whole, &Which::Owners, true).await
}

/// The first count of directories' statistics: those left from a time when they were kept are counted anew. Tells of
/// how many directories.
pub async fn begin_statistics(whole: &Whole) -> Result<u64, Failure> {
    everybody_knows(whole).await?;
    let (mut waiting, mut seen) = (vec![Ino::ROOT, Ino::TRASH], BTreeSet::new());
    let rules = rules(whole);
    let mut done = 0;
    while let Some(dir) = waiting.pop() {
        if !seen.insert(dir) {
            continue;
        }
        children(whole, dir, &mut |ino, kind, _| {
            waiting.extend((kind == FileType::Directory).then_some(ino));
        })
        .await?;
        done += u64::from(recount(whole, &rules, dir).await?);
    }
    Ok(done)
}

/// Counts the statistics of a directory anew; `false` where it is gone, or too large to be counted.
pub async fn recount(whole: &Whole, rules: &MetaCore, dir: Ino) -> Result<bool, Failure> {
    remove(whole, Key::DirStat(dir)).await?;
    match rules.change(Caller::SYSTEM, &Op::RecountDirStat { dir }).await {
        Ok(_) => Ok(true),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EOVERFLOW) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

async fn remove(whole: &Whole, key: Key) -> Result<(), Failure> {
    let changes = ChangeSet { expect: Vec::new(), write: vec![Write::Delete(key)] };
    match whole.engine.commit(&changes).await {
        Ok(_) => Ok(()),
        Err(CommitError::Engine(error)) => Err(error.into()),
        Err(CommitError::Conflict(_) | CommitError::Unknown(_)) => Err(Failure::Refused(Errno::EIO)),
    }
}

/// Waits until every client that was here has read the settings and the list of quotas since: each does so with its
/// heartbeat. Those that are dead by then are not waited for.
pub async fn everybody_knows(whole: &Whole) -> Result<(), Failure> {
    if whole.engine.exclusive() {
        return Ok(());
    }
    let mut beats = sessions(whole).await?;
    let mut missing: BTreeMap<u64, u32> = beats.keys().map(|session| (*session, 2)).collect();
    for _ in 0..PATIENCE {
        let now = whole.world.clock.now().sec;
        missing.retain(|session, beats_left| {
            *beats_left > 0 && beats.get(session).is_some_and(|expires| *expires > now)
        });
        if missing.is_empty() {
            break;
        }
        whole.world.clock.sleep(Duration::from_secs(1)).await;
        let new = sessions(whole).await?;
        for (session, left) in &mut missing {
            if new.get(session) > beats.get(session) {
                *left -= 1;
            }
        }
        beats = new;
    }
    if !beats.is_empty() {
        whole.world.clock.sleep(LATE).await;
    }
    Ok(())
}

/// When each session counts as dead, as of its last heartbeat.
async fn sessions(whole: &Whole) -> Result<BTreeMap<u64, i64>, Failure> {
    let found = whole.engine.scan(&Scan::Sessions { limit: usize::MAX }).await?;
    let expiry = |(key, record)| match (key, record) {
        (Key::SessionExpiry(session), Record::Stamp(expires)) => Some((session, expires)),
        _ => None,
    };
    Ok(found.into_iter().filter_map(expiry).collect())
}
