//! Bringing back what lies in an hour directory of the trash. A tree was trashed node by node, so its directories
//! are put together first, in the trash; then what has no such directory goes back to where it was. Source: volume
//! format, trash rules.

use crate::clone::entries;
use crate::op::Op;
use crate::transact::MetaCore;
use std::collections::BTreeSet;
use zest_types::{Caller, Errno, FileType, Ino, Name};

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Entries put into directories that lie in the trash too.
    pub rebuilt: u64,
    /// Entries back where they were.
    pub back: u64,
    /// Entries that stayed: their directory is gone, or their name is taken.
    pub stayed: u64,
}

/// Puts the trees of an hour together; with `back` returns everything to where it was.
pub async fn restore(core: &MetaCore, hour: Ino, back: bool) -> Result<Restored, Errno> {
    let mut all = Vec::new();
    let mut after: Option<Name> = None;
    loop {
        let batch = entries(core, hour, after).await?;
        after = batch.last().map(|(name, ..)| name.clone());
        all.extend(batch);
        if after.is_none() {
            break;
        }
    }
    let is_dir = |(_, kind, ino): &(Name, FileType, Ino)| (*kind == FileType::Directory).then_some(*ino);
    let dirs: BTreeSet<Ino> = all.iter().filter_map(is_dir).collect();
    let (inside, outside): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter_map(|(name, ..)| where_from(&name).map(|(parent, old)| (name, parent, old)))
        .partition(|(_, parent, _)| dirs.contains(parent));
    let mut done = Restored::default();
    for (entries, count_back) in [(inside, false), (outside, true)] {
        for (name, parent, new_name) in entries {
            if count_back && !back {
                continue;
            }
            match core.change(Caller::SYSTEM, &Op::Restore { hour, name, parent, new_name }).await {
                Ok(_) if count_back => done.back += 1,
                Ok(_) => done.rebuilt += 1,
                Err(Errno::EIO) => return Err(Errno::EIO),
                Err(_) => done.stayed += 1,
            }
        }
    }
    Ok(done)
}

/// The directory and the name that an entry of the trash had.
#[must_use]
pub fn where_from(name: &Name) -> Option<(Ino, Name)> {
    let mut parts = name.as_bytes().splitn(3, |byte| *byte == b'-');
    let number = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u64>().ok();
    let (parent, _) = (number(parts.next()?)?, number(parts.next()?)?);
    Some((Ino(parent), Name::new(parts.next()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_where_it_was() {
        let from = |text: &[u8]| where_from(&Name::new(text).unwrap());
        assert_eq!(from(b"1-22-a-b"), Some((Ino(1), Name::new(b"a-b").unwrap())));
        assert_eq!(from(b"1-22-\xff"), Some((Ino(1), Name::new(b"\xff").unwrap())));
        for bad in [&b"1-22"[..], b"1-22-", b"x-22-a", b"1-x-a", b"name"] {
            assert_eq!(from(bad), None);
        }
    }
}
