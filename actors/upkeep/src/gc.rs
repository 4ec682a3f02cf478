//! What is in the store that no record refers to, and its removal. Nothing is removed that can't be proved to be
//! unreferenced: references are read after the listing, and where others use the volume twice; an object younger than
//! an hour, by the store's own clock, may belong to a write that is not committed yet, and so may every slice whose
//! number was given out after the beginning.

use crate::failure::Failure;
use crate::inventory::{Inventory, Share, Stored, Use, list};
use crate::reclaim;
use crate::whole::{Count, Whole};
use bytes::Bytes;
use futures::StreamExt;
use std::collections::{BTreeMap, BTreeSet};
use zest_data::retry::{Asker, retrying};
use zest_metadata::{Counter, Key, Record, Scan};
use zest_types::{Ino, SliceId, limits};
use zest_world::ObjectError;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Remove what is found, and not only count it.
    pub delete: bool,
    /// Objects younger than this are left alone, seconds.
    pub fresh_secs: i64,
    /// Removals under way at once.
    pub threads: usize,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects looked at.
    pub scanned: Count,
    /// Needed.
    pub valid: Count,
    /// Of deleted files, and of slices that lost their last reference.
    pub pending: Count,
    /// Replaced by compaction and kept for a while.
    pub replaced: Count,
    /// Nobody refers to them.
    pub leaked: Count,
    /// Too young to tell, or called like no block.
    pub skipped: Count,
    /// Slices in lists of what compaction replaced.
    pub delayed: Count,
    /// Deleted files whose data wait for removal.
    pub files: Count,
    /// Objects removed.
    pub removed: Count,
    /// Deleted files whose data were removed.
    pub removed_files: u64,
    /// Objects that could not be removed.
    pub failed: u64,
}

/// A slice nobody refers to, with its objects.
struct Leak {
    slice: SliceId,
    objects: Vec<(String, u64)>,
}

/// Looks through the whole volume.
pub async fn collect(whole: &Whole, wish: Wish) -> Result<Report, Failure> {
    whole.owns_objects().await?;
    let mut report = Report::default();
    if wish.delete {
        report.removed_files = reclaim::deleted_files(whole).await?;
    }
    let deleted = deleted(whole, &mut report).await?;
    // Numbers from here on are given out while this works.
    let newest = next_slice(whole).await?;
    let now = if wish.delete { stores_time(whole).await? } else { whole.world.clock.now().sec };
    let mut share = Share::ALL;
    loop {
        let (mut stored, took) = list(&whole.world, &whole.names, share).await?;
        let dropped = mark(whole, took, &mut stored, &deleted, Some(&mut report)).await?;
        if took.part == 0 {
            report.scanned.objects += stored.foreign;
            report.skipped.objects += stored.foreign;
        }
        let limit = (now.saturating_sub(wish.fresh_secs), newest);
        let leaks = judge(whole, &stored, limit, Some(&mut report));
        if wish.delete {
            remove(whole, wish, took, &deleted, (leaks, dropped, limit), stored, &mut report).await?;
        }
        match took.next() {
            Some(next) => share = next,
            None => return Ok(report),
        }
    }
}

/// Files that wait for the removal of their data.
async fn deleted(whole: &Whole, report: &mut Report) -> Result<BTreeSet<Ino>, Failure> {
    let mut all = BTreeSet::new();
    for (key, _) in whole.engine.scan(&Scan::Deleted { limit: limits::REAPER_QUEUE }).await? {
        if let Key::Deleted { ino, length } = key {
            report.files.add(length);
            all.insert(ino);
        }
    }
    Ok(all)
}

/// The first slice number that is not given out yet.
async fn next_slice(whole: &Whole) -> Result<u64, Failure> {
    let found = whole.engine.read(&[Key::Counter(Counter::NextSlice)]).await?;
    match found.into_iter().next().flatten() {
        Some(Record::Count(n)) => Ok(u64::try_from(n).unwrap_or(0)),
        _ => Ok(1),
    }
}

/// What time it is where objects get theirs: our clock may be wrong, or the store's.
async fn stores_time(whole: &Whole) -> Result<i64, Failure> {
    let key = format!("{}/testing/gc-{:016x}", whole.names.volume, whole.world.chance.next_u64());
    let objects = &whole.world.objects;
    objects.put(&key, Bytes::from_static(b"what time is it?")).await?;
    let listed = objects.list(&key, "", 1).await;
    let gone = objects.delete(&key).await;
    let seen = listed?.first().map(|object| object.modified);
    gone?;
    seen.ok_or_else(|| ObjectError::NotFound(key).into())
}

/// Marks the slices of a share that records refer to; gives those that lost their last reference.
async fn mark(
    whole: &Whole,
    share: Share,
    stored: &mut Inventory,
    deleted: &BTreeSet<Ino>,
    mut report: Option<&mut Report>,
) -> Result<BTreeSet<(SliceId, u32)>, Failure> {
    let mut dropped = BTreeSet::new();
    let mut from = None;
    loop {
        let (page, next) = whole.engine.slices(from).await?;
        for (key, record) in page {
            match (key, record) {
                (Key::Chunk(ino, _), Record::Slices(list)) => {
                    let usage = if deleted.contains(&ino) { Use::Deleted } else { Use::Needed };
                    let mine = list.iter().filter(|record| !record.id.is_zeros() && share.has(record.id.0));
                    mine.for_each(|record| stored.mark(record.id.0, usage));
                }
                (Key::DelayedSlices { .. }, Record::SliceList(list)) => {
                    for (id, size) in list.into_iter().filter(|(id, _)| share.has(id.0)) {
                        stored.mark(id.0, Use::Replaced);
                        if let Some(report) = &mut report {
                            report.delayed.add(u64::from(size));
                        }
                    }
                }
                (Key::SliceRef { id, size }, Record::Count(n)) if share.has(id.0) => {
                    if n < 0 && dropped.len() < limits::REAPER_QUEUE {
                        dropped.insert((id, size));
                    }
                    stored.mark(id.0, if n < 0 { Use::Dropped } else { Use::Counted });
                }
                _ => {}
            }
        }
        match next {
            Some(next) => from = Some(next),
            None => return Ok(dropped),
        }
    }
}

/// Slices nobody refers to; `limit` is the last time at which an object was old enough, and the first slice number
/// that is too new.
fn judge(
    whole: &Whole,
    stored: &Inventory,
    limit: (i64, u64),
    mut report: Option<&mut Report>,
) -> BTreeMap<SliceId, Leak> {
    let mut leaks = BTreeMap::new();
    for (usage, blocks) in stored.slices() {
        let Some(slice) = blocks.first().map(|stored| stored.block.slice) else { continue };
        // A slice is as young as its youngest block: the others may have waited for it.
        let old = |stored: &Stored| stored.modified > 0 && stored.modified < limit.0;
        let leaked = usage == Use::None && slice.0 < limit.1 && blocks.iter().all(old);
        if let Some(report) = &mut report {
            let group = match usage {
                Use::Needed => &mut report.valid,
                Use::Replaced => &mut report.replaced,
                Use::Deleted | Use::Dropped => &mut report.pending,
                Use::None if leaked => &mut report.leaked,
                Use::None | Use::Counted => &mut report.skipped,
            };
            blocks.iter().for_each(|stored| group.add(stored.size));
            blocks.iter().for_each(|stored| report.scanned.add(stored.size));
        }
        if leaked {
            let objects = blocks.iter().map(|s| (whole.names.key(s.block, s.len), s.size)).collect();
            leaks.insert(slice, Leak { slice, objects });
        }
    }
    leaks
}

/// Slices without references, those that lost their last one, and what decided it.
type Verdict = (BTreeMap<SliceId, Leak>, BTreeSet<(SliceId, u32)>, (i64, u64));

async fn remove(
    whole: &Whole,
    wish: Wish,
    share: Share,
    deleted: &BTreeSet<Ino>,
    (mut leaks, mut dropped, limit): Verdict,
    mut stored: Inventory,
    report: &mut Report,
) -> Result<(), Failure> {
    if leaks.is_empty() && dropped.is_empty() {
        return Ok(());
    }
    if !whole.engine.exclusive() {
        // A reference that moved from a list that was not read yet to one that was already is seen now.
        stored.forget();
        let again = mark(whole, share, &mut stored, deleted, None).await?;
        let still = judge(whole, &stored, limit, None);
        leaks.retain(|slice, _| still.contains_key(slice));
        dropped.retain(|slice| again.contains(slice));
    }
    // A counter is no proof where a list shows the slice.
    let needed: BTreeSet<SliceId> = stored
        .slices()
        .filter(|(usage, _)| *usage > Use::Dropped)
        .filter_map(|(_, blocks)| blocks.first().map(|stored| stored.block.slice))
        .collect();
    dropped.retain(|(id, _)| !needed.contains(id));
    whole.engine.sync().await?;
    let gone = reclaim::dropped_slices(whole, &dropped, wish.threads).await?;
    report.failed += dropped.len() as u64 - gone;
    let objects = leaks.into_values().flat_map(|leak| {
        let slice = leak.slice;
        leak.objects.into_iter().map(move |(key, size)| (slice, key, size))
    });
    let removals = objects.map(|(slice, key, size)| async move {
        let asker = Asker { actor: "gc", subject: slice.0 };
        let told = key.clone();
        let gone = retrying(whole.world.clone(), asker, key, |world, key| world.objects.delete(key)).await;
        if let Err(error) = &gone {
            whole.world.trace.complain(&format!("a leaked object stays: {told}: {error}"));
        }
        gone.map(|()| size)
    });
    let mut removals = futures::stream::iter(removals).buffer_unordered(wish.threads.max(1));
    while let Some(gone) = removals.next().await {
        match gone {
            Ok(size) => report.removed.add(size),
            Err(_) => report.failed += 1,
        }
    }
    Ok(())
}
