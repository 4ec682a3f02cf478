//! Slices whose blocks are durable become part of a file, all in one step. A slice that shows in several places has as
//! many references, and their count also tells that it was committed before. Source: volume format, write.

use super::chunks::start_of;
use super::draft::{Draft, EXISTS, nothing, touched};
use super::space::end_of;
use super::{Decision, quota};
use crate::apply::changed;
use crate::change::{AttrDelta, Write};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeMap;
use zest_types::{Errno, Ino, Placed, SliceRecord, Time};

/// Asks for no right: that was checked when the file was opened. A file without a name is written on as long as
/// somebody has it open.
pub fn commit_slices(
    ino: Ino,
    parts: &[Placed],
    mtime: Time,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let end = end_of_all(parts)?;
    snapshot.need(&[Key::Attr(ino)])?;
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    if !attr.is_file() {
        return Err(Errno::EPERM.into());
    }
    let sized = quota::may_resize(ino, attr, attr.length.max(end), snapshot, env)?;
    let mut draft = Draft::new();
    draft.expect_attr(ino, attr, EXISTS);
    for slice in parts.chunk_by(|a, b| a.record.id == b.record.id) {
        if !show(ino, slice, snapshot, &mut draft) {
            return nothing(Outcome::Node { ino, attr: attr.clone(), created: false });
        }
    }
    let delta = AttrDelta { grow_length: Some(end), ..touched(attr, mtime, env.now, 0) };
    sized.change(&mut draft, ino, attr, delta);
    let attr = changed(attr, &delta).ok_or(Errno::EIO)?;
    draft.done(Outcome::Node { ino, attr, created: false })
}

/// Where the last of them ends.
fn end_of_all(parts: &[Placed]) -> Result<u64, Errno> {
    let mut last = None;
    for Placed { index, record } in parts {
        if record.len == 0 || !record.is_sound() {
            return Err(Errno::EINVAL);
        }
        last = last.max(Some(end_of(start_of(*index), record.end())?));
    }
    last.ok_or(Errno::EINVAL)
}

/// Adds all records of one slice to the chunks, with its references; `false` when a try whose answer was lost did so.
/// The count is seldom known, and then expected to be absent without being looked at.
fn show(ino: Ino, slice: &[Placed], snapshot: &Snapshot, draft: &mut Draft) -> bool {
    if let [Placed { record, .. }, more @ ..] = slice
        && !more.is_empty()
        && !record.id.is_zeros()
    {
        let references = Key::SliceRef { id: record.id, size: record.size };
        if snapshot.get(&references).is_ok_and(|found| found.is_some()) {
            return false;
        }
        draft.expect_absent(references.clone());
        draft.put(references, Record::Count(i64::try_from(more.len()).unwrap_or(i64::MAX)));
    }
    let mut lists: BTreeMap<u32, Vec<SliceRecord>> = BTreeMap::new();
    for part in slice {
        lists.entry(part.index).or_default().push(part.record);
    }
    for (index, list) in lists {
        draft.write(Write::Append(ino, index, list));
    }
    true
}
