//! A node that always had one name says in which directory; one that had several has a count for each directory.

use super::{Volume, names_of};
use std::collections::BTreeMap;
use zest_types::Ino;

/// Checks parents against names.
pub fn check(volume: &Volume) -> Result<(), String> {
    for (ino, dirs) in names_of(volume).into_iter().filter(|(ino, _)| !ino.is_trash()) {
        let Some(attr) = volume.attrs.get(&ino) else { continue };
        if attr.parent != Ino(0) {
            if dirs.as_slice() != [attr.parent] {
                return Err(format!(
                    "inode {ino} says it is in directory {}, and has names in {dirs:?}",
                    attr.parent
                ));
            }
            continue;
        }
        let mut right: BTreeMap<Ino, i64> = BTreeMap::new();
        dirs.iter().for_each(|dir| *right.entry(*dir).or_insert(0) += 1);
        let kept: BTreeMap<Ino, i64> = volume
            .parents
            .iter()
            .filter(|((node, _), count)| *node == ino && **count != 0)
            .map(|((_, dir), count)| (*dir, *count))
            .collect();
        if right != kept {
            return Err(format!("inode {ino} has names in {right:?}, its parent counts say {kept:?}"));
        }
    }
    Ok(())
}
