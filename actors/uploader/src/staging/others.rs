//! Staged blocks that the volume format's first client left: one file for each, called as its object, with plain
//! bytes, perhaps checksums and perhaps a footer behind them. Source: volume format, staging files and cache files.

use super::LoadError;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use zest_data::BlockNames;
use zest_data::block::{BlockName, parse_block_key};
use zest_data::checksum::crc32c;
use zest_types::limits::STAGED_BLOCKS;
use zest_world::Disk;

/// Bytes that one checksum covers.
const PIECE: u64 = 32 << 10;

/// A file that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub name: BlockName,
    /// Folders, and the file.
    pub path: Vec<String>,
}

/// Files below this directory that are blocks of the volume. What does not look like one is told, and left alone.
pub(super) fn find(disk: &dyn Disk, names: &BlockNames, troubles: &mut Vec<String>) -> Vec<Left> {
    let mut left = Vec::new();
    if let Err(error) = walk(disk, &mut Vec::new(), names, troubles, &mut left) {
        troubles.push(format!("what another client staged can't be listed: {error}"));
    }
    left
}

fn walk(
    disk: &dyn Disk,
    at: &mut Vec<String>,
    names: &BlockNames,
    troubles: &mut Vec<String>,
    left: &mut Vec<Left>,
) -> io::Result<()> {
    if at.len() > 3 {
        return Ok(());
    }
    for file in disk.list()? {
        let path: Vec<String> = at.iter().cloned().chain([file]).collect();
        let shown = path.join("/");
        if shown.ends_with(".tmp") {
            continue;
        }
        match parse_block_key(&names.volume, names.hash_prefix, &format!("{}/{shown}", names.volume)) {
            Some(name) if left.len() < STAGED_BLOCKS as usize => left.push(Left { name, path }),
            Some(_) => {}
            None => troubles.push(format!("rawstaging/{shown} is no block of this volume: it is left alone")),
        }
    }
    for folder in disk.folders()? {
        at.push(folder.clone());
        walk(&*disk.folder(&folder)?, at, names, troubles, left)?;
        at.pop();
    }
    Ok(())
}

fn folder_of(disk: &dyn Disk, path: &[String]) -> io::Result<Option<Arc<dyn Disk>>> {
    let mut at: Option<Arc<dyn Disk>> = None;
    for folder in path.split_last().map_or(&[][..], |(_, folders)| folders) {
        at = Some(match &at {
            Some(disk) => disk.folder(folder)?,
            None => disk.folder(folder)?,
        });
    }
    Ok(at)
}

/// The plain bytes of a block of `len` bytes.
pub(super) fn read(disk: &dyn Disk, path: &[String], len: u32) -> Result<Bytes, LoadError> {
    let bytes = || -> io::Result<Option<(Vec<u8>, u64)>> {
        let Some((folder, file)) = folder_of(disk, path)?.zip(path.last()) else { return Ok(None) };
        let file = folder.open(file, false)?;
        let size = file.len()?;
        let behind = size.saturating_sub(u64::from(len)).min(trailer(len) + 4096);
        let mut bytes = vec![0; usize::try_from((u64::from(len) + behind).min(size)).unwrap_or(0)];
        file.read_at(0, &mut bytes)?;
        Ok(Some((bytes, size)))
    };
    let (mut bytes, size) = bytes().map_err(LoadError::Disk)?.ok_or(LoadError::Lost)?;
    let Some(extra) = size.checked_sub(u64::from(len)) else {
        return Err(LoadError::Other(format!("its file has {size} bytes instead of {len}")));
    };
    // Another layout than these three says that the file was cut.
    if extra > 0 && extra % 4 == 0 {
        if extra < trailer(len) {
            return Err(LoadError::Other("its file was cut".into()));
        }
        let sums = bytes.split_off(len as usize);
        let right = bytes
            .chunks(PIECE as usize)
            .zip(sums.chunks_exact(4))
            .all(|(piece, sum)| crc32c(piece).to_be_bytes() == sum);
        if !right {
            return Err(LoadError::Other("its bytes are damaged".into()));
        }
    }
    bytes.truncate(len as usize);
    Ok(bytes.into())
}

/// Bytes of the checksums behind a block.
fn trailer(len: u32) -> u64 {
    u64::from(len).div_ceil(PIECE) * 4
}

/// Removes a file that is in the store.
pub(super) fn remove(disk: &dyn Disk, path: &[String]) {
    if let Ok(Some(folder)) = folder_of(disk, path)
        && let Some(file) = path.last()
    {
        // What can't be removed is uploaded once more by whoever comes next.
        let _ = folder.remove(file);
    }
}
