//! Fallocate: room promised, holes punched, ranges zeroed. Nothing is reserved in the object store; room is the
//! volume's limit only. Source: volume format, fallocate.

use super::access;
use super::chunks::{self, index_of, start_of, zero_lists};
use super::draft::{ACCESS, Draft, touched};
use super::space::end_of;
use super::{Decision, quota};
use crate::apply::changed;
use crate::change::AttrFields;
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::request::Fallocate;
use zest_types::{Attr, Errno, FileType, Ino};

/// `Outcome::Copied` is a step: so many bytes from `offset` on are done, the rest is to be asked for.
pub fn decide(
    ino: Ino,
    offset: u64,
    len: u64,
    mode: Fallocate,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if len == 0 {
        return Err(Errno::EINVAL.into());
    }
    let end = end_of(offset, len)?;
    snapshot.need(&[Key::Attr(ino)])?;
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    check_node(attr, mode)?;
    let grows = matches!(mode, Fallocate::Allocate | Fallocate::ZeroRange);
    let length = if grows { attr.length.max(end) } else { attr.length };
    let sized = quota::may_resize(ino, attr, length, snapshot, env)?;
    let mut draft = Draft::new();
    let mut delta = touched(attr, env.now, env.now, 0);
    if zeroes(mode) {
        let end_of_data = end.min(attr.length);
        let (done, scanned) = zero(&mut draft, ino, offset, end_of_data, snapshot)?;
        let fields = AttrFields { length: true, times: scanned, ..ACCESS };
        draft.expect_attr(ino, attr, fields);
        if done < end_of_data {
            draft.change(ino, delta);
            return draft.done(Outcome::Copied(done - offset));
        }
    } else {
        draft.expect_attr(ino, attr, ACCESS);
    }
    delta.grow_length = grows.then_some(end);
    sized.change(&mut draft, ino, attr, delta);
    let attr = changed(attr, &delta).ok_or(Errno::EIO)?;
    draft.done(Outcome::Node { ino, attr, created: false })
}

fn zeroes(mode: Fallocate) -> bool {
    matches!(mode, Fallocate::PunchHole | Fallocate::ZeroRange | Fallocate::ZeroRangeKeepSize)
}

fn check_node(attr: &Attr, mode: Fallocate) -> Result<(), Errno> {
    match attr.kind {
        FileType::File => {}
        FileType::Fifo => return Err(Errno::EPIPE),
        FileType::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::EPERM),
    }
    match mode {
        Fallocate::KeepSize | Fallocate::Allocate => access::need_growable(attr),
        _ => access::need_changeable(attr),
    }
}

/// Zeroes `[start, end)` as far as one change set goes; tells how far, and whether a scan was asked.
fn zero(draft: &mut Draft, ino: Ino, start: u64, end: u64, snapshot: &Snapshot) -> Result<(u64, bool), Stop> {
    if start >= end {
        return Ok((end, false));
    }
    let below = index_of(end - 1)?.saturating_add(1);
    let mut lists = chunks::lists(ino, index_of(start)?, below, snapshot)?;
    let mut done = end;
    if !lists.complete
        && let Some(last) = lists.indices.pop()
    {
        done = start_of(last);
    }
    zero_lists(draft, ino, &lists.indices, start, done);
    Ok((done, lists.scanned))
}
