//! Removing names: unlink and rmdir. What becomes of the node behind the name is in `removal`.

use super::access::{self, EXECUTE, WRITE};
use super::draft::{ACCESS, Draft, Wants};
use super::removal::{Leaving, lose_name};
use super::{Decision, quota, trash};
use crate::key::{Key, Scan};
use crate::op::{Env, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::{Attr, Caller, Errno, FileType, Ino, Name};

pub fn unlink(parent: Ino, name: &Name, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    if trash::is_reserved(parent, name) || (parent.is_trash() && env.caller.uid != 0) {
        return Err(Errno::EPERM.into());
    }
    let (dir, entry) = entry_to_remove(parent, name, snapshot, env)?;
    if entry.0 == FileType::Directory {
        return Err(Errno::EPERM.into());
    }
    access::need(dir, &env.caller, WRITE, snapshot)?;
    access::need_changeable(dir)?;
    remove(parent, name, (dir, entry), snapshot, env)
}

pub fn rmdir(parent: Ino, name: &Name, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    match name.as_bytes() {
        b"." => return Err(Errno::EINVAL.into()),
        b".." => return Err(Errno::ENOTEMPTY.into()),
        _ => {}
    }
    // Hour directories go by the trash's own upkeep only.
    let forbidden = parent == Ino::TRASH && env.caller != Caller::SYSTEM;
    if trash::is_reserved(parent, name) || forbidden || (parent.is_trash() && env.caller.uid != 0) {
        return Err(Errno::EPERM.into());
    }
    let (dir, entry) = entry_to_remove(parent, name, snapshot, env)?;
    if entry.0 != FileType::Directory {
        return Err(Errno::ENOTDIR.into());
    }
    access::need(dir, &env.caller, WRITE, snapshot)?;
    access::need_changeable(dir)?;
    let mut wants = Wants::default();
    let children = wants.see(snapshot.scan(&first_child(entry.1)))?;
    wants.see(snapshot.attr(entry.1))?;
    wants.see(trash::foresee(parent, name, entry.1, snapshot, env))?;
    wants.settle()?;
    if children.is_some_and(|children| !children.is_empty()) {
        return Err(Errno::ENOTEMPTY.into());
    }
    remove(parent, name, (dir, entry), snapshot, env)
}

/// The question whether a directory has entries.
pub fn first_child(dir: Ino) -> Scan {
    Scan::Dentries { dir, after: None, limit: 1 }
}

fn entry_to_remove<'a>(
    parent: Ino,
    name: &Name,
    snapshot: &'a Snapshot,
    env: &Env<'_>,
) -> Result<(&'a Attr, (FileType, Ino)), Stop> {
    snapshot.need(&[Key::Attr(parent), Key::Dentry(parent, name.clone())])?;
    let dir = snapshot.attr(parent)?.ok_or(Errno::ENOENT)?;
    if !dir.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    access::need(dir, &env.caller, EXECUTE, snapshot)?;
    let entry = snapshot.dentry(parent, name)?.ok_or(Errno::ENOENT)?;
    Ok((dir, entry))
}

fn remove(
    parent: Ino,
    name: &Name,
    (dir, entry): (&Attr, (FileType, Ino)),
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let (kind, ino) = entry;
    let mut wants = Wants::default();
    let attr = wants.see(snapshot.attr(ino))?.flatten();
    wants.see(trash::foresee(parent, name, ino, snapshot, env))?;
    let above = wants.see(quota::above(parent, snapshot, env))?.unwrap_or_default();
    wants.settle()?;
    let mut draft = Draft::new();
    draft.expect_attr(parent, dir, ACCESS);
    draft.expect_entry(parent, name, entry);
    draft.delete(Key::Dentry(parent, name.clone()));
    let outcome = match attr {
        // An entry without a node is damage that can be removed.
        None => {
            draft.expect_absent(Key::Attr(ino));
            Outcome::Removed { ino, deleted: None }
        }
        Some(attr) => {
            access::need_unstuck(dir, attr, &env.caller)?;
            if kind != FileType::Directory {
                access::need_changeable(attr)?;
            }
            let bin = trash::bin(parent, name, (ino, attr), snapshot, env)?;
            lose_name(&mut draft, &Leaving { ino, attr, parent, above: &above }, bin.as_ref(), env)
        }
    };
    if !parent.is_trash() {
        let nlink = -i32::from(kind == FileType::Directory);
        draft.touch(parent, dir, env.now, nlink);
    }
    draft.done(outcome)
}
