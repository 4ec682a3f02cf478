//! Copying a range between files without touching a byte: the target's chunks show the same slices, each with
//! one reference more. Source: volume format, copy_file_range.

use super::access;
use super::chunks::index_of;
use super::draft::{ACCESS, Draft, nothing, touched};
use super::space::end_of;
use super::{Decision, quota};
use crate::change::{AttrDelta, AttrFields, Write};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeMap;
use zest_types::limits::CHUNK_SIZE;
use zest_types::overlay::visible_in;
use zest_types::slice::{ChunkRange, chunk_ranges};
use zest_types::{Attr, Errno, Ino, SliceId, SliceRecord, limits};
use zest_world::planted::{self, Bug};

/// Source chunks one change set looks at.
const CHUNKS: u64 = 64;
/// Pieces one change set copies.
const PIECES: usize = limits::CHANGE_SET_MAX / 4;

/// Where to copy from and to.
pub struct Range {
    pub from: Ino,
    pub from_offset: u64,
    pub to: Ino,
    pub to_offset: u64,
}

/// Copies as much of the range as one change set can hold, and tells how much.
pub fn decide(range: &Range, len: u64, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    snapshot.need(&[Key::Attr(range.from), Key::Attr(range.to)])?;
    let from = file(range.from, snapshot)?;
    let to = file(range.to, snapshot)?;
    access::need_changeable(to)?;
    // As many source chunks as may be looked at, counted from the border in front of the range.
    let reach = CHUNKS * CHUNK_SIZE - range.from_offset % CHUNK_SIZE;
    let len = len.min(from.length.saturating_sub(range.from_offset));
    if len == 0 {
        return nothing(Outcome::Copied(0));
    }
    end_of(range.to_offset, len)?;
    if range.from == range.to && range.from_offset.abs_diff(range.to_offset) < len {
        return Err(Errno::EINVAL.into());
    }
    let ranges: Vec<ChunkRange> = chunk_ranges(range.from_offset, len.min(reach)).collect();
    let keys: Vec<Key> = ranges.iter().map(|r| Key::Chunk(range.from, r.index)).collect();
    snapshot.need(&keys)?;

    let mut draft = Draft::new();
    draft.expect_attr(range.from, from, AttrFields { length: true, ..AttrFields::default() });
    draft.expect_attr(range.to, to, ACCESS);
    let mut target = Target::default();
    for (part, key) in ranges.iter().zip(keys) {
        let record = snapshot.get(&key)?;
        for piece in visible_in(sound(record)?, part.pos, part.len) {
            target.add(range.to_offset, piece)?;
        }
        draft.expect_seen(key, record);
        if target.pieces >= PIECES {
            break;
        }
    }
    let end = range.to_offset + target.copied;
    let sized = quota::may_resize(range.to, to, to.length.max(end), snapshot, env)?;
    let copied = target.copied;
    target.write(&mut draft, range.to);
    let delta = AttrDelta { grow_length: Some(end), ..touched(to, env.now, env.now, 0) };
    sized.change(&mut draft, range.to, to, delta);
    draft.done(Outcome::Copied(copied))
}

fn file(ino: Ino, snapshot: &Snapshot) -> Result<&Attr, Stop> {
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    if attr.is_file() { Ok(attr) } else { Err(Errno::EINVAL.into()) }
}

/// The records of a chunk list; `EIO` for damage, which must not be copied on.
fn sound(record: Option<&Record>) -> Result<&[SliceRecord], Errno> {
    match record {
        None => Ok(&[]),
        Some(Record::Slices(list)) if list.iter().all(SliceRecord::is_sound) => Ok(list),
        Some(_) => Err(Errno::EIO),
    }
}

/// What the target's chunks get.
#[derive(Default)]
struct Target {
    lists: BTreeMap<u32, Vec<SliceRecord>>,
    references: BTreeMap<(SliceId, u32), i64>,
    copied: u64,
    pieces: usize,
}

impl Target {
    /// Adds the next piece, cut at the borders of the target's chunks.
    fn add(&mut self, offset: u64, piece: SliceRecord) -> Result<(), Errno> {
        let mut off = piece.off;
        for part in chunk_ranges(offset + self.copied, u64::from(piece.len)) {
            let ChunkRange { index, pos, len } = part;
            let record = if piece.id.is_zeros() {
                SliceRecord::zeros(pos, len)
            } else {
                *self.references.entry((piece.id, piece.size)).or_default() += 1;
                SliceRecord { pos, id: piece.id, size: piece.size, off, len }
            };
            off = off.checked_add(len).ok_or(Errno::EIO)?;
            self.lists.entry(index).or_default().push(record);
            self.pieces += 1;
        }
        self.copied += u64::from(piece.len);
        index_of(offset + self.copied).map(|_| ())
    }

    fn write(self, draft: &mut Draft, to: Ino) {
        for (index, mut list) in self.lists {
            // A single stored piece could be taken for a repeated commit and left out, while its reference
            // counts. Zeros underneath it tell the two apart.
            if let [only] = list.as_slice()
                && !only.id.is_zeros()
            {
                list.insert(0, SliceRecord::zeros(only.pos, only.len));
            }
            draft.write(Write::Append(to, index, list));
        }
        let references = self.references.into_iter();
        for ((id, size), n) in references.filter(|_| !planted::active(Bug::CopyWithoutReference)) {
            draft.add(Key::SliceRef { id, size }, n);
        }
    }
}
