//! The object store of a volume: one bucket, or several that share the keys between them.

use super::bucket::Bucket;
use super::shards::shard_of;
use bytes::Bytes;
use futures::future::try_join_all;
use std::ops::Range;
use std::sync::Arc;
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, ObjectError, Objects};

/// An object store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    /// The only one, or the first of several.
    first: Bucket,
    /// All of several; empty where there is one.
    shards: Arc<[Bucket]>,
}

impl Store {
    pub(super) fn one(bucket: Bucket) -> Store {
        Store { first: bucket, shards: Arc::default() }
    }

    /// A store of several buckets, in order; `None` without any.
    pub(super) fn of(buckets: Vec<Bucket>) -> Option<Store> {
        Some(Store { first: buckets.first()?.clone(), shards: buckets.into() })
    }

    /// A store in this process's memory.
    #[must_use]
    pub fn memory() -> Store {
        Store::one(Bucket::memory())
    }

    /// Size and time of an object.
    pub async fn head(&self, key: &str) -> Result<ObjectMeta, ObjectError> {
        self.holder(key).clone().head(key.to_owned()).await
    }

    fn holder(&self, key: &str) -> &Bucket {
        self.shards.get(shard_of(key, self.shards.len())).unwrap_or(&self.first)
    }
}

impl Objects for Store {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.holder(key).put(key, data)
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        self.holder(key).get(key, range)
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        self.holder(key).delete(key)
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        if self.shards.is_empty() {
            return self.first.list(prefix, after, limit);
        }
        // The first of all are among the first of each.
        let lists: Vec<_> = self.shards.iter().map(|shard| shard.list(prefix, after, limit)).collect();
        Box::pin(async move {
            let mut found: Vec<ObjectMeta> = try_join_all(lists).await?.into_iter().flatten().collect();
            found.sort_by(|one, other| one.key.cmp(&other.key));
            found.truncate(limit);
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn several_buckets_are_one_store() {
        let buckets: Vec<Bucket> = (0..3).map(|_| Bucket::memory()).collect();
        let store = Store::of(buckets.clone()).unwrap();
        let keys: Vec<String> = (0..40).map(|n| format!("vol/chunks/0/0/{}_0_1", n + 10)).collect();
        for key in &keys {
            store.put(key, Bytes::from(key.clone())).await.unwrap();
        }
        for (bucket, shard) in buckets.iter().zip(0..) {
            let here = bucket.list("", "", 100).await.unwrap();
            assert!(!here.is_empty() && here.len() < keys.len(), "each holds a part");
            assert!(here.iter().all(|object| shard_of(&object.key, 3) == shard));
        }
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().cloned().unwrap_or_default();
            let page = store.list("vol/", &after, 7).await.unwrap();
            assert!(page.len() <= 7);
            if page.is_empty() {
                break;
            }
            listed.extend(page.into_iter().map(|object| object.key));
        }
        assert_eq!(listed, keys);
        for key in &keys {
            assert_eq!(store.get(key, Some(0..3)).await.unwrap(), "vol");
            store.delete(key).await.unwrap();
        }
        assert!(store.list("", "", 9).await.unwrap().is_empty());
    }
}
