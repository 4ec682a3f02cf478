//! The way from a directory up to the root, to tell whether a directory would be moved into itself. Two moves
//! at once could make a loop that neither sees, so a decision expects every step of the way it went.

use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeSet;
use zest_types::{Attr, Errno, Ino};

/// Directories from `dir` up to the root, both included, each with its record. `EIO` for a way that does not
/// end at the root.
pub fn way_up(dir: Ino, snapshot: &Snapshot) -> Result<Vec<(Ino, Attr)>, Stop> {
    let mut way = Vec::new();
    let mut met = BTreeSet::new();
    let mut at = dir;
    loop {
        if !met.insert(at) {
            return Err(Errno::EIO.into());
        }
        let attr = snapshot.attr(at)?.filter(|attr| attr.is_dir()).ok_or(Errno::EIO)?;
        way.push((at, attr.clone()));
        if at == Ino::ROOT || at == Ino::TRASH {
            return Ok(way);
        }
        at = attr.parent;
    }
}
