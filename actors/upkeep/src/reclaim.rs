//! Removal of what waits for it, without a mount: data of deleted files, and slices that lost their last reference.
//! Objects go only after the records that named them are gone for good.

use crate::failure::Failure;
use crate::trash;
use crate::whole::Whole;
use futures::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use zest_data::retry::{Asker, retrying};
use zest_metadata::clone::discard;
use zest_metadata::transact::{OpenFiles, VolumeRules};
use zest_metadata::{Key, MetaCore, Op, Outcome, Record, Scan, Views};
use zest_types::{Caller, Errno, Ino, SliceId, Time, limits};

/// Nobody has anything open here.
struct Nobody;

impl OpenFiles for Nobody {
    fn begin_removal(&self, _: Ino) -> bool {
        false
    }

    fn end_removal(&self, _: Ino) {}

    fn mtime_of(&self, _: Ino, _: SliceId) -> Option<Time> {
        None
    }
}

/// The rules, over a volume that is not mounted here. Where quotas of directories matter, they are to be looked for
/// first.
#[must_use]
pub fn rules(whole: &Whole) -> MetaCore {
    let views = Arc::new(Views::new(Duration::ZERO));
    let (engine, world) = (Arc::clone(&whole.engine), whole.world.clone());
    let volume = VolumeRules { user_quotas: whole.user_quotas, ..VolumeRules::default() };
    MetaCore::new(engine, views, world, Arc::new(Nobody), volume)
}

/// What only `gc` looks for: trash that is old enough, slices that compaction replaced as long ago, and copies that were
/// in the making when their maker died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Nodes of the trash.
    pub trash: u64,
    /// Slices that lost their last reference.
    pub slices: u64,
    /// Copies.
    pub copies: u64,
}

/// Removes what is overdue; data of files are left for [`deleted_files`]. `days` is how long the trash keeps things.
pub async fn overdue(whole: &Whole, days: u32) -> Result<Overdue, Failure> {
    let rules = rules(whole);
    rules.look_for_quotas().await?;
    let now = whole.world.clock.now().sec;
    let mut done =
        Overdue { trash: trash::empty(&rules, now, days, &|_, _| ()).await?, ..Overdue::default() };
    for (key, record) in whole.engine.scan(&Scan::Detached { limit: limits::REAPER_QUEUE }).await? {
        if let (Key::Detached(ino), Record::Stamp(since)) = (key, record)
            && since < now.saturating_sub(limits::DETACHED_SECS)
        {
            match discard(&rules, ino).await {
                Ok(()) => done.copies += 1,
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    let garbage: BTreeSet<(SliceId, u32)> = trash::release(&rules, now, days).await?.into_iter().collect();
    if !garbage.is_empty() {
        whole.engine.sync().await?;
        done.slices = dropped_slices(whole, &garbage, limits::DELETES).await?;
    }
    Ok(done)
}

/// Removes the data of all deleted files; tells of how many.
pub async fn deleted_files(whole: &Whole) -> Result<u64, Failure> {
    let rules = rules(whole);
    let (mut done, mut before) = (0, BTreeSet::new());
    loop {
        let found = whole.engine.scan(&Scan::Deleted { limit: limits::REAPER_BATCH }).await?;
        let files: BTreeSet<(Ino, u64)> = found
            .into_iter()
            .filter_map(|(key, _)| match key {
                Key::Deleted { ino, length } => Some((ino, length)),
                _ => None,
            })
            .collect();
        // Nothing goes on where what was removed is there still.
        if files.is_empty() || files == before {
            return Ok(done);
        }
        let mut garbage = BTreeSet::new();
        for (ino, _) in &files {
            drop_chunks(whole, &rules, *ino, &mut garbage).await?;
        }
        whole.engine.sync().await?;
        if dropped_slices(whole, &garbage, limits::DELETES).await? < garbage.len() as u64 {
            return Ok(done);
        }
        for (ino, length) in &files {
            rules.change(Caller::SYSTEM, &Op::DropDeleted { ino: *ino, length: *length }).await?;
            done += 1;
        }
        before = files;
    }
}

async fn drop_chunks(
    whole: &Whole,
    rules: &MetaCore,
    ino: Ino,
    garbage: &mut BTreeSet<(SliceId, u32)>,
) -> Result<(), Failure> {
    let mut from = 0;
    loop {
        let found = whole.engine.scan(&Scan::Chunks { ino, from, limit: limits::REAPER_BATCH }).await?;
        let complete = found.len() < limits::REAPER_BATCH;
        for (key, _) in found {
            let Key::Chunk(ino, index) = key else { continue };
            from = index.saturating_add(1);
            if let Outcome::Unreferenced(slices) =
                rules.change(Caller::SYSTEM, &Op::DropChunk { ino, index }).await?
            {
                garbage.extend(slices);
            }
        }
        if complete {
            return Ok(());
        }
    }
}

/// Removes the objects of slices, and then the slices' counters; tells of how many.
pub(crate) async fn dropped_slices(
    whole: &Whole,
    slices: &BTreeSet<(SliceId, u32)>,
    threads: usize,
) -> Result<u64, Failure> {
    let rules = &rules(whole);
    let removals = slices.iter().map(|(id, size)| async move {
        for (_, key) in whole.names.of_slice(*id, *size) {
            let asker = Asker { actor: "gc", subject: id.0 };
            let gone =
                retrying(whole.world.clone(), asker, key, |world, key| world.objects.delete(key)).await;
            if let Err(error) = gone {
                whole.world.trace.complain(&format!("data without references stay for now: {error}"));
                return Ok(0);
            }
        }
        rules.change(Caller::SYSTEM, &Op::DropSliceRef { id: *id, size: *size }).await?;
        Ok::<u64, Failure>(1)
    });
    let mut removals = futures::stream::iter(removals).buffer_unordered(threads.max(1));
    let mut gone = 0;
    while let Some(one) = removals.next().await {
        gone += one?;
    }
    Ok(gone)
}
