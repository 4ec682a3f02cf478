//! Nothing is kept that nobody can reach: once the work nobody asked for has caught up, every object belongs to a
//! slice of a file, no deleted file waits, and nobody holds a removed one. A crash may leave objects behind; this
//! is for volumes that never had one.

use super::Volume;
use std::collections::BTreeSet;

/// Checks that everything kept can be reached.
pub fn check(volume: &Volume) -> Result<(), String> {
    if let Some(ino) = volume.deleted.first() {
        return Err(format!("the content of deleted inode {ino} still waits for removal"));
    }
    if let Some(ino) = volume.sustained.first() {
        return Err(format!("removed inode {ino} is still held, and nobody has it open"));
    }
    let named = volume.chunks.values().flatten().map(|record| record.id);
    let named = named.chain(volume.delayed.iter().map(|(id, _)| *id));
    let shown: BTreeSet<String> = named.map(|id| id.to_string()).collect();
    for key in volume.objects.keys() {
        let block = key.rsplit('/').next().unwrap_or_default();
        let slice = block.split('_').next().unwrap_or_default();
        if !shown.contains(slice) {
            return Err(format!("object {key} belongs to no slice of any file"));
        }
    }
    let references = volume.references.iter().find(|((id, _), _)| !shown.contains(&id.to_string()));
    references
        .map_or(Ok(()), |((id, _), count)| Err(format!("slice {id} shows nowhere and has the count {count}")))
}
