//! Putting right what the look at names and nodes found. Each remedy is one change set that expects what was found,
//! so that nothing is put right that somebody else changed meanwhile.

use crate::failure::Failure;
use crate::quota::recount;
use crate::reclaim::rules;
use crate::tree::{Problem, Remedy};
use crate::whole::Whole;
use zest_metadata::{ChangeSet, CommitError, Expect, Key, Record, Write};
use zest_types::{Attr, Errno, FileType, Ino};

/// Puts one thing right; `false` where nothing is known to help, or somebody else changed it.
pub async fn repair(whole: &Whole, problem: &Problem, mode: u16) -> Result<bool, Failure> {
    let ino = problem.ino;
    let Some(remedy) = &problem.remedy else { return Ok(false) };
    if let Remedy::Statistics(_) = remedy
        && recount(whole, &rules(whole), ino).await?
    {
        return Ok(true);
    }
    // A directory too large to be counted in one step gets what the look counted.
    let key = match remedy {
        Remedy::Statistics(_) => Key::DirStat(ino),
        _ => Key::Attr(ino),
    };
    let found = whole.engine.read(std::slice::from_ref(&key)).await?.into_iter().next().flatten();
    let record = match (remedy, &found) {
        (Remedy::Statistics([length, space, inodes]), _) => {
            Record::DirStat { length: *length, space: *space, inodes: *inodes }
        }
        (Remedy::Links(nlink), Some(Record::Attr(attr))) => {
            Record::Attr(Attr { nlink: *nlink, ..attr.clone() })
        }
        (Remedy::Parent(parent), Some(Record::Attr(attr))) => {
            Record::Attr(Attr { parent: *parent, ..attr.clone() })
        }
        (Remedy::Remake(parent), None) => Record::Attr(remade(whole, ino, *parent, mode).await?),
        _ => return Ok(false),
    };
    let expect = match found {
        Some(found) => Expect::Same(key.clone(), found),
        None => Expect::Absent(key.clone()),
    };
    let changes = ChangeSet { expect: vec![expect], write: vec![Write::Put(key, record)] };
    match whole.engine.commit(&changes).await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict(_)) => Ok(false),
        // Looked at again by whoever looks next.
        Err(CommitError::Unknown(_)) => Err(Failure::Refused(Errno::EIO)),
        Err(CommitError::Engine(error)) => Err(error.into()),
    }
}

/// A directory whose attributes were lost, with the entries it has still.
async fn remade(whole: &Whole, ino: Ino, parent: Ino, mode: u16) -> Result<Attr, Failure> {
    let mut attr = Attr::new(FileType::Directory, mode, 0, 0, parent, whole.world.clock.now());
    let mut after = None;
    loop {
        let batch = whole.entries(ino, after).await?;
        attr.nlink += batch.iter().filter(|(_, kind, _)| *kind == FileType::Directory).count() as u32;
        match batch.last() {
            Some((name, ..)) => after = Some(name.clone()),
            None => return Ok(attr),
        }
    }
}
