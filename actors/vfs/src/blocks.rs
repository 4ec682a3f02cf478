//! Blocks by themselves, for the work behind the files: fetched through the cache, stored past the files' lines.

use crate::shared::Shared;
use bytes::Bytes;
use zest_cache::{Fetch, FetchError};
use zest_data::BlockId;
use zest_types::Errno;
use zest_uploader::Store;

impl Shared {
    /// A whole block of `len` bytes; `None` where there is no such object.
    pub async fn fetch_block(&self, block: BlockId, len: u32) -> Result<Option<Bytes>, Errno> {
        let fetch = Fetch { block, len, key: self.names.key(block, len) };
        match self.links()?.cache.send(fetch).await.map_err(|_| Errno::EIO)? {
            Ok(data) => Ok(Some(data)),
            Err(FetchError::NotFound(_)) => Ok(None),
            Err(_) => Err(Errno::EIO),
        }
    }

    /// Stores a block; it is durable when this returns.
    pub async fn store_block(&self, block: BlockId, data: Bytes) -> Result<(), Errno> {
        self.links()?.uploader.send(Store { block, data }).await.map_err(|_| Errno::EIO)?
    }
}
