//! Who decides and commits changes, and finds records: the actor of a mount, or the rules over a volume that is not
//! mounted here. The work that both do is written once over this.

use async_trait::async_trait;
use zest_metadata::{Change, Find, Key, Look, MetaCore, Op, Outcome, Record, Scan, SyncRecords};
use zest_types::{Caller, Errno, FileType, Ino, Name, limits};
use zest_vfs::shared::Shared;

/// Records of a volume, behind its rules. Asked by the system itself.
#[async_trait(?Send)]
pub trait Records {
    /// Has a change decided and committed.
    async fn change(&self, op: Op) -> Result<Outcome, Errno>;
    /// What a scan finds.
    async fn find(&self, scan: Scan) -> Result<Vec<(Key, Record)>, Errno>;
    /// Fresh records under keys.
    async fn look(&self, keys: Vec<Key>) -> Result<Vec<Option<Record>>, Errno>;
    /// Makes durable what was committed.
    async fn sync(&self) -> Result<(), Errno>;

    /// The first entries of a directory.
    async fn entries(&self, dir: Ino) -> Result<Vec<(Name, FileType, Ino)>, Errno> {
        let scan = Scan::Dentries { dir, after: None, limit: limits::READDIR_BATCH };
        let entry = |(key, record)| match (key, record) {
            (Key::Dentry(_, name), Record::Dentry { kind, ino }) => Some((name, kind, ino)),
            _ => None,
        };
        Ok(self.find(scan).await?.into_iter().filter_map(entry).collect())
    }
}

#[async_trait(?Send)]
impl Records for Shared {
    async fn change(&self, op: Op) -> Result<Outcome, Errno> {
        let change = Change { caller: Caller::SYSTEM, op };
        self.links()?.metadata.send(change).await.map_err(|_| Errno::EIO)?
    }

    async fn find(&self, scan: Scan) -> Result<Vec<(Key, Record)>, Errno> {
        self.links()?.metadata.send(Find { scan, attrs: false }).await.map_err(|_| Errno::EIO)?
    }

    async fn look(&self, keys: Vec<Key>) -> Result<Vec<Option<Record>>, Errno> {
        let found = self.links()?.metadata.send(Look(keys)).await.map_err(|_| Errno::EIO)??;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.links()?.metadata.send(SyncRecords).await.map_err(|_| Errno::EIO)?
    }
}

#[async_trait(?Send)]
impl Records for MetaCore {
    async fn change(&self, op: Op) -> Result<Outcome, Errno> {
        MetaCore::change(self, Caller::SYSTEM, &op).await
    }

    async fn find(&self, scan: Scan) -> Result<Vec<(Key, Record)>, Errno> {
        self.scan(&scan, false).await
    }

    async fn look(&self, keys: Vec<Key>) -> Result<Vec<Option<Record>>, Errno> {
        Ok(self.read(keys).await?.into_iter().map(|(_, record)| record).collect())
    }

    async fn sync(&self) -> Result<(), Errno> {
        MetaCore::sync(self).await
    }
}
