//! A new slice takes the place of the first records of a chunk list, and what becomes of those it replaces: they
//! lose a reference now, or wait as long as the trash keeps things, so that readers of the old list go on. Records
//! that came meanwhile stay behind it. Source: volume format, compaction, delayed slices.

use super::Decision;
use super::draft::{Draft, nothing};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeMap;
use zest_types::{Errno, Ino, SliceId, SliceRecord};

/// Where, and what was seen there.
pub struct Place<'a> {
    pub ino: Ino,
    pub index: u32,
    /// The first records as they were when the new slice was written.
    pub seen: &'a [SliceRecord],
    /// So many of them stay.
    pub skipped: usize,
}

/// `Outcome::Unreferenced` names the slices whose objects may go: replaced ones, or the new one when the list is
/// not what it was.
pub fn decide(
    place: &Place<'_>,
    new: SliceRecord,
    delayed: bool,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if !new.is_sound() || new.id.is_zeros() || place.skipped >= place.seen.len() {
        return Err(Errno::EINVAL.into());
    }
    let key = Key::Chunk(place.ino, place.index);
    let marker = Key::SliceRef { id: new.id, size: new.size };
    snapshot.need(&[key.clone(), marker.clone()])?;
    if snapshot.get(&marker)?.is_some() {
        // Done before, by a try whose answer was lost.
        return nothing(Outcome::Unreferenced(Vec::new()));
    }
    let seen = snapshot.get(&key)?;
    let list: &[SliceRecord] = match seen {
        None => &[],
        Some(Record::Slices(list)) => list,
        Some(_) => return Err(Errno::EIO.into()),
    };
    let mut draft = Draft::new();
    draft.expect_absent(marker.clone());
    draft.expect_seen(key.clone(), seen);
    let (Some(kept), Some(replaced), true) =
        (list.get(..place.skipped), list.get(place.skipped..place.seen.len()), list.starts_with(place.seen))
    else {
        // In vain. The count below nothing makes whoever looks for garbage remove the objects.
        draft.put(marker, Record::Count(-1));
        return draft.done(Outcome::Unreferenced(vec![(new.id, new.size)]));
    };
    let later = list.get(place.seen.len()..).unwrap_or_default();
    draft.put(key, Record::Slices([kept, &[new], later].concat()));
    draft.put(marker, Record::Count(0));
    let old = replaced.iter().filter(|record| !record.id.is_zeros()).map(|record| (record.id, record.size));
    if !delayed {
        let gone = unreference(old, &mut draft, snapshot)?;
        return draft.done(Outcome::Unreferenced(gone));
    }
    let old: Vec<(SliceId, u32)> = old.collect();
    if !old.is_empty() {
        draft.put(Key::DelayedSlices { stamp: env.now.sec, id: new.id }, Record::SliceList(old));
    }
    draft.done(Outcome::Unreferenced(Vec::new()))
}

/// Slices that waited long enough lose their references.
pub fn release(stamp: i64, id: SliceId, snapshot: &Snapshot) -> Result<Decision, Stop> {
    let key = Key::DelayedSlices { stamp, id };
    let seen = snapshot.get(&key)?;
    let list = match seen {
        None => return nothing(Outcome::Unreferenced(Vec::new())),
        Some(Record::SliceList(list)) => list,
        Some(_) => return Err(Errno::EIO.into()),
    };
    let mut draft = Draft::new();
    draft.expect_seen(key.clone(), seen);
    draft.delete(key);
    let gone = unreference(list.iter().copied(), &mut draft, snapshot)?;
    draft.done(Outcome::Unreferenced(gone))
}

/// Takes one reference for each; tells which have none left.
fn unreference(
    slices: impl Iterator<Item = (SliceId, u32)>,
    draft: &mut Draft,
    snapshot: &Snapshot,
) -> Result<Vec<(SliceId, u32)>, Stop> {
    let mut taken: BTreeMap<(SliceId, u32), i64> = BTreeMap::new();
    for slice in slices {
        *taken.entry(slice).or_default() += 1;
    }
    let refs: Vec<Key> = taken.keys().map(|(id, size)| Key::SliceRef { id: *id, size: *size }).collect();
    snapshot.need(&refs)?;
    let mut gone = Vec::new();
    for ((slice, n), reference) in taken.into_iter().zip(refs) {
        if snapshot.count(&reference)? - n < 0 {
            gone.push(slice);
        }
        draft.expect_seen(reference.clone(), snapshot.get(&reference)?);
        draft.add(reference, -n);
    }
    Ok(gone)
}
