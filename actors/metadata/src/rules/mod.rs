//! What each change means: one pure function from what is known to a change set, an error, or the wish to see
//! more. No engine, no waiting, no clock.

mod access;
mod acl;
mod chunks;
mod clone;
mod compact;
mod content;
mod copy;
mod draft;
mod fallocate;
mod gate;
mod link;
mod locks;
mod make;
mod moving;
mod parents;
mod quota;
mod reclaim;
mod recount;
mod removal;
mod rename;
mod setattr;
mod space;
mod trash;
mod truncate;
mod unlink;
mod xattr;

use crate::acl::AclKind;
use crate::change::ChangeSet;
use crate::op::{Env, Op, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::request::{RenameMode, XattrMode};

pub use access::{deciding_rule, may};
pub use acl::known as acl_rule;
pub use locks::{holders, in_the_way};
pub use trash::entry_name;

/// A decision: what to write, and what to answer once it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to commit; may be empty.
    pub changes: ChangeSet,
    /// What came out.
    pub outcome: Outcome,
}

/// Decides a change. Asks for records in as few rounds as it can; the same question with the same snapshot has
/// the same answer.
pub fn decide(op: &Op, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    match op {
        Op::Make { parent, name, kind, mode, umask, rdev, target, existing_ok } => {
            let new = make::New { kind: *kind, mode: *mode, umask: *umask, rdev: *rdev, target };
            make::decide(*parent, name, &new, *existing_ok, snapshot, env)
        }
        Op::Unlink { parent, name } => unlink::unlink(*parent, name, snapshot, env),
        Op::Rmdir { parent, name } => unlink::rmdir(*parent, name, snapshot, env),
        Op::Rename { parent, name, new_parent, new_name, mode } => {
            let from = rename::Place { dir: *parent, name };
            let to = rename::Place { dir: *new_parent, name: new_name };
            rename::decide(from, to, rename::How { mode: *mode, restores: false }, snapshot, env)
        }
        Op::Restore { hour, name, parent, new_name } => {
            let from = rename::Place { dir: *hour, name };
            let to = rename::Place { dir: *parent, name: new_name };
            let how = rename::How { mode: RenameMode::NoReplace, restores: true };
            rename::decide(from, to, how, snapshot, env)
        }
        Op::Clone { from, parent, name, mode } => clone::whole(*from, (*parent, name), *mode, snapshot, env),
        Op::CloneDetached { from, parent, name, mode } => {
            clone::detached(*from, (*parent, name), *mode, snapshot, env)
        }
        Op::Attach { ino, parent, name } => clone::attach(*ino, (*parent, name), snapshot, env),
        Op::Discard { ino } => clone::discard(*ino, snapshot, env),
        Op::Link { ino, parent, name } => link::decide(*ino, *parent, name, snapshot, env),
        Op::SetAttr { ino, set } => setattr::decide(*ino, set, snapshot, env),
        Op::Truncate { ino, length, through_handle } => {
            truncate::decide(*ino, *length, *through_handle, snapshot, env)
        }
        Op::Fallocate { ino, offset, len, mode } => {
            fallocate::decide(*ino, *offset, *len, *mode, snapshot, env)
        }
        Op::CommitSlices { ino, parts, mtime } => content::commit_slices(*ino, parts, *mtime, snapshot, env),
        Op::CopyRange { from, from_offset, to, to_offset, len } => {
            let range =
                copy::Range { from: *from, from_offset: *from_offset, to: *to, to_offset: *to_offset };
            copy::decide(&range, *len, snapshot, env)
        }
        Op::SetXattr { ino, name, value, mode } => match AclKind::of(name.as_bytes()) {
            Some(kind) => acl::set_shown(*ino, kind, Some(value), *mode, snapshot, env),
            None => xattr::set(*ino, name, value, *mode, snapshot, env),
        },
        Op::RemoveXattr { ino, name } => match AclKind::of(name.as_bytes()) {
            Some(kind) => acl::set_shown(*ino, kind, None, XattrMode::Replace, snapshot, env),
            None => xattr::remove(*ino, name, snapshot, env),
        },
        Op::SetLock { ino, owner, lock } => locks::set_range(*ino, *owner, lock, snapshot, env),
        Op::Flock { ino, owner, kind } => locks::set_whole(*ino, *owner, *kind, snapshot, env),
        Op::DropLocks { session, ino } => locks::drop_session(*session, *ino, snapshot),
        Op::Gate { job, interval } => gate::decide(*job, *interval, snapshot, env),
        Op::DropSustained { session, ino } => reclaim::sustained(*session, *ino, snapshot, env),
        Op::DropChunk { ino, index } => reclaim::chunk(*ino, *index, snapshot),
        Op::Compact { ino, index, seen, skipped, record, delayed } => {
            let place = compact::Place { ino: *ino, index: *index, seen, skipped: *skipped };
            compact::decide(&place, *record, *delayed, snapshot, env)
        }
        Op::DropDelayed { stamp, id } => compact::release(*stamp, *id, snapshot),
        Op::DropDeleted { ino, length } => reclaim::deleted(*ino, *length, snapshot),
        Op::DropSliceRef { id, size } => reclaim::slice_ref(*id, *size, snapshot),
        Op::SetQuota { quota, max_space, max_inodes, usage } => {
            quota::set(quota, (*max_space, *max_inodes), *usage, snapshot, env)
        }
        Op::DropQuota { quota } => quota::drop(quota, snapshot, env),
        Op::RecountDirStat { dir } => recount::decide(*dir, snapshot),
        Op::MakeTrashHour { name } => trash::make_hour(name, snapshot, env),
    }
}

/// What is left to do when a change was too large for one change set and only its first step was decided: the
/// change to ask for next, or `None` when all is done. Whoever runs a change must go on until nothing is left.
#[must_use]
pub fn rest(op: &Op, outcome: &Outcome) -> Option<Op> {
    match (op, outcome) {
        (Op::Truncate { length, .. }, Outcome::Node { attr, .. }) if attr.length != *length => {
            Some(op.clone())
        }
        (Op::Fallocate { ino, offset, len, mode }, Outcome::Copied(done)) if done < len => {
            Some(Op::Fallocate { ino: *ino, offset: offset + done, len: len - done, mode: *mode })
        }
        _ => None,
    }
}
