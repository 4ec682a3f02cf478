//! Every entry leads to a node of its kind; every node has as many names as its link count says; a directory has
//! one name and counts its subdirectories.

use super::{Volume, names_of};
use zest_types::Ino;

/// Checks names against link counts.
pub fn check(volume: &Volume) -> Result<(), String> {
    for ((dir, name), (kind, ino)) in &volume.dentries {
        let Some(attr) = volume.attrs.get(ino) else {
            return Err(format!(
                "entry {name} of directory {dir} leads to inode {ino}, which does not exist"
            ));
        };
        if attr.kind != *kind {
            return Err(format!(
                "entry {name} of directory {dir} says {kind:?}, inode {ino} is {:?}",
                attr.kind
            ));
        }
    }
    let names = names_of(volume);
    for (ino, attr) in volume.attrs.iter().filter(|(ino, _)| !ino.is_trash()) {
        let count = names.get(ino).map_or(0, Vec::len);
        if attr.is_dir() {
            let subdirs = volume
                .dentries
                .iter()
                .filter(|((dir, _), (_, child))| dir == ino && is_dir(volume, *child))
                .count();
            if attr.nlink as usize != subdirs + 2 {
                return Err(format!(
                    "directory {ino} has nlink {} and {subdirs} directories in it",
                    attr.nlink
                ));
            }
            let unnamed = *ino == Ino::ROOT || volume.detached.contains(ino);
            if count != usize::from(!unnamed) {
                return Err(format!("directory {ino} has {count} names"));
            }
        } else if attr.nlink as usize != count && !volume.detached.contains(ino) {
            return Err(format!("inode {ino} has nlink {} and {count} names", attr.nlink));
        }
        let unnamed = *ino == Ino::ROOT || volume.detached.contains(ino);
        if count == 0 && !unnamed && !volume.sustained.contains(ino) {
            return Err(format!("inode {ino} has no name and nobody holds it"));
        }
    }
    Ok(())
}

fn is_dir(volume: &Volume, ino: Ino) -> bool {
    volume.attrs.get(&ino).is_some_and(zest_types::Attr::is_dir)
}
