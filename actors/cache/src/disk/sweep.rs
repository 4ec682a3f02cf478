//! After a crash there may be cache files that the index does not know: they are looked for folder by folder, a
//! few at a time, and removed. Only what is called as cache files are, in the folder where it would be, is a cache
//! file; everything else is somebody's and stays.

use super::{FOLDERS, folder_name, place};
use std::io;
use zest_types::SliceId;
use zest_world::Disk;

/// Folders looked at in one step.
const AT_ONCE: u32 = 32;

/// How far the look has come.
pub(super) struct Sweep {
    next: u32,
}

impl Sweep {
    pub(super) fn new() -> Sweep {
        Sweep { next: 0 }
    }

    /// Looks at a few folders; true when all were looked at.
    pub(super) fn step(&mut self, disk: &dyn Disk, known: &dyn Fn(u64) -> bool) -> io::Result<bool> {
        let there = disk.folders()?;
        let end = (self.next + AT_ONCE).min(FOLDERS);
        while self.next < end {
            let name = folder_name(self.next);
            if there.contains(&name) {
                let folder = disk.folder(&name)?;
                for file in folder.list()? {
                    if ours(&name, &file).is_some_and(|slice| !known(slice)) {
                        folder.remove(&file)?;
                    }
                }
            }
            self.next += 1;
        }
        Ok(self.next >= FOLDERS)
    }
}

/// The slice whose file this is.
fn ours(folder: &str, file: &str) -> Option<u64> {
    let slice = file.parse().ok()?;
    let (right_folder, right_name) = place(SliceId(slice));
    (right_folder == folder && right_name == file).then_some(slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cache_files_in_their_place_are_ours() {
        assert_eq!(ours("07", "263"), Some(263));
        for (folder, file) in [("08", "263"), ("07", "0263"), ("07", "+263"), ("07", "263.bak"), ("07", "")] {
            assert_eq!(ours(folder, file), None, "{folder}/{file}");
        }
    }
}
