//! The volume's objects as this mount sees them: those that wait here stand in front of the store. Removing one that
//! waits means that it never reaches the store.

use super::Staging;
use super::actor::Forget;
use super::index::Doom;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use zest_data::BlockId;
use zest_data::block::parse_block_key;
use zest_world::objects::{Manners, ObjectMeta};
use zest_world::{BoxFuture, ObjectError, Objects};

/// See the head of the file.
pub struct StagedObjects {
    staging: Arc<Staging>,
}

impl StagedObjects {
    pub(super) fn new(staging: Arc<Staging>) -> StagedObjects {
        StagedObjects { staging }
    }

    fn block(&self, key: &str) -> Option<BlockId> {
        let names = &self.staging.options.names;
        parse_block_key(&names.volume, names.hash_prefix, key).map(|name| name.block)
    }

    fn store(&self) -> &Arc<dyn Objects> {
        &self.staging.world.objects
    }
}

impl Objects for StagedObjects {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.store().put(key, data)
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        let Some(block) = self.block(key).filter(|block| self.staging.index.lock().get(block).is_some())
        else {
            return self.store().get(key, range);
        };
        let (staging, key) = (Arc::clone(&self.staging), key.to_owned());
        Box::pin(async move {
            match Arc::clone(&staging).object(block).await {
                Some(Ok(object)) => Ok(cut(&object, range)),
                // It went to the store meanwhile, or only the store can have it.
                _ => staging.world.objects.get(&key, range).await,
            }
        })
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        let Some(block) = self.block(key) else { return self.store().delete(key) };
        let (staging, key) = (Arc::clone(&self.staging), key.to_owned());
        Box::pin(async move {
            loop {
                let changed = staging.changed.notified();
                let doom = staging.index.lock().doom(&block);
                match doom {
                    Doom::NotHere => break,
                    Doom::Taken(entry) => {
                        if let Some(actor) = staging.actor.get() {
                            actor.do_send(Forget { block, entry });
                        }
                        break;
                    }
                    Doom::Going => changed.await,
                }
            }
            staging.world.objects.delete(&key).await
        })
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        self.store().list(prefix, after, limit)
    }

    fn manners(&self) -> Manners {
        self.store().manners()
    }
}

fn cut(object: &Bytes, range: Option<Range<u64>>) -> Bytes {
    let Some(range) = range else { return object.clone() };
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(object.len());
    let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
    object.slice(start..end)
}
