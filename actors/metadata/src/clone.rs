//! Cloning a file or a tree, as steps that are each whole: a directory is copied outside of the tree and gets its
//! name last, so nobody sees half of it. What a failure leaves is removed again; what a crash leaves is marked as
//! detached. Knows the order of the steps; what a step means stands in `rules`.

use crate::key::{Key, Scan};
use crate::op::{CloneMode, Op, Outcome};
use crate::record::Record;
use crate::transact::MetaCore;
use zest_types::request::{SetAttr, SetTime};
use zest_types::{Attr, Caller, Errno, FileType, Ino, Name, limits};

/// What shall be cloned, and where to.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file or directory.
    pub from: Ino,
    /// The directory that gets the copy.
    pub parent: Ino,
    /// The copy's name there.
    pub name: Name,
    /// Owner, mode and times are kept, not those a new node would get.
    pub keep: bool,
    /// Bits a new node's mode loses where they are not kept.
    pub umask: u16,
}

/// Clones; the copy is the answer.
pub async fn clone(core: &MetaCore, caller: Caller, job: &Job) -> Result<Ino, Errno> {
    let mode = CloneMode { keep: job.keep, umask: job.umask, inside: false };
    let (from, parent, name) = (job.from, job.parent, job.name.clone());
    match core.change(caller, &Op::Clone { from, parent, name: name.clone(), mode }).await {
        Ok(Outcome::Node { ino, .. }) => return Ok(ino),
        Err(Errno::EISDIR | Errno::EFBIG) => {}
        Ok(_) => return Err(Errno::EIO),
        Err(errno) => return Err(errno),
    }
    let begun = core.change(caller, &Op::CloneDetached { from, parent, name: name.clone(), mode }).await?;
    let Outcome::Node { ino, attr, .. } = begun else { return Err(Errno::EIO) };
    let filled = match attr.is_dir() {
        true => fill_directory(core, caller, (from, ino), mode).await,
        false => fill_file(core, (from, ino), job.keep).await,
    };
    let attached = match filled {
        Ok(()) => core.change(caller, &Op::Attach { ino, parent, name }).await.map(|_| ino),
        Err(errno) => Err(errno),
    };
    if attached.is_err() {
        discard(core, ino).await?;
    }
    attached
}

/// Copies what a directory holds, level by level.
async fn fill_directory(
    core: &MetaCore,
    caller: Caller,
    top: (Ino, Ino),
    mode: CloneMode,
) -> Result<(), Errno> {
    let mode = CloneMode { inside: true, ..mode };
    let mut open = vec![top];
    while let Some((from, to)) = open.pop() {
        let mut after: Option<Name> = None;
        loop {
            let found = entries(core, from, after.clone()).await?;
            let all = found.len() < limits::READDIR_BATCH;
            after = found.last().map(|(name, ..)| name.clone());
            for (name, kind, child) in found {
                let op = Op::Clone { from: child, parent: to, name: name.clone(), mode };
                let copy = match core.change(caller, &op).await {
                    Ok(Outcome::Node { ino, .. }) => ino,
                    // A file too large for one step is attached to the copy when it is whole.
                    Err(Errno::EFBIG) => {
                        let (keep, umask) = (mode.keep, mode.umask);
                        let job = Job { from: child, parent: to, name, keep, umask };
                        Box::pin(clone(core, caller, &job)).await?
                    }
                    // It went while the tree was copied.
                    Err(Errno::ENOENT) => continue,
                    Ok(_) => return Err(Errno::EIO),
                    Err(errno) => return Err(errno),
                };
                if kind == FileType::Directory {
                    open.push((child, copy));
                }
            }
            if all {
                break;
            }
        }
    }
    Ok(())
}

/// Copies the content of a large file step by step.
async fn fill_file(core: &MetaCore, (from, to): (Ino, Ino), keep: bool) -> Result<(), Errno> {
    let source = attr(core, from).await?.ok_or(Errno::ENOENT)?;
    let mut offset = 0;
    while offset < source.length {
        let len = source.length - offset;
        let op = Op::CopyRange { from, from_offset: offset, to, to_offset: offset, len };
        match core.change(Caller::SYSTEM, &op).await? {
            Outcome::Copied(0) => break,
            Outcome::Copied(n) => offset += n,
            _ => return Err(Errno::EIO),
        }
    }
    let time = |time| keep.then_some(SetTime::At(time));
    let set = SetAttr {
        flags: Some(source.flags),
        atime: time(source.atime),
        mtime: time(source.mtime),
        ..SetAttr::default()
    };
    core.change(Caller::SYSTEM, &Op::SetAttr { ino: to, set }).await.map(|_| ())
}

/// Removes a copy that is not to be: its own, or one that a crash left.
pub async fn discard(core: &MetaCore, top: Ino) -> Result<(), Errno> {
    let mut open = vec![top];
    while let Some(dir) = open.last().copied() {
        // Flags came along with the copy, and would protect it.
        let set = SetAttr { flags: Some(0), ..SetAttr::default() };
        core.change(Caller::SYSTEM, &Op::SetAttr { ino: dir, set }).await?;
        let mut deeper = None;
        for (name, kind, ino) in entries(core, dir, None).await? {
            core.change(Caller::SYSTEM, &Op::SetAttr { ino, set }).await?;
            let op = match kind {
                FileType::Directory => Op::Rmdir { parent: dir, name },
                _ => Op::Unlink { parent: dir, name },
            };
            match core.change_with_trash(Caller::SYSTEM, &op, None).await {
                Err(Errno::ENOTEMPTY) => {
                    deeper = Some(ino);
                    break;
                }
                Ok(_) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        match deeper {
            Some(ino) => open.push(ino),
            None if entries(core, dir, None).await?.is_empty() => drop(open.pop()),
            None => {}
        }
    }
    core.change(Caller::SYSTEM, &Op::Discard { ino: top }).await.map(|_| ())
}

async fn attr(core: &MetaCore, ino: Ino) -> Result<Option<Attr>, Errno> {
    match core.read(vec![Key::Attr(ino)]).await?.pop() {
        Some((_, Some(Record::Attr(attr)))) => Ok(Some(attr)),
        Some((_, Some(_))) => Err(Errno::EIO),
        _ => Ok(None),
    }
}

pub(crate) async fn entries(
    core: &MetaCore,
    dir: Ino,
    after: Option<Name>,
) -> Result<Vec<(Name, FileType, Ino)>, Errno> {
    let scan = Scan::Dentries { dir, after, limit: limits::READDIR_BATCH };
    let entry = |(key, record)| match (key, record) {
        (Key::Dentry(_, name), Record::Dentry { kind, ino }) => Some((name, kind, ino)),
        _ => None,
    };
    Ok(core.scan(&scan, false).await?.into_iter().filter_map(entry).collect())
}
