//! Making a node of any kind under a new name. Source: volume format, mknod, mode and group of a new node.

use super::access::{self, EXECUTE, WRITE};
use super::draft::{ACCESS_AND_PLACE, Draft, nothing};
use super::quota::{self, Growth};
use super::{Decision, acl, trash};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use zest_types::attr::flags;
use zest_types::{Attr, Caller, Errno, FileType, Ino, Name, limits};

/// What is to be made.
pub struct New<'a> {
    pub kind: FileType,
    pub mode: u16,
    pub umask: u16,
    pub rdev: u32,
    pub target: &'a [u8],
}

pub fn decide(
    parent: Ino,
    name: &Name,
    new: &New<'_>,
    existing_ok: bool,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    check_request(parent, name, new, &env.caller)?;
    let entry = Key::Dentry(parent, name.clone());
    snapshot.need(&[Key::Attr(parent), entry.clone()])?;
    let dir = receiving_dir(parent, snapshot, &env.caller)?;
    if let Some((kind, ino)) = snapshot.dentry(parent, name)? {
        if !existing_ok || kind != FileType::File {
            return Err(Errno::EEXIST.into());
        }
        let attr = snapshot.attr(ino)?.ok_or(Errno::EIO)?.clone();
        return nothing(Outcome::Node { ino, attr, created: false });
    }
    access::need(dir, &env.caller, WRITE, snapshot)?;
    access::need_growable(dir)?;
    let ino = env.new_ino;
    let mut draft = Draft::new();
    let attr = new_attr(parent, dir, new, &mut draft, snapshot, env)?;
    let above = quota::above(parent, snapshot, env)?;
    let growth = Growth { space: 4096, inodes: 1, owner: Some((attr.uid, attr.gid)), volume: true };
    quota::need_room(growth, &above, snapshot, env)?;
    let directory = new.kind == FileType::Directory;
    draft.expect_attr(parent, dir, ACCESS_AND_PLACE);
    draft.expect_absent(entry);
    draft.expect_absent(Key::Attr(ino));
    draft.put(Key::Attr(ino), Record::Attr(attr.clone()));
    draft.put_entry(parent, name, (new.kind, ino));
    match new.kind {
        FileType::Symlink => draft.put(Key::Symlink(ino), Record::Bytes(new.target.to_vec())),
        FileType::Directory => {
            draft.put(Key::DirStat(ino), Record::DirStat { length: 0, space: 0, inodes: 0 });
        }
        _ => {}
    }
    draft.touch(parent, dir, env.now, i32::from(directory));
    draft.account(parent, ino, 1);
    draft.usage(ino, 1);
    quota::charge_new(&mut draft, ino, &attr, &above, env);
    draft.done(Outcome::Node { ino, attr, created: true })
}

fn check_request(parent: Ino, name: &Name, new: &New<'_>, caller: &Caller) -> Result<(), Errno> {
    if parent.is_trash() || trash::is_reserved(parent, name) {
        return Err(Errno::EPERM);
    }
    if name.is_dots() {
        return Err(Errno::EEXIST);
    }
    match new.kind {
        FileType::Symlink if new.target.is_empty() || new.target.contains(&0) => Err(Errno::EINVAL),
        FileType::Symlink if new.target.len() > limits::SYMLINK_MAX => Err(Errno::ENAMETOOLONG),
        FileType::BlockDevice | FileType::CharDevice if caller.check && caller.uid != 0 => Err(Errno::EPERM),
        _ => Ok(()),
    }
}

/// A directory that can get a new entry, as far as looking a name up in it goes; whether it may be written is
/// asked once it is known that the name is free.
pub fn receiving_dir<'a>(parent: Ino, snapshot: &'a Snapshot, caller: &Caller) -> Result<&'a Attr, Stop> {
    let dir = snapshot.attr(parent)?.ok_or(Errno::ENOENT)?;
    if !dir.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    if dir.lives_in_trash() {
        return Err(Errno::ENOENT.into());
    }
    access::need(dir, caller, EXECUTE, snapshot)?;
    Ok(dir)
}

fn new_attr(
    parent: Ino,
    dir: &Attr,
    new: &New<'_>,
    draft: &mut Draft,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Attr, Stop> {
    let caller = &env.caller;
    let inherits = dir.mode & 0o2000 != 0;
    let gid = if inherits { dir.gid } else { caller.gid };
    let mode = if new.kind == FileType::Symlink { 0o777 } else { new.mode & !new.umask & 0o7777 };
    let mut attr = Attr::new(new.kind, mode, caller.uid, gid, parent, env.now);
    acl::inherit(dir, &mut attr, new.mode & 0o7777, draft, snapshot)?;
    let mode = &mut attr.mode;
    if inherits && new.kind == FileType::Directory {
        *mode |= 0o2000;
    } else if inherits && *mode & 0o2010 == 0o2010 && caller.check && caller.uid != 0 && caller.gid != dir.gid
    {
        *mode &= !0o2000;
    }
    attr.flags = dir.flags & flags::SKIP_TRASH;
    attr.tier = dir.tier;
    match new.kind {
        FileType::Symlink => attr.length = new.target.len() as u64,
        FileType::Directory => {}
        _ => attr.rdev = new.rdev,
    }
    Ok(attr)
}
