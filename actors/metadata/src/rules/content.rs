//! A slice whose blocks are durable becomes part of a file. Source: volume format, write.

use super::chunks::start_of;
use super::draft::{Draft, EXISTS, touched};
use super::space::end_of;
use super::{Decision, quota};
use crate::apply::changed;
use crate::change::{AttrDelta, Write};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::{Errno, Ino, SliceRecord, Time};

/// Asks for no right: that was checked when the file was opened. A file without a name is written on as long as
/// somebody has it open.
pub fn commit_slice(
    ino: Ino,
    index: u32,
    record: SliceRecord,
    mtime: Time,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if record.len == 0 || !record.is_sound() {
        return Err(Errno::EINVAL.into());
    }
    let end = end_of(start_of(index), record.end())?;
    snapshot.need(&[Key::Attr(ino)])?;
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    if !attr.is_file() {
        return Err(Errno::EPERM.into());
    }
    let sized = quota::may_resize(ino, attr, attr.length.max(end), snapshot, env)?;
    let mut draft = Draft::new();
    draft.expect_attr(ino, attr, EXISTS);
    draft.write(Write::Append(ino, index, vec![record]));
    let delta = AttrDelta { grow_length: Some(end), ..touched(attr, mtime, env.now, 0) };
    sized.change(&mut draft, ino, attr, delta);
    let attr = changed(attr, &delta).ok_or(Errno::EIO)?;
    draft.done(Outcome::Node { ino, attr, created: false })
}
