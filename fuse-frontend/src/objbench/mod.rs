//! What an object store can do, and how fast: cases that a volume depends on, and rates. Works under a prefix of its own
//! in a bucket, and leaves nothing behind.

mod cases;
mod rates;

pub use cases::{Case, Verdict, cases};
pub use rates::{Rate, Wish, rates};

use zest_host::objects::Store;
use zest_world::{ObjectError, Objects};

/// Objects of a listing asked for at once.
const PAGE: usize = 1000;

/// Removes everything under a prefix; answers how many objects there were.
pub async fn clear(store: &Store, prefix: &str) -> Result<usize, ObjectError> {
    let mut gone = 0;
    loop {
        let found = store.list(prefix, "", PAGE).await?;
        if found.is_empty() {
            return Ok(gone);
        }
        for object in &found {
            store.delete(&object.key).await?;
        }
        gone += found.len();
    }
}

/// Bytes that look like chance and differ from number to number, but not from time to time.
fn body(number: u64, len: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use zest_host::objects::open_directory;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn a_store_that_works_passes_and_is_left_as_it_was() {
        let temp = tempfile::tempdir().unwrap();
        for store in [Store::memory(), open_directory(temp.path()).unwrap()] {
            run(store.put("mine", Bytes::from_static(b"x"))).unwrap();
            let found = run(cases(&store, "bench-1/", 1 << 20));
            let bad: Vec<&Case> = found.iter().filter(|case| case.verdict != Verdict::Pass).collect();
            assert!(bad.is_empty() && found.len() >= 12, "{bad:?}");
            let wish = Wish { block: 64 << 10, large: 1 << 20, small: 1000, count: 10, threads: 3 };
            for rate in run(rates(&store, "bench-1/", wish)) {
                assert!(rate.failed.is_none() && rate.per_second > 0.0, "{rate:?}");
            }
            run(clear(&store, "bench-1/")).unwrap();
            let left = run(store.list("", "", 9)).unwrap();
            assert_eq!(left.iter().map(|object| object.key.as_str()).collect::<Vec<_>>(), ["mine"]);
        }
    }

    #[test]
    fn what_can_not_be_written_fails() {
        let temp = tempfile::tempdir().unwrap();
        let store = open_directory(temp.path()).unwrap();
        // A file stands where the directory of all objects would be.
        std::fs::write(temp.path().join("bench-1"), b"x").unwrap();
        let found = run(cases(&store, "bench-1/", 1000));
        assert!(found.iter().any(|case| matches!(case.verdict, Verdict::Failed(_))));
        let wish = Wish { block: 1000, large: 2000, small: 10, count: 2, threads: 1 };
        assert!(run(rates(&store, "bench-1/", wish)).iter().any(|rate| rate.failed.is_some()));
    }
}
