//! Whether an object store does what a volume needs, tried before anything depends on it: write, read and remove
//! an object under `{volume}/testing/`. Also who else lives under a volume's name. Source: volume format, objects
//! that are not blocks.

use bytes::Bytes;
use std::sync::Arc;
use zest_world::{Chance, ObjectError, Objects};

/// Tries before a store counts as unusable.
const TRIES: usize = 3;
/// Bytes of a test object.
const SIZE: usize = 100;

/// Why a store can't hold a volume.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProbeError {
    /// It said so.
    #[error("the object store can't be {verb}: {error}; check its address, keys and rights")]
    Failed {
        /// What was tried: written, read, …
        verb: &'static str,
        /// What it said.
        error: ObjectError,
    },
    /// It gave back other bytes than it got.
    #[error("the object store gives back other bytes than it was given (object {0}): don't use it")]
    Differs(String),
    /// Somebody's objects are there.
    #[error(
        "the object store has data under {prefix:?} already (object {key}): choose another name or bucket, or remove what is there"
    )]
    Occupied {
        /// Where the volume would live.
        prefix: String,
        /// One object found.
        key: String,
    },
}

fn failed(verb: &'static str) -> impl Fn(ObjectError) -> ProbeError {
    move |error| ProbeError::Failed { verb, error }
}

fn name(chance: &dyn Chance) -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letter = || LETTERS.get((chance.next_u64() % 36) as usize).copied().unwrap_or(b'x');
    (0..10).map(|_| char::from(letter())).collect()
}

async fn once(objects: &dyn Objects, key: &str, data: &Bytes) -> Result<(), ProbeError> {
    objects.put(key, data.clone()).await.map_err(failed("written"))?;
    let back = objects.get(key, None).await.map_err(failed("read"))?;
    let part = objects.get(key, Some(10..20)).await.map_err(failed("read in part"))?;
    if back != data || data.get(10..20) != Some(&*part) {
        return Err(ProbeError::Differs(key.into()));
    }
    objects.delete(key).await.map_err(failed("cleared of an object"))
}

/// Writes, reads and removes a test object of a volume.
pub async fn works(objects: Arc<dyn Objects>, chance: &dyn Chance, volume: &str) -> Result<(), ProbeError> {
    let key = format!("{volume}/testing/{}", name(chance));
    let data: Bytes = (0..SIZE).map(|_| chance.next_u64().to_le_bytes()[0]).collect();
    let mut tries = 1;
    loop {
        match once(&*objects, &key, &data).await {
            Err(ProbeError::Failed { error, .. }) if error.is_transient() && tries < TRIES => tries += 1,
            outcome => return outcome,
        }
    }
}

/// Fails if there is any object with bytes under the volume's name, other than tests.
pub async fn is_free(objects: Arc<dyn Objects>, volume: &str) -> Result<(), ProbeError> {
    let prefix = format!("{volume}/");
    let tests = format!("{volume}/testing/");
    let mut after = String::new();
    loop {
        let found = objects.list(&prefix, &after, 100).await.map_err(failed("listed"))?;
        let Some(last) = found.last() else { return Ok(()) };
        after.clone_from(&last.key);
        if let Some(other) = found.into_iter().find(|o| o.size > 0 && !o.key.starts_with(&tests)) {
            return Err(ProbeError::Occupied { prefix, key: other.key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealChance;
    use crate::objects::open_directory;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn a_good_store_works_and_is_left_clean() {
        let temp = tempfile::tempdir().unwrap();
        let store = Arc::new(open_directory(temp.path()).unwrap());
        run(works(store.clone(), &RealChance::new(), "vol")).unwrap();
        run(is_free(store.clone(), "vol")).unwrap();
        run(store.put("vol/testing/left", Bytes::from_static(b"x"))).unwrap();
        run(is_free(store.clone(), "vol")).unwrap();
        run(store.put("vol/juicefs_uuid", Bytes::from_static(b"x"))).unwrap();
        let error = run(is_free(store.clone(), "vol")).unwrap_err();
        assert!(error.to_string().contains("vol/juicefs_uuid"), "{error}");
        run(is_free(store, "vo")).unwrap();
    }
}
