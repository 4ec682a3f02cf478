//! What is kept as used below a directory with a quota is what lies there: a node counts once for each name below the
//! directory, the directory itself does not, and what is in the trash counts for nobody.

use super::{Volume, space};
use std::collections::BTreeMap;
use zest_types::{FileType, Ino};

/// Checks usage below directories.
pub fn check(volume: &Volume) -> Result<(), String> {
    let mut children: BTreeMap<Ino, Vec<(FileType, Ino)>> = BTreeMap::new();
    for ((dir, _), child) in &volume.dentries {
        children.entry(*dir).or_default().push(*child);
    }
    for (top, kept) in &volume.quotas {
        let (mut right, mut queue) = ((0, 0), vec![*top]);
        while let Some(dir) = queue.pop() {
            for (kind, ino) in children.get(&dir).into_iter().flatten() {
                let Some(attr) = volume.attrs.get(ino) else { continue };
                right = (right.0 + space(attr), right.1 + 1i64);
                if *kind == FileType::Directory {
                    queue.push(*ino);
                }
            }
        }
        if right != *kept {
            return Err(format!(
                "the quota of directory {top} says {kept:?} bytes and nodes, below it are {right:?}"
            ));
        }
    }
    Ok(())
}
