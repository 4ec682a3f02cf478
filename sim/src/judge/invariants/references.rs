//! A slice has one size wherever it shows, and as many references as chunk lists, and lists of what was replaced, have
//! records of it.

use super::Volume;
use std::collections::BTreeMap;
use zest_types::SliceId;

/// Checks reference counts against chunk lists.
pub fn check(volume: &Volume) -> Result<(), String> {
    let mut shown: BTreeMap<(SliceId, u32), i64> = BTreeMap::new();
    for record in volume.chunks.values().flatten().filter(|record| !record.id.is_zeros()) {
        *shown.entry((record.id, record.size)).or_insert(0) += 1;
    }
    // Whatever was replaced keeps its reference until it is let go.
    for slice in &volume.delayed {
        *shown.entry(*slice).or_insert(0) += 1;
    }
    let mut sizes: BTreeMap<SliceId, u32> = BTreeMap::new();
    for (id, size) in shown.keys() {
        if let Some(other) = sizes.insert(*id, *size) {
            return Err(format!("slice {id} shows with {size} and with {other} bytes"));
        }
    }
    for ((id, size), count) in &shown {
        let kept = volume.references.get(&(*id, *size)).copied().unwrap_or(0) + 1;
        if kept != *count {
            return Err(format!("slice {id} shows {count} times and has {kept} references"));
        }
    }
    Ok(())
}
