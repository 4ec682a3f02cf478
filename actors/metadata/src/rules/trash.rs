//! The trash as a place: names in it, its hour directories, and which removals go there. Source: volume format,
//! trash layout and trash rules.

use super::Decision;
use super::draft::{Draft, EXISTS, nothing};
use crate::key::{Counter, Key};
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use zest_types::attr::flags;
use zest_types::{Attr, Errno, FileType, Ino, Name, limits};

/// The name the trash root has in the root directory, where nothing else may have it.
pub fn is_reserved(parent: Ino, name: &Name) -> bool {
    parent == Ino::ROOT && name.as_bytes() == b".trash"
}

/// The name of a removed entry in an hour directory: where it was, what it is, how it was called, cut to what a
/// name may have.
pub fn entry_name(parent: Ino, ino: Ino, name: &Name) -> Result<Name, Errno> {
    let mut bytes = format!("{parent}-{ino}-").into_bytes();
    bytes.extend_from_slice(name.as_bytes());
    bytes.truncate(limits::NAME_MAX);
    Name::new(&bytes)
}

/// Where a removed entry goes.
pub struct Bin {
    /// The hour directory.
    pub hour: Ino,
    /// As it was seen.
    pub hour_attr: Attr,
    /// The entry's name there.
    pub name: Name,
}

/// Looks at what [`bin`] will look at, before the node is known.
pub fn foresee(parent: Ino, name: &Name, ino: Ino, snapshot: &Snapshot, env: &Env<'_>) -> Result<(), Stop> {
    match env.trash.filter(|_| !parent.is_trash()) {
        Some(hour) => snapshot.need(&[Key::Attr(hour), Key::Dentry(hour, entry_name(parent, ino, name)?)]),
        None => Ok(()),
    }
}

/// Where the removal of this name goes; `None` when it is final.
pub fn bin(
    parent: Ino,
    name: &Name,
    (ino, attr): (Ino, &Attr),
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Option<Bin>, Stop> {
    let Some(hour) = env.trash.filter(|_| !parent.is_trash() && attr.flags & flags::SKIP_TRASH == 0) else {
        return Ok(None);
    };
    foresee(parent, name, ino, snapshot, env)?;
    let name = entry_name(parent, ino, name)?;
    let Some(hour_attr) = snapshot.attr(hour)?.filter(|a| a.is_dir() && hour > Ino::TRASH) else {
        return Err(Errno::EBADF.into());
    };
    let taken = snapshot.dentry(hour, &name)?.is_some();
    Ok((!taken).then(|| Bin { hour, hour_attr: hour_attr.clone(), name }))
}

/// An hour directory: the one of this name, or a new one.
pub fn make_hour(name: &Name, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    let counter = Key::Counter(Counter::NextTrash);
    snapshot.need(&[Key::Attr(Ino::TRASH), Key::Dentry(Ino::TRASH, name.clone()), counter.clone()])?;
    if let Some((_, ino)) = snapshot.dentry(Ino::TRASH, name)? {
        let attr = snapshot.attr(ino)?.ok_or(Errno::EIO)?.clone();
        return nothing(Outcome::Node { ino, attr, created: false });
    }
    let root = snapshot.attr(Ino::TRASH)?.ok_or(Errno::ENOENT)?;
    let number = snapshot.count(&counter)?.checked_add(1).and_then(|n| u64::try_from(n).ok());
    let ino = number.and_then(|n| Ino::TRASH.0.checked_add(n)).map(Ino).ok_or(Errno::EIO)?;
    let mut attr = Attr::new(FileType::Directory, 0o555, 0, 0, Ino::TRASH, env.now);
    attr.tier = root.tier;
    let mut draft = Draft::new();
    draft.expect_attr(Ino::TRASH, root, EXISTS);
    draft.expect_absent(Key::Dentry(Ino::TRASH, name.clone()));
    draft.expect_absent(Key::Attr(ino));
    draft.expect_seen(counter.clone(), snapshot.get(&counter)?);
    draft.add(counter, 1);
    draft.put(Key::Attr(ino), Record::Attr(attr.clone()));
    draft.put_entry(Ino::TRASH, name, (FileType::Directory, ino));
    draft.put(Key::DirStat(ino), Record::DirStat { length: 0, space: 0, inodes: 0 });
    draft.account(Ino::TRASH, ino, 1);
    draft.usage(ino, 1);
    draft.done(Outcome::Node { ino, attr, created: true })
}
