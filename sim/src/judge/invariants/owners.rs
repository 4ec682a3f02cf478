//! What is kept as used by a user or a group is what their nodes add up to, in the trash or not; the root and the
//! directories of the trash count for nobody.

use super::{Volume, space};
use std::collections::BTreeMap;
use zest_types::Ino;

/// Checks usage by owners, where it is kept.
pub fn check(volume: &Volume) -> Result<(), String> {
    let Some(kept) = &volume.owners else { return Ok(()) };
    let mut right: [BTreeMap<u32, (i64, i64)>; 2] = Default::default();
    for (ino, attr) in volume.attrs.iter().filter(|(ino, _)| **ino != Ino::ROOT && !ino.is_trash()) {
        let _ = ino;
        for (sums, owner) in right.iter_mut().zip([attr.uid, attr.gid]) {
            let sum = sums.entry(owner).or_default();
            *sum = (sum.0 + space(attr), sum.1 + 1);
        }
    }
    for (what, (kept, right)) in ["user", "group"].into_iter().zip(kept.iter().zip(&right)) {
        for owner in 0..4 {
            let of = |sums: &BTreeMap<u32, (i64, i64)>| sums.get(&owner).copied().unwrap_or_default();
            if of(kept) != of(right) {
                return Err(format!(
                    "{what} {owner} is said to use {:?} bytes and nodes, its nodes add up to {:?}",
                    of(kept),
                    of(right)
                ));
            }
        }
    }
    Ok(())
}
