//! Counts the records of a volume and the objects of its store, for the judge's invariants. Reads through the
//! engine's own trait, so it sees what the product would see.

use super::incarnation::Media;
use crate::judge::Violation;
use crate::judge::invariants::{self, Volume};
use std::collections::{BTreeMap, BTreeSet};
use zest_metadata::{Counter, Engine, EngineError, Key, Record, Scan};
use zest_types::{FileType, Ino};
use zest_vfs::Mount;
use zest_world::planted::{self, Bug};

/// Whether all invariants hold.
pub async fn check(media: &Media, mount: &Mount) -> Result<(), Violation> {
    let engine = &**mount.engine();
    let volume = count(media, engine).await.map_err(|error| Violation::new("census", error.to_string()))?;
    if planted::active(Bug::CanaryFalseInvariant) && !volume.attrs.is_empty() {
        return Err(Violation::new("canary", "there is a node".into()));
    }
    if planted::active(Bug::CanarySwallowedVerdict) {
        drop(Violation::new("canary", "nobody will hear of it".into()));
    }
    invariants::check(&volume)
}

/// Whether nothing is kept that nobody can reach.
pub async fn check_leaks(media: &Media, mount: &Mount) -> Result<(), Violation> {
    let engine = &**mount.engine();
    let volume = count(media, engine).await.map_err(|error| Violation::new("census", error.to_string()))?;
    invariants::check_leaks(&volume)
}

async fn count(media: &Media, engine: &dyn Engine) -> Result<Volume, EngineError> {
    let mut volume = Volume {
        name: "sim-volume".into(),
        block_size: u64::from(media.setup.block_kib) * 1024,
        objects: media.objects.sizes(),
        ..Volume::default()
    };
    let everything = usize::MAX;
    for (key, _) in engine.scan(&Scan::Sustained { limit: everything }).await? {
        if let Key::Sustained { ino, .. } = key {
            volume.sustained.insert(ino);
        }
    }
    for (key, _) in engine.scan(&Scan::Deleted { limit: everything }).await? {
        if let Key::Deleted { ino, .. } = key {
            volume.deleted.insert(ino);
        }
    }
    for (key, _) in engine.scan(&Scan::Detached { limit: everything }).await? {
        if let Key::Detached(ino) = key {
            volume.detached.insert(ino);
        }
    }
    for (key, record) in engine.scan(&Scan::DirQuotas { limit: everything }).await? {
        if let (Key::DirQuota(dir), Record::Quota { used_space, used_inodes, .. }) = (key, record) {
            volume.quotas.insert(dir, (used_space, used_inodes));
        }
    }
    if media.setup.quotas {
        volume.owners = Some(owners(engine).await?);
    }
    for (key, record) in engine.scan(&Scan::SliceRefs { limit: everything }).await? {
        if let (Key::SliceRef { id, size }, Record::Count(count)) = (key, record) {
            volume.references.insert((id, size), count);
        }
    }
    for (key, record) in engine.scan(&Scan::Delayed { limit: everything }).await? {
        if let (Key::DelayedSlices { .. }, Record::SliceList(list)) = (key, record) {
            volume.delayed.extend(list);
        }
    }
    nodes(engine, &mut volume).await?;
    let counters =
        engine.read(&[Key::Counter(Counter::UsedSpace), Key::Counter(Counter::TotalInodes)]).await?;
    let number = |at: usize| match counters.get(at) {
        Some(Some(Record::Count(count))) => *count,
        _ => 0,
    };
    volume.used = (number(0), number(1));
    Ok(volume)
}

/// Usage of the few owners there are.
async fn owners(engine: &dyn Engine) -> Result<[BTreeMap<u32, (i64, i64)>; 2], EngineError> {
    let mut all: [BTreeMap<u32, (i64, i64)>; 2] = Default::default();
    for (sums, key) in all.iter_mut().zip([Key::UserQuota as fn(u32) -> Key, Key::GroupQuota]) {
        let keys: Vec<Key> = (0..4).map(key).collect();
        for (owner, record) in (0..).zip(engine.read(&keys).await?) {
            if let Some(Record::Quota { used_space, used_inodes, .. }) = record {
                sums.insert(owner, (used_space, used_inodes));
            }
        }
    }
    Ok(all)
}

/// Walks from the root, the trash and everything held, and counts what it meets.
async fn nodes(engine: &dyn Engine, volume: &mut Volume) -> Result<(), EngineError> {
    let mut queue: Vec<Ino> = vec![Ino::ROOT, Ino::TRASH];
    queue.extend(volume.sustained.iter().chain(&volume.deleted).chain(&volume.detached).copied());
    let mut seen = BTreeSet::new();
    while let Some(ino) = queue.pop() {
        if !seen.insert(ino) {
            continue;
        }
        let found = engine.read(&[Key::Attr(ino), Key::DirStat(ino)]).await?;
        let kind = match found.first() {
            Some(Some(Record::Attr(attr))) => {
                volume.attrs.insert(ino, attr.clone());
                attr.kind
            }
            _ if volume.deleted.contains(&ino) => FileType::File,
            _ => continue,
        };
        if let Some(Some(Record::DirStat { length, space, inodes })) = found.get(1) {
            volume.statistics.insert(ino, (*length, *space, *inodes));
        }
        if kind == FileType::Directory {
            let entries = Scan::Dentries { dir: ino, after: None, limit: usize::MAX };
            for (key, record) in engine.scan(&entries).await? {
                if let (Key::Dentry(dir, name), Record::Dentry { kind, ino }) = (key, record) {
                    volume.dentries.insert((dir, name), (kind, ino));
                    queue.push(ino);
                }
            }
            continue;
        }
        for (key, record) in engine.scan(&Scan::Parents(ino)).await? {
            if let (Key::Parent { ino, parent }, Record::Count(count)) = (key, record) {
                volume.parents.insert((ino, parent), count);
            }
        }
        if kind == FileType::File {
            for (key, record) in engine.scan(&Scan::Chunks { ino, from: 0, limit: usize::MAX }).await? {
                if let (Key::Chunk(ino, index), Record::Slices(list)) = (key, record) {
                    volume.chunks.insert((ino, index), list);
                }
            }
        }
    }
    Ok(())
}
