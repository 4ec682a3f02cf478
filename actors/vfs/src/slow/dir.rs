//! Directories: opening them and fetching batches of entries.

use super::Task;
use crate::dirs::{Position, StreamEntry};
use zest_metadata::{Key, Record, Scan};
use zest_types::limits::READDIR_BATCH;
use zest_types::{Errno, Handle, Ino, Request, ServeResult};

impl Task {
    pub(super) async fn open_dir(&self, ino: Ino) -> ServeResult {
        let attr = self.attr(ino).await?;
        if !attr.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        self.need(&attr, 4).await?;
        Ok(self.shared.add_dir(ino))
    }

    pub(super) async fn read_dir(&self, handle: Handle, offset: u64, max: u32, plus: bool) -> ServeResult {
        let stream = self.shared.handles.dir(handle).ok_or(Errno::EBADF)?;
        // The kernel may have read the beginning through another handle, or have it in its cache: then the batches
        // before the position come first.
        for _ in 0..=offset / READDIR_BATCH as u64 + 1 {
            let (dir, position) = {
                let stream = stream.lock();
                (stream.ino, stream.position((offset + 1).max(3)))
            };
            let Position::Fetch(after) = position else { break };
            let scan = Scan::Dentries { dir, after: after.clone(), limit: READDIR_BATCH };
            let found = self.find(scan, plus).await?;
            let entries = found.into_iter().filter_map(|(key, record)| match (key, record) {
                (Key::Dentry(_, name), Record::Dentry { kind, ino }) => Some(StreamEntry { name, kind, ino }),
                _ => None,
            });
            stream.lock().take(after.as_ref(), entries.collect());
        }
        // The batch is here now, or the end is known.
        let ino = stream.lock().ino;
        let request = Request::ReadDir { ino, handle, offset, max_entries: max, plus };
        self.shared.now(&self.caller, &request).unwrap_or(Err(Errno::EIO))
    }
}
