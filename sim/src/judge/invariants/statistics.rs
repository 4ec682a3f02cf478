//! The statistics of a directory are what its entries add up to: bytes of files, space, number of entries.

use super::Volume;
use std::collections::BTreeMap;
use zest_types::attr::align4k;
use zest_types::{FileType, Ino};

/// Checks the statistics of directories that have any.
pub fn check(volume: &Volume) -> Result<(), String> {
    let mut right: BTreeMap<Ino, (i64, i64, i64)> = BTreeMap::new();
    let mut special = std::collections::BTreeSet::new();
    for ((dir, _), (kind, ino)) in &volume.dentries {
        let Some(attr) = volume.attrs.get(ino) else { continue };
        let file = *kind == FileType::File;
        let length = if file { i64::try_from(attr.length).unwrap_or(i64::MAX) } else { 0 };
        let space = if file { i64::try_from(align4k(attr.length)).unwrap_or(i64::MAX) } else { 4096 };
        let sums = right.entry(*dir).or_default();
        *sums = (sums.0 + length, sums.1 + space, sums.2 + 1);
        // The format counts further names of a symlink by another rule than its first.
        if *kind == FileType::Symlink {
            special.insert(*dir);
        }
    }
    for (dir, kept) in volume.statistics.iter().filter(|(dir, _)| !special.contains(*dir)) {
        let right = right.get(dir).copied().unwrap_or_default();
        if right != *kept {
            return Err(format!(
                "statistics of directory {dir} say {kept:?}, its entries add up to {right:?}"
            ));
        }
    }
    Ok(())
}
