//! Setting the length of a file. What lies between the old and the new length shows zeros afterwards, whichever
//! is larger, so that no old byte comes back when the file grows again. Source: volume format, truncate.
//!
//! A file with very many chunk lists is cut or grown in steps: each is a truncate of its own to a length on the
//! way, and the outcome's length tells how far it went.

use super::access::{self, WRITE};
use super::chunks::{self, index_of, start_of, zero_lists, zeros_in};
use super::draft::Draft;
use super::space::end_of;
use super::{Decision, quota};
use crate::apply::changed;
use crate::change::{AttrDelta, AttrFields, Write};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::limits::CHUNK_SIZE;
use zest_types::{Attr, Caller, Errno, Ino};

pub fn decide(
    ino: Ino,
    length: u64,
    through_handle: bool,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    snapshot.need(&[Key::Attr(ino)])?;
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    match (attr.is_file(), attr.is_dir()) {
        (true, _) => {}
        (_, true) => return Err(Errno::EISDIR.into()),
        _ => return Err(Errno::EINVAL.into()),
    }
    end_of(length, 0)?;
    access::need_changeable(attr)?;
    if !through_handle {
        if attr.lives_in_trash() {
            return Err(Errno::EPERM.into());
        }
        access::need(attr, &env.caller, WRITE, snapshot)?;
    }
    let sized = quota::may_resize(ino, attr, length, snapshot, env)?;

    let mut draft = Draft::new();
    let step = plan(ino, attr.length, length, snapshot)?;
    let fields =
        AttrFields { access: true, length: true, parent: !through_handle, nlink: false, times: step.scanned };
    draft.expect_attr(ino, attr, fields);
    zero_between(&mut draft, ino, attr.length, &step)?;
    let delta = AttrDelta {
        mode: mode_left(attr, &env.caller),
        length: Some(step.length),
        mtime: Some(env.now),
        touch_ctime: Some(env.now),
        ..AttrDelta::default()
    };
    sized.change(&mut draft, ino, attr, delta);
    let attr = changed(attr, &delta).ok_or(Errno::EIO)?;
    draft.done(Outcome::Node { ino, attr, created: false })
}

/// What a truncate by anybody but user 0 leaves of the mode, where no kernel has seen to it.
fn mode_left(attr: &Attr, caller: &Caller) -> Option<u16> {
    if !caller.check || caller.uid == 0 {
        return None;
    }
    let lost = if attr.mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
    (attr.mode & lost != 0).then_some(attr.mode & !lost)
}

/// How far one change set goes.
struct Step {
    /// The length it leaves.
    length: u64,
    /// Chunks strictly between that may have a list.
    between: Vec<u32>,
    scanned: bool,
}

fn plan(ino: Ino, old: u64, new: u64, snapshot: &Snapshot) -> Result<Step, Stop> {
    let (left, right) = (old.min(new), old.max(new));
    let (mut from, below) = (index_of(left)?.saturating_add(1), index_of(right)?);
    let mut lists = chunks::lists(ino, from, below, snapshot)?;
    if new > old {
        let mut length = new;
        if !lists.complete
            && let Some(last) = lists.indices.pop()
        {
            length = start_of(last);
        }
        return Ok(Step { length, between: lists.indices, scanned: lists.scanned });
    }
    // From the end: whatever the step leaves is a file that was cut further up.
    let first = from;
    while !lists.complete {
        from += (below - from) / 2;
        lists = chunks::lists(ino, from, below, snapshot)?;
    }
    let length = if from == first { new } else { start_of(from) };
    Ok(Step { length, between: lists.indices, scanned: lists.scanned })
}

/// Zero records between the old length and the one the step leaves.
fn zero_between(draft: &mut Draft, ino: Ino, old: u64, step: &Step) -> Result<(), Stop> {
    let (left, right) = (old.min(step.length), old.max(step.length));
    if left == right {
        return Ok(());
    }
    let (first, last) = (index_of(left)?, index_of(right)?);
    if let Some(record) = zeros_in(first, left, right) {
        draft.write(Write::Append(ino, first, vec![record]));
    }
    let between = step.between.iter().copied().filter(|i| *i > first && *i < last).collect::<Vec<_>>();
    zero_lists(draft, ino, &between, left, right);
    if last > first
        && right % CHUNK_SIZE > 0
        && let Some(record) = zeros_in(last, left, right)
    {
        draft.write(Write::Append(ino, last, vec![record]));
    }
    Ok(())
}
