//! The index of a cache directory on its disk: a log that grows with each change and is written anew, without what is
//! past, when most of it is. Nothing here is synced before it counts: a crash may lose its end, and what it then says
//! wrongly of a file its checksums find out.

use super::record::{self, Record};
use std::io;
use std::sync::Arc;
use zest_types::limits::CACHE_PART;
use zest_world::{Disk, DiskFile};

const NAME: &str = "index";
const NEXT: &str = "index.new";
/// A log of fewer bytes is never written anew.
const SMALL: u64 = 1 << 20;
/// A longer one is not believed, and not read: so many files no cache has.
const INDEX_MAX: u64 = 4 << 30;

/// The log, open at its end.
pub(super) struct Index {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    block_size: u32,
    end: u64,
    /// Bytes it had when it was written anew.
    compact: u64,
}

impl Index {
    /// Reads the index of this directory. What is damaged or of another layout counts as empty.
    pub(super) fn open(disk: &Arc<dyn Disk>, block_size: u32) -> io::Result<(Index, Vec<Record>)> {
        let file = disk.open(NAME, true)?;
        let len = file.len()?;
        let mut bytes = vec![0; if len > INDEX_MAX { 0 } else { len as usize }];
        file.read_at(0, &mut bytes)?;
        let read = record::read(&bytes, block_size, CACHE_PART);
        let mut index = Index { disk: Arc::clone(disk), file, block_size, end: 0, compact: 0 };
        let Some((records, used)) = read else {
            index.write_anew(&[])?;
            return Ok((index, Vec::new()));
        };
        // What a crash tore off is in the way of what comes.
        index.file.set_len(used as u64)?;
        (index.end, index.compact) = (used as u64, used as u64);
        Ok((index, records))
    }

    /// Adds records at the end.
    pub(super) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record::append(record, &mut bytes));
        if !bytes.is_empty() {
            self.file.write_at(self.end, &bytes)?;
            self.end += bytes.len() as u64;
        }
        Ok(())
    }

    /// Whether most of it is past.
    pub(super) fn is_long(&self) -> bool {
        self.end > SMALL && self.end > 2 * self.compact
    }

    /// Writes these records and nothing else, in one step.
    pub(super) fn write_anew(&mut self, records: &[Record]) -> io::Result<()> {
        let mut bytes = record::begin(self.block_size, CACHE_PART);
        records.iter().for_each(|record| record::append(record, &mut bytes));
        let file = self.disk.open(NEXT, true)?;
        file.set_len(0)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        self.disk.rename(NEXT, NAME)?;
        self.file = file;
        (self.end, self.compact) = (bytes.len() as u64, bytes.len() as u64);
        Ok(())
    }
}
