//! Whole-file locks and locks on ranges, and what stands in their way. Waiting, waking and deadlocks are the
//! actor's business. Source: POSIX fcntl locks, flock, volume format for the records.

use super::Decision;
use super::draft::{Draft, EXISTS, nothing};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::record::{FlockEntry, LockOwner, LockRange, Record};
use crate::snapshot::{Snapshot, Stop};
use zest_types::request::{LockKind, RangeLock};
use zest_types::{Errno, Ino};
use zest_world::planted::{self, Bug};

/// Linux's numbers, which the records have.
const READ: u32 = 0;
const WRITE: u32 = 1;

pub fn set_whole(
    ino: Ino,
    owner: u64,
    kind: LockKind,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let me = LockOwner { session: env.session, owner };
    let key = Key::Flocks(ino);
    snapshot.need(&[Key::Attr(ino), key.clone()])?;
    let seen = snapshot.get(&key)?;
    let old: &[FlockEntry] = match seen {
        None => &[],
        Some(Record::Flocks(entries)) => entries,
        Some(_) => return Err(Errno::EIO.into()),
    };
    let write = kind == LockKind::Write;
    let mut entries: Vec<FlockEntry> = old.iter().copied().filter(|e| e.owner != me).collect();
    if kind != LockKind::Unlock {
        if entries.iter().any(|e| (write && !planted::active(Bug::SharedLockIgnored)) || e.write) {
            return nothing(Outcome::Blocked);
        }
        entries.push(FlockEntry { owner: me, write });
        entries.sort_by_key(|e| e.owner);
    }
    if entries == old {
        return nothing(unchanged(kind));
    }
    let mut draft = expecting(ino, kind, &key, snapshot)?;
    match entries.is_empty() {
        true => draft.delete(key),
        false => draft.put(key, Record::Flocks(entries)),
    }
    draft.done(Outcome::Done)
}

pub fn set_range(
    ino: Ino,
    owner: u64,
    lock: &RangeLock,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if lock.end < lock.start {
        return Err(Errno::EINVAL.into());
    }
    let me = LockOwner { session: env.session, owner };
    let key = Key::RangeLocks(ino);
    snapshot.need(&[Key::Attr(ino), key.clone()])?;
    let seen = snapshot.get(&key)?;
    let old: &[(LockOwner, Vec<LockRange>)] = match seen {
        None => &[],
        Some(Record::RangeLocks(owners)) => owners,
        Some(_) => return Err(Errno::EIO.into()),
    };
    if in_the_way(old, me, lock).is_some() {
        return nothing(Outcome::Blocked);
    }
    let mine = old.iter().find(|(owner, _)| *owner == me).map_or(&[][..], |(_, ranges)| ranges);
    let ranges = merged(mine, lock);
    if ranges == mine {
        return nothing(unchanged(lock.kind));
    }
    let mut owners: Vec<_> = old.iter().filter(|(owner, _)| *owner != me).cloned().collect();
    if !ranges.is_empty() {
        owners.push((me, ranges));
        owners.sort_by_key(|(owner, _)| *owner);
    }
    let mut draft = expecting(ino, lock.kind, &key, snapshot)?;
    match owners.is_empty() {
        true => draft.delete(key),
        false => draft.put(key, Record::RangeLocks(owners)),
    }
    draft.done(Outcome::Done)
}

/// What it means that nothing had to be changed.
fn unchanged(kind: LockKind) -> Outcome {
    if kind == LockKind::Unlock { Outcome::Done } else { Outcome::Held }
}

/// The first lock of somebody else that keeps this one from being set.
#[must_use]
pub fn in_the_way(
    locks: &[(LockOwner, Vec<LockRange>)],
    owner: LockOwner,
    lock: &RangeLock,
) -> Option<(LockOwner, LockRange)> {
    if lock.kind == LockKind::Unlock {
        return None;
    }
    let meets = |r: &&LockRange| r.start <= lock.end && lock.start <= r.end;
    let write = lock.kind == LockKind::Write;
    locks
        .iter()
        .filter(|(other, _)| *other != owner)
        .flat_map(|(other, ranges)| ranges.iter().map(move |range| (*other, range)))
        .find(|(_, range)| meets(range) && (write || range.kind == WRITE))
        .map(|(other, range)| (other, *range))
}

/// Everybody else who keeps this lock from being set.
#[must_use]
pub fn holders(locks: &[(LockOwner, Vec<LockRange>)], owner: LockOwner, lock: &RangeLock) -> Vec<LockOwner> {
    let stands =
        |one: &&(LockOwner, Vec<LockRange>)| in_the_way(std::slice::from_ref(*one), owner, lock).is_some();
    locks.iter().filter(stands).map(|(other, _)| *other).collect()
}

/// All locks of a session on one node go.
pub fn drop_session(session: u64, ino: Ino, snapshot: &Snapshot) -> Result<Decision, Stop> {
    let (whole, ranges) = (Key::Flocks(ino), Key::RangeLocks(ino));
    snapshot.need(&[whole.clone(), ranges.clone()])?;
    let mut draft = Draft::new();
    for key in [whole, ranges] {
        let seen = snapshot.get(&key)?;
        let left = match seen {
            None => continue,
            Some(Record::Flocks(old)) => {
                let left: Vec<_> = old.iter().filter(|e| e.owner.session != session).copied().collect();
                (left.len() < old.len()).then_some((left.is_empty(), Record::Flocks(left)))
            }
            Some(Record::RangeLocks(old)) => {
                let left: Vec<_> = old.iter().filter(|(o, _)| o.session != session).cloned().collect();
                (left.len() < old.len()).then_some((left.is_empty(), Record::RangeLocks(left)))
            }
            Some(_) => return Err(Errno::EIO.into()),
        };
        let Some((empty, record)) = left else { continue };
        draft.expect_seen(key.clone(), seen);
        match empty {
            true => draft.delete(key),
            false => draft.put(key, record),
        }
    }
    draft.done(Outcome::Done)
}

/// Whoever locks needs a node; whoever unlocks may be late.
fn expecting(ino: Ino, kind: LockKind, key: &Key, snapshot: &Snapshot) -> Result<Draft, Stop> {
    let mut draft = Draft::new();
    if kind != LockKind::Unlock {
        draft.expect_attr(ino, snapshot.attr(ino)?.ok_or(Errno::ENOENT)?, EXISTS);
    }
    draft.expect_seen(key.clone(), snapshot.get(key)?);
    Ok(draft)
}

/// One owner's ranges after a lock or unlock: sorted, without overlaps, neighbours of one kind joined.
fn merged(old: &[LockRange], lock: &RangeLock) -> Vec<LockRange> {
    let mut ranges = Vec::with_capacity(old.len() + 2);
    for range in old {
        if range.end < lock.start || range.start > lock.end {
            ranges.push(*range);
            continue;
        }
        if let Some(end) = lock.start.checked_sub(1).filter(|end| *end >= range.start) {
            ranges.push(LockRange { end, ..*range });
        }
        if let Some(start) = lock.end.checked_add(1).filter(|start| *start <= range.end) {
            ranges.push(LockRange { start, ..*range });
        }
    }
    let kind = match lock.kind {
        LockKind::Unlock => None,
        LockKind::Read => Some(READ),
        LockKind::Write => Some(WRITE),
    };
    ranges.extend(kind.map(|kind| LockRange { kind, pid: lock.pid, start: lock.start, end: lock.end }));
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let joins =
            last.kind == next.kind && last.pid == next.pid && last.end.checked_add(1) == Some(next.start);
        if joins {
            last.end = next.end;
        }
        joins
    });
    ranges
}
