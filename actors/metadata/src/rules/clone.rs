//! Copies of nodes that share their content: a file or any other node in one step under its new name, a directory
//! first outside of the tree, where its content is copied step by step, and attached when it is whole. Source:
//! volume format, clone. Unlike the original client's, a copy's statistics count what they count everywhere.

use super::access::{self, WRITE};
use super::chunks;
use super::draft::{ACCESS_AND_PLACE, Draft, EXISTS};
use super::parents::way_up;
use super::quota::{self, Above, Growth};
use super::unlink::first_child;
use super::{Decision, make, moving, trash};
use crate::change::{AttrDelta, AttrFields, Write};
use crate::key::{Key, Scan};
use crate::op::{CloneMode, Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeMap;
use zest_types::slice::chunk_ranges;
use zest_types::{Attr, Errno, FileType, Ino, Name, SliceId, limits};
use zest_world::planted::{self, Bug};

const READ: u8 = 4;
/// Slices whose references one step adds.
const SLICES: usize = limits::CHANGE_SET_MAX / 4;

/// A copy of one node under a name. With `mode.inside` its directory is a copy in the making, of which nothing is
/// asked; a directory's copy is empty. `EFBIG` for a file too large for one step: see [`detached`].
pub fn whole(
    from: Ino,
    (parent, name): (Ino, &Name),
    mode: CloneMode,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let entry = Key::Dentry(parent, name.clone());
    snapshot.need(&[Key::Attr(from), Key::Attr(parent), entry.clone()])?;
    let source = source(from, snapshot, env)?;
    let dir = match mode.inside {
        true => snapshot.attr(parent)?.filter(|dir| dir.is_dir()).ok_or(Errno::ENOENT)?,
        false => destination(parent, name, snapshot, env)?,
    };
    if snapshot.dentry(parent, name)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if source.is_dir() && !mode.inside {
        return Err(Errno::EISDIR.into());
    }
    let ino = env.new_ino;
    let attr = copied(source, parent, mode, env);
    let above = room(&attr, parent, snapshot, env)?;
    let mut draft = Draft::new();
    content(&mut draft, from, source, ino, snapshot)?;
    draft.expect_absent(entry);
    put(&mut draft, ino, &attr, &above, env);
    draft.put_entry(parent, name, (attr.kind, ino));
    draft.account(parent, ino, 1);
    if mode.inside {
        // A copy keeps the times of what it is a copy of.
        draft.expect_attr(parent, dir, EXISTS);
        let nlink = i32::from(attr.is_dir());
        draft.change(parent, AttrDelta { nlink, ..AttrDelta::default() });
    } else {
        draft.expect_attr(parent, dir, ACCESS_AND_PLACE);
        draft.touch(parent, dir, env.now, 0);
    }
    draft.done(Outcome::Node { ino, attr, created: true })
}

/// A copy without a name and without content, on its way into a directory. Until it gets there it has no parent,
/// and counts for the quotas of no directory.
pub fn detached(
    from: Ino,
    (parent, name): (Ino, &Name),
    mode: CloneMode,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    snapshot.need(&[Key::Attr(from), Key::Attr(parent), Key::Dentry(parent, name.clone())])?;
    let source = source(from, snapshot, env)?;
    let dir = destination(parent, name, snapshot, env)?;
    if !source.is_dir() && !source.is_file() {
        return Err(Errno::EINVAL.into());
    }
    let ino = env.new_ino;
    let mut attr = copied(source, parent, mode, env);
    if attr.is_file() {
        (attr.length, attr.flags) = (0, 0);
    }
    room(&attr, parent, snapshot, env)?;
    attr.parent = Ino(0);
    let mut draft = Draft::new();
    attributes(&mut draft, from, ino, snapshot)?;
    draft.expect_absent(Key::Dentry(parent, name.clone()));
    // A copy that keeps times keeps these, and a change of attributes shows in them.
    draft.expect_attr(from, source, AttrFields { times: true, ..ACCESS_AND_PLACE });
    draft.expect_attr(parent, dir, ACCESS_AND_PLACE);
    put(&mut draft, ino, &attr, &Above::default(), env);
    draft.put(Key::Detached(ino), Record::Stamp(env.now.sec));
    draft.done(Outcome::Node { ino, attr, created: true })
}

/// A copy is whole and gets its name.
pub fn attach(
    ino: Ino,
    (parent, name): (Ino, &Name),
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let (entry, mark) = (Key::Dentry(parent, name.clone()), Key::Detached(ino));
    snapshot.need(&[Key::Attr(ino), Key::Attr(parent), entry.clone(), mark.clone()])?;
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    let seen = snapshot.get(&mark)?.ok_or(Errno::ENOENT)?;
    let dir = destination(parent, name, snapshot, env)?;
    // Nothing that is no part of the tree takes a directory, least of all the directory itself.
    let way = if attr.is_dir() { way_up(parent, snapshot)? } else { Vec::new() };
    let above = quota::above(parent, snapshot, env)?;
    let joins = moving::look((ino, attr), &Above::default(), &above, snapshot, env)?;
    let mut draft = Draft::new();
    draft.expect_attr(parent, dir, ACCESS_AND_PLACE);
    draft.expect_attr(ino, attr, AttrFields { parent: true, ..EXISTS });
    draft.expect_absent(entry);
    draft.expect_seen(mark.clone(), Some(seen));
    draft.delete(mark);
    draft.put_entry(parent, name, (attr.kind, ino));
    for (ino, attr) in &way {
        draft.expect_attr(*ino, attr, AttrFields { parent: true, ..AttrFields::default() });
    }
    above.expect(&mut draft);
    joins.write(&mut draft, ino);
    draft.change(ino, AttrDelta { parent: Some(parent), ..AttrDelta::default() });
    draft.account(parent, ino, 1);
    draft.touch(parent, dir, env.now, i32::from(attr.is_dir()));
    let attr = Attr { parent, ..attr.clone() };
    draft.done(Outcome::Node { ino, attr, created: true })
}

/// A copy that is given up: it must be empty by now.
pub fn discard(ino: Ino, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    let mark = Key::Detached(ino);
    snapshot.need(&[Key::Attr(ino), mark.clone()])?;
    let (Some(attr), Some(seen)) = (snapshot.attr(ino)?, snapshot.get(&mark)?) else {
        return super::draft::nothing(Outcome::Done);
    };
    if !snapshot.scan(&first_child(ino))?.is_empty() {
        return Err(Errno::ENOTEMPTY.into());
    }
    let mut draft = Draft::new();
    draft.expect_seen(mark.clone(), Some(seen));
    let fields = AttrFields { access: true, length: attr.is_file(), parent: true, ..EXISTS };
    draft.expect_attr(ino, attr, fields);
    if attr.is_dir() {
        draft.expect_empty(ino);
        draft.delete(Key::DirStat(ino));
    }
    draft.delete(mark);
    let outcome = super::removal::forget(&mut draft, ino, attr, env);
    draft.done(outcome)
}

/// What is to be copied: it may be read, and is not in the trash.
fn source<'a>(from: Ino, snapshot: &'a Snapshot, env: &Env<'_>) -> Result<&'a Attr, Stop> {
    let attr = snapshot.attr(from)?.filter(|attr| attr.nlink > 0).ok_or(Errno::ENOENT)?;
    if from.is_trash() || attr.lives_in_trash() {
        return Err(Errno::EPERM.into());
    }
    access::need(attr, &env.caller, READ, snapshot)?;
    Ok(attr)
}

fn destination<'a>(
    parent: Ino,
    name: &Name,
    snapshot: &'a Snapshot,
    env: &Env<'_>,
) -> Result<&'a Attr, Stop> {
    if parent.is_trash() || trash::is_reserved(parent, name) {
        return Err(Errno::EPERM.into());
    }
    if name.is_dots() {
        return Err(Errno::EEXIST.into());
    }
    let dir = make::receiving_dir(parent, snapshot, &env.caller)?;
    if snapshot.dentry(parent, name)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    access::need(dir, &env.caller, WRITE, snapshot)?;
    access::need_growable(dir)?;
    Ok(dir)
}

fn copied(source: &Attr, parent: Ino, mode: CloneMode, env: &Env<'_>) -> Attr {
    let mut attr = source.clone();
    attr.parent = parent;
    attr.nlink = if attr.is_dir() { 2 } else { 1 };
    if !mode.keep {
        (attr.uid, attr.gid) = (env.caller.uid, env.caller.gid);
        attr.mode &= !mode.umask;
        (attr.atime, attr.mtime, attr.ctime) = (env.now, env.now, env.now);
    }
    attr
}

fn room(attr: &Attr, parent: Ino, snapshot: &Snapshot, env: &Env<'_>) -> Result<Above, Stop> {
    let above = quota::above(parent, snapshot, env)?;
    let (space, inodes) = quota::amounts(attr)?;
    let growth = Growth {
        space: space.unsigned_abs(),
        inodes: inodes.unsigned_abs(),
        owner: Some((attr.uid, attr.gid)),
        volume: true,
    };
    quota::need_room(growth, &above, snapshot, env)?;
    Ok(above)
}

fn put(draft: &mut Draft, ino: Ino, attr: &Attr, above: &Above, env: &Env<'_>) {
    draft.expect_absent(Key::Attr(ino));
    draft.put(Key::Attr(ino), Record::Attr(attr.clone()));
    if attr.is_dir() {
        draft.put(Key::DirStat(ino), Record::DirStat { length: 0, space: 0, inodes: 0 });
    }
    draft.usage(ino, 1);
    quota::charge_new(draft, ino, attr, above, env);
}

/// Extended attributes.
fn attributes(draft: &mut Draft, from: Ino, ino: Ino, snapshot: &Snapshot) -> Result<(), Stop> {
    for (key, record) in snapshot.scan(&Scan::Xattrs(from))? {
        if let Key::Xattr(_, name) = key {
            draft.put(Key::Xattr(ino, name.clone()), record.clone());
        }
    }
    Ok(())
}

/// What a node holds: lists of slices, each with a reference more, or a target; and extended attributes.
fn content(draft: &mut Draft, from: Ino, source: &Attr, ino: Ino, snapshot: &Snapshot) -> Result<(), Stop> {
    attributes(draft, from, ino, snapshot)?;
    let fields = AttrFields { access: true, length: true, times: true, parent: true, nlink: false };
    draft.expect_attr(from, source, fields);
    match source.kind {
        FileType::Symlink => {
            let target = snapshot.get(&Key::Symlink(from))?.ok_or(Errno::EIO)?;
            draft.put(Key::Symlink(ino), target.clone());
            return Ok(());
        }
        FileType::File => {}
        _ => return Ok(()),
    }
    let below = chunk_ranges(0, source.length).last().map_or(0, |last| last.index.saturating_add(1));
    let lists = chunks::lists(from, 0, below, snapshot)?;
    if !lists.complete {
        return Err(Errno::EFBIG.into());
    }
    let keys: Vec<Key> = lists.indices.iter().map(|index| Key::Chunk(from, *index)).collect();
    snapshot.need(&keys)?;
    let mut references: BTreeMap<(SliceId, u32), i64> = BTreeMap::new();
    for (index, key) in lists.indices.iter().zip(keys) {
        let seen = snapshot.get(&key)?;
        let list = match seen {
            None => {
                draft.expect_absent(key);
                continue;
            }
            Some(Record::Slices(list)) => list,
            Some(_) => return Err(Errno::EIO.into()),
        };
        for record in list.iter().filter(|record| !record.id.is_zeros()) {
            *references.entry((record.id, record.size)).or_default() += 1;
        }
        draft.expect_seen(key, seen);
        draft.put(Key::Chunk(ino, *index), Record::Slices(list.clone()));
    }
    if references.len() > SLICES {
        return Err(Errno::EFBIG.into());
    }
    for ((id, size), n) in references.into_iter().filter(|_| !planted::active(Bug::LostCloneReference)) {
        draft.write(Write::Add(Key::SliceRef { id, size }, n));
    }
    Ok(())
}
