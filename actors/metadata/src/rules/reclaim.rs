//! Giving back what removed files held: the node once its last handle is closed, its chunk lists, references of
//! slices, and the notes that all this was to be done. Every step can be repeated and is safe to interrupt.

use super::Decision;
use super::draft::{Draft, Wants, nothing};
use super::removal::forget;
use crate::change::AttrFields;
use crate::key::{Key, Scan};
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeMap;
use zest_types::{Errno, Ino, SliceId, limits};

/// Slices of which one change set takes references.
const SLICES: usize = limits::CHANGE_SET_MAX / 4;

/// The last handle of a removed file is closed.
pub fn sustained(session: u64, ino: Ino, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    let key = Key::Sustained { session, ino };
    snapshot.need(&[key.clone(), Key::Attr(ino)])?;
    let Some(mark) = snapshot.get(&key)? else { return nothing(Outcome::Done) };
    let mut draft = Draft::new();
    draft.expect_seen(key.clone(), Some(mark));
    draft.delete(key);
    let Some(attr) = snapshot.attr(ino)? else {
        draft.expect_absent(Key::Attr(ino));
        return draft.done(Outcome::Removed { ino, deleted: None });
    };
    draft.expect_attr(
        ino,
        attr,
        AttrFields { nlink: true, length: true, access: env.user_quotas, ..AttrFields::default() },
    );
    if attr.nlink > 0 && !attr.is_dir() {
        return draft.done(Outcome::Done);
    }
    let outcome = forget(&mut draft, ino, attr, env);
    draft.done(outcome)
}

/// A chunk list of a deleted file goes, or its last part when it is very long: ask again until it is absent.
pub fn chunk(ino: Ino, index: u32, snapshot: &Snapshot) -> Result<Decision, Stop> {
    let key = Key::Chunk(ino, index);
    snapshot.need(&[key.clone(), Key::Attr(ino)])?;
    if snapshot.attr(ino)?.is_some() {
        return Err(Errno::EBUSY.into());
    }
    let list = match snapshot.get(&key)? {
        None => return nothing(Outcome::Unreferenced(Vec::new())),
        Some(Record::Slices(list)) => list,
        Some(_) => return Err(Errno::EIO.into()),
    };
    let mut taken: BTreeMap<(SliceId, u32), i64> = BTreeMap::new();
    let mut left = list.len();
    for slice in list.iter().rev() {
        if !slice.id.is_zeros() {
            if taken.len() >= SLICES && !taken.contains_key(&(slice.id, slice.size)) {
                break;
            }
            *taken.entry((slice.id, slice.size)).or_default() += 1;
        }
        left -= 1;
    }
    let refs: Vec<Key> = taken.keys().map(|(id, size)| Key::SliceRef { id: *id, size: *size }).collect();
    snapshot.need(&refs)?;

    let mut draft = Draft::new();
    draft.expect_absent(Key::Attr(ino));
    draft.expect_seen(key.clone(), snapshot.get(&key)?);
    match list.get(..left) {
        Some(rest) if !rest.is_empty() => draft.put(key, Record::Slices(rest.to_vec())),
        _ => draft.delete(key),
    }
    let mut unreferenced = Vec::new();
    for ((slice, n), reference) in taken.into_iter().zip(refs) {
        if snapshot.count(&reference)? - n < 0 {
            unreferenced.push(slice);
        }
        draft.expect_seen(reference.clone(), snapshot.get(&reference)?);
        draft.add(reference, -n);
    }
    draft.done(Outcome::Unreferenced(unreferenced))
}

/// All chunk lists of a deleted file are gone; `EBUSY` while one is left.
pub fn deleted(ino: Ino, length: u64, snapshot: &Snapshot) -> Result<Decision, Stop> {
    let key = Key::Deleted { ino, length };
    // Of a short file each list is looked at: not every store finds the lists of a file that is gone. Lists behind
    // the end are those a truncation left.
    let few = match u32::try_from(length / limits::CHUNK_SIZE) {
        Ok(last) if last < limits::FEW_CHUNKS => last + 1,
        _ => 0,
    };
    let mut wants = Wants::default();
    let mut some_left = false;
    for index in 0..few {
        some_left |= wants.see(snapshot.get(&Key::Chunk(ino, index)))?.flatten().is_some();
    }
    let behind = wants.see(snapshot.scan(&Scan::Chunks { ino, from: few, limit: 1 }))?;
    wants.settle()?;
    if some_left || behind.is_some_and(|found| !found.is_empty()) {
        return Err(Errno::EBUSY.into());
    }
    let Some(note) = snapshot.get(&key)? else { return nothing(Outcome::Done) };
    let mut draft = Draft::new();
    draft.expect_seen(key.clone(), Some(note));
    draft.delete(key);
    draft.done(Outcome::Done)
}

/// The objects of an unreferenced slice are gone. A slice that is referenced keeps its count; one reference is
/// what an absent count says too.
pub fn slice_ref(id: SliceId, size: u32, snapshot: &Snapshot) -> Result<Decision, Stop> {
    let key = Key::SliceRef { id, size };
    let seen = snapshot.get(&key)?;
    if seen.is_none() || snapshot.count(&key)? > 0 {
        return nothing(Outcome::Done);
    }
    let mut draft = Draft::new();
    draft.expect_seen(key.clone(), seen);
    draft.delete(key);
    draft.done(Outcome::Done)
}
