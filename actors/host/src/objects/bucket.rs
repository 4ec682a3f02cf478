//! One bucket: any `object_store` as our `Objects`. One try a call, a checksum with every object where the store keeps
//! user metadata, listings in order.

use super::complaints::Complaints;
use super::errors::translate;
use bytes::Bytes;
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutOptions,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, ObjectError, Objects};

/// What differs from store to store.
#[derive(Clone, Copy)]
pub(super) struct Traits {
    /// Objects carry the CRC-32C of their bytes as user metadata `crc32c`, in decimal.
    pub(super) checksums: bool,
    /// Listings come sorted by key.
    pub(super) sorted: bool,
}

/// One bucket of an object store. Cheap to clone.
#[derive(Clone)]
pub(super) struct Bucket {
    inner: Arc<dyn ObjectStore>,
    traits: Traits,
    complaints: Arc<Complaints>,
}

fn checksum_name() -> Attribute {
    Attribute::Metadata("crc32c".into())
}

fn path(key: &str) -> Result<Path, ObjectError> {
    // `parse` and not `from`: a key must be stored as it is, never escaped.
    Path::parse(key).map_err(|e| ObjectError::Refused { key: key.into(), why: e.to_string() })
}

fn verify(key: &str, data: &Bytes, attributes: &Attributes) -> Result<(), ObjectError> {
    let Some(stored) = attributes.get(&checksum_name()) else { return Ok(()) };
    match stored.as_ref().parse::<u32>() {
        Ok(stored) if stored != crc32c::crc32c(data) => Err(ObjectError::Transient {
            key: key.into(),
            why: "its bytes do not match their checksum".into(),
        }),
        Ok(_) => Ok(()),
        Err(_) => {
            tracing::warn!("object {key}: checksum {stored:?} is no number and was not used");
            Ok(())
        }
    }
}

impl Bucket {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, traits: Traits) -> Bucket {
        Bucket { inner, traits, complaints: Arc::default() }
    }

    /// A bucket in this process's memory.
    pub(super) fn memory() -> Bucket {
        Bucket::new(Arc::new(InMemory::new()), Traits { checksums: false, sorted: true })
    }

    fn attributes(&self, data: &Bytes) -> Attributes {
        if !self.traits.checksums {
            return Attributes::new();
        }
        let sum: AttributeValue = crc32c::crc32c(data).to_string().into();
        Attributes::from_iter([
            (checksum_name(), sum),
            (Attribute::ContentType, "application/octet-stream".into()),
        ])
    }

    async fn put_object(self, key: String, data: Bytes) -> Result<(), ObjectError> {
        let path = path(&key)?;
        let options = PutOptions { attributes: self.attributes(&data), ..PutOptions::default() };
        self.inner.put_opts(&path, data.into(), options).await.map_err(|e| translate(&key, &e))?;
        Ok(())
    }

    async fn get_object(self, key: String, range: Option<Range<u64>>) -> Result<Bytes, ObjectError> {
        let path = path(&key)?;
        let whole = range.is_none();
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        // The library refuses an answer to a ranged request that is not the range asked for.
        let found = self.inner.get_opts(&path, options).await.map_err(|e| translate(&key, &e))?;
        let attributes = found.attributes.clone();
        let expected = found.range.end.saturating_sub(found.range.start);
        let data = found.bytes().await.map_err(|e| translate(&key, &e))?;
        if data.len() as u64 != expected {
            let why = format!("{} bytes came where {expected} were announced", data.len());
            return Err(ObjectError::Transient { key, why });
        }
        if whole {
            verify(&key, &data, &attributes)?;
        }
        Ok(data)
    }

    async fn delete_object(self, key: String) -> Result<(), ObjectError> {
        match self.inner.delete(&path(&key)?).await.map_err(|e| translate(&key, &e)) {
            Ok(()) | Err(ObjectError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Size and time of an object.
    pub(super) async fn head(self, key: String) -> Result<ObjectMeta, ObjectError> {
        let found = self.inner.head(&path(&key)?).await.map_err(|e| translate(&key, &e))?;
        let modified = found.last_modified.timestamp();
        Ok(ObjectMeta { key: found.location.to_string(), size: found.size, modified })
    }

    async fn list_objects(
        self,
        prefix: String,
        after: String,
        limit: usize,
    ) -> Result<Vec<ObjectMeta>, ObjectError> {
        // The library knows prefixes that end at a `/` only; what stands behind it is compared here.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = if folder.is_empty() { None } else { Some(path(folder)?) };
        let mut stream = match (&folder, after.is_empty()) {
            (folder, false) if self.traits.sorted => {
                self.inner.list_with_offset(folder.as_ref(), &path(&after)?)
            }
            (folder, _) => self.inner.list(folder.as_ref()),
        };
        // The smallest `limit` keys, whatever order they come in.
        let mut found: BTreeMap<String, ObjectMeta> = BTreeMap::new();
        while let Some(entry) = stream.next().await {
            let entry = match entry.map_err(|e| translate(&prefix, &e)) {
                Ok(entry) => entry,
                // A name that went away while it was listed, or a prefix nobody wrote under yet.
                Err(ObjectError::NotFound(_)) => continue,
                Err(error) => return Err(error),
            };
            let key = entry.location.to_string();
            if key.starts_with(&prefix) && key > after {
                let modified = entry.last_modified.timestamp();
                found.insert(key.clone(), ObjectMeta { key, size: entry.size, modified });
            }
            if found.len() > limit {
                found.pop_last();
                if self.traits.sorted {
                    break;
                }
            }
        }
        Ok(found.into_values().collect())
    }
}

/// Runs a request and notes what goes wrong.
fn noted<T: 'static>(
    store: &Bucket,
    request: impl Future<Output = Result<T, ObjectError>> + Send + 'static,
) -> BoxFuture<'static, Result<T, ObjectError>> {
    let complaints = Arc::clone(&store.complaints);
    Box::pin(async move { request.await.inspect_err(|error| complaints.note(error)) })
}

impl Objects for Bucket {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        noted(self, self.clone().put_object(key.into(), data))
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        noted(self, self.clone().get_object(key.into(), range))
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        noted(self, self.clone().delete_object(key.into()))
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        noted(self, self.clone().list_objects(prefix.into(), after.into(), limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::open_bucket;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    async fn behaves(store: Bucket) {
        let key = "vol/chunks/0/0/1_0_5";
        assert_eq!(store.get(key, None).await, Err(ObjectError::NotFound(key.into())));
        store.delete(key).await.unwrap();
        store.put(key, Bytes::from_static(b"first")).await.unwrap();
        store.put(key, Bytes::from_static(b"hello")).await.unwrap();
        assert_eq!(store.get(key, None).await.unwrap(), "hello");
        assert_eq!(store.get(key, Some(1..3)).await.unwrap(), "el");
        assert_eq!(store.get(key, Some(3..100)).await.unwrap(), "lo");
        for other in ["vol/chunks/0/0/10_0_5", "vol/chunks/0/1/1000_0_5", "vol/juicefs_uuid", "other/x"] {
            store.put(other, Bytes::from_static(b"x")).await.unwrap();
        }
        let keys = |found: Vec<ObjectMeta>| found.into_iter().map(|m| m.key).collect::<Vec<_>>();
        let all = keys(store.list("vol/chunks/", "", 10).await.unwrap());
        assert_eq!(all, ["vol/chunks/0/0/10_0_5", key, "vol/chunks/0/1/1000_0_5"]);
        assert_eq!(keys(store.list("vol/", &all[0], 1).await.unwrap()), [key]);
        assert_eq!(keys(store.list("vol/chunks/0/0/10", "", 9).await.unwrap()), [all[0].as_str()]);
        let written = store.list(key, "", 1).await.unwrap()[0].modified;
        let now = zest_world::Clock::now(&crate::RealClock::new()).sec;
        assert!((now - 60..=now + 60).contains(&written), "{written} is not now, {now}");
        assert_eq!(keys(store.list("nobody/", "", 9).await.unwrap()), Vec::<String>::new());
        store.delete(key).await.unwrap();
        assert_eq!(store.get(key, None).await, Err(ObjectError::NotFound(key.into())));
    }

    #[test]
    fn a_directory_is_a_store_of_plain_files() {
        let temp = tempfile::tempdir().unwrap();
        run(behaves(open_bucket(temp.path()).unwrap()));
        assert_eq!(std::fs::read(temp.path().join("vol/chunks/0/0/10_0_5")).unwrap(), b"x");
        let left: Vec<_> = std::fs::read_dir(temp.path().join("vol/chunks/0/0")).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing but objects stays behind: {left:?}");
    }

    #[test]
    fn memory_is_a_store() {
        run(behaves(Bucket::memory()));
    }

    #[test]
    fn wrong_bytes_are_noticed_where_a_checksum_stands_with_them() {
        let store = Bucket::new(Arc::new(InMemory::new()), Traits { checksums: true, sorted: true });
        run(async {
            store.put("k", Bytes::from_static(b"123456789")).await.unwrap();
            let options = GetOptions::default();
            let stored = store.inner.get_opts(&Path::from("k"), options).await.unwrap();
            assert_eq!(stored.attributes.get(&checksum_name()).unwrap().as_ref(), "3808858755");
            assert_eq!(store.get("k", None).await.unwrap(), "123456789");
            let lie = PutOptions {
                attributes: Attributes::from_iter([(checksum_name(), AttributeValue::from("1"))]),
                ..PutOptions::default()
            };
            store.inner.put_opts(&Path::from("k"), "123456789".into(), lie).await.unwrap();
            assert!(store.get("k", None).await.unwrap_err().is_transient());
            assert_eq!(store.get("k", Some(0..9)).await.unwrap(), "123456789");
        });
    }

    #[test]
    fn keys_that_would_be_stored_otherwise_are_refused() {
        let store = Bucket::new(Arc::new(InMemory::new()), Traits { checksums: false, sorted: true });
        for bad in ["a//b", "../x", "a#1%"] {
            let answer = run(store.put(bad, Bytes::new()));
            let same = run(store.list("", "", 9)).unwrap();
            assert!(answer.is_err() || same.iter().any(|m| m.key == bad), "{bad}: {answer:?} {same:?}");
        }
    }
}
