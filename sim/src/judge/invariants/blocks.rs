//! Every slice in a chunk list has all its blocks in the object store, each of the right length: a slice is
//! committed after its blocks are durable, and its blocks go after the slice.

use super::Volume;

/// Checks chunk lists against the store.
pub fn check(volume: &Volume) -> Result<(), String> {
    for ((ino, index), list) in &volume.chunks {
        if volume.deleted.contains(ino) {
            continue;
        }
        for record in list {
            if !record.is_sound() {
                return Err(format!("chunk {index} of inode {ino} has the impossible record {record:?}"));
            }
            if record.id.is_zeros() {
                continue;
            }
            let (id, size) = (record.id.0, u64::from(record.size));
            for block in 0..size.div_ceil(volume.block_size) {
                let bytes = (size - block * volume.block_size).min(volume.block_size);
                let key =
                    format!("{}/chunks/{}/{}/{id}_{block}_{bytes}", volume.name, id / 1_000_000, id / 1000);
                if volume.objects.get(&key) != Some(&bytes) {
                    return Err(format!(
                        "chunk {index} of inode {ino} shows slice {id} of {size} bytes; its object {key} is {:?} bytes long",
                        volume.objects.get(&key)
                    ));
                }
            }
        }
    }
    Ok(())
}
