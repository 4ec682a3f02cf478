//! Cases that a volume depends on, each with its verdict. One that fails says what was seen; the others go on.

use super::body;
use bytes::Bytes;
use futures::future::join_all;
use zest_host::objects::Store;
use zest_world::{ObjectError, Objects};

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it must be.
    Pass,
    /// The store has no such thing, and a volume needs none.
    Unsupported(String),
    /// Not as it must be.
    Failed(String),
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is about.
    pub category: &'static str,
    /// What is tried.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
}

/// Names that stores have been seen to change, refuse, or lose in a listing.
const ODD: [&str; 9] = [
    "a b",
    "a+b",
    "a%2Fb",
    "a&b=c?d",
    "gr\u{fc}n \u{96ea}",
    "quote'\"<>",
    "dots.and-dashes_",
    "UPPER",
    "tilde~(1)!*$,;:@",
];

/// Tries of a put beside others of the same object.
const TRIES: u32 = 10;

type Outcome = Result<(), String>;

struct Bench<'a> {
    store: &'a Store,
    prefix: &'a str,
}

fn words(error: ObjectError) -> String {
    error.to_string()
}

fn equal(got: &Bytes, want: &[u8]) -> Outcome {
    if got == want {
        return Ok(());
    }
    let at = got.iter().zip(want).position(|(one, other)| one != other);
    let at = at.map_or_else(|| "none of those both have".into(), |at| format!("the one at {at} first"));
    Err(format!("{} bytes came, {} were expected; bytes that differ: {at}", got.len(), want.len()))
}

impl Bench<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn put(&self, name: &str, data: &[u8]) -> Outcome {
        self.store.put(&self.key(name), Bytes::copy_from_slice(data)).await.map_err(words)
    }

    /// As a mount does it: what failed for now is tried again.
    async fn put_again(&self, name: &str, data: &[u8]) -> Outcome {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.store.put(&self.key(name), Bytes::copy_from_slice(data)).await {
                Err(error) if error.is_transient() && tries < TRIES => {}
                answer => return answer.map_err(words),
            }
        }
    }

    async fn shows(&self, name: &str, want: &[u8]) -> Outcome {
        equal(&self.store.get(&self.key(name), None).await.map_err(words)?, want)
    }

    async fn missing(&self, name: &str) -> Outcome {
        match self.store.get(&self.key(name), None).await {
            Err(ObjectError::NotFound(_)) => Ok(()),
            Err(error) => Err(format!("not said to be missing, but: {error}")),
            Ok(data) => Err(format!("{} bytes came of an object that is not there", data.len())),
        }
    }

    async fn get_missing(&self) -> Outcome {
        self.missing("never-written").await?;
        match self.store.head(&self.key("never-written")).await {
            Err(ObjectError::NotFound(_)) => Ok(()),
            other => Err(format!("head of what is not there: {other:?}")),
        }
    }

    async fn ranges(&self) -> Outcome {
        let data = body(3, 10_000);
        self.put("ranges", &data).await?;
        for (from, to) in [(0, 1), (0, 10_000), (1, 9_999), (4096, 8192), (9_999, 10_000), (9_000, 20_000)] {
            let got =
                self.store.get(&self.key("ranges"), Some(from as u64..to as u64)).await.map_err(words)?;
            let want = data.get(from..to.min(data.len())).unwrap_or_default();
            equal(&got, want).map_err(|why| format!("bytes {from} to {to}: {why}"))?;
        }
        Ok(())
    }

    async fn head(&self) -> Outcome {
        self.put("head", &body(4, 777)).await?;
        let found = self.store.head(&self.key("head")).await.map_err(words)?;
        if found.size != 777 || found.key != self.key("head") {
            return Err(format!("it has {} bytes under the name {:?}", found.size, found.key));
        }
        Ok(())
    }

    async fn modified(&self) -> Outcome {
        self.put("modified", b"now").await?;
        let written = self.store.head(&self.key("modified")).await.map_err(words)?.modified;
        let now = chrono::Utc::now().timestamp();
        if (now - written).abs() <= 300 {
            return Ok(());
        }
        Err(format!("written now, {now}, and it says {written}: gc tells young objects by this"))
    }

    async fn overwrite(&self) -> Outcome {
        for (number, len) in [(5, 5000), (6, 100), (7, 20_000)] {
            self.put("overwritten", &body(number, len)).await?;
            self.shows("overwritten", &body(number, len)).await?;
        }
        Ok(())
    }

    async fn delete(&self) -> Outcome {
        self.put("deleted", b"x").await?;
        self.store.delete(&self.key("deleted")).await.map_err(words)?;
        self.missing("deleted").await
    }

    async fn list(&self) -> Outcome {
        let name = |n: u32| format!("list/{}/{n:03}", n % 10);
        let writes =
            join_all((0..100).map(|n| async move { self.put(&name(n), &body(1, n as usize)).await }));
        writes.await.into_iter().collect::<Outcome>()?;
        self.put("list-beside", b"x").await?;
        let mut want: Vec<(String, u64)> = (0..100).map(|n| (self.key(&name(n)), u64::from(n))).collect();
        want.sort();
        let mut got = Vec::new();
        loop {
            let after = got.last().map(|(key, _): &(String, u64)| key.clone()).unwrap_or_default();
            let page = self.store.list(&self.key("list/"), &after, 30).await.map_err(words)?;
            if page.is_empty() {
                break;
            }
            got.extend(page.into_iter().map(|object| (object.key, object.size)));
            if got.len() > want.len() {
                break;
            }
        }
        if got == want {
            return Ok(());
        }
        let first = got.iter().zip(&want).find(|(got, want)| got != want);
        Err(format!("{} objects came, {} are there; the first that differ: {first:?}", got.len(), want.len()))
    }

    async fn odd_names(&self) -> Outcome {
        for (number, name) in (10..).zip(ODD) {
            let (name, data) = (format!("odd/{name}"), body(number, 50));
            let told = |why: String| format!("{name:?}: {why}");
            self.put(&name, &data).await.map_err(told)?;
            self.shows(&name, &data).await.map_err(told)?;
        }
        let found = self.store.list(&self.key("odd/"), "", 100).await.map_err(words)?;
        let mut want: Vec<String> = ODD.iter().map(|name| self.key(&format!("odd/{name}"))).collect();
        want.sort();
        let got: Vec<String> = found.into_iter().map(|object| object.key).collect();
        if got != want {
            return Err(format!("listed are {got:?}, written were {want:?}"));
        }
        for key in want {
            self.store.delete(&key).await.map_err(words)?;
        }
        Ok(())
    }

    async fn sized(&self, name: &str, len: usize) -> Outcome {
        let data = body(8, len);
        self.put(name, &data).await?;
        self.shows(name, &data).await?;
        let size = self.store.head(&self.key(name)).await.map_err(words)?.size;
        if size != len as u64 {
            return Err(format!("it has {size} bytes, {len} were written"));
        }
        self.store.delete(&self.key(name)).await.map_err(words)
    }

    /// Blocks never change, but a put whose answer is late is made again beside the first.
    async fn together(&self) -> Outcome {
        let data = body(20, 100_000);
        let writes = join_all((0..8).map(|_| self.put_again("contended", &data))).await;
        writes.into_iter().collect::<Outcome>()?;
        self.shows("contended", &data).await
    }
}

/// Tries everything under this prefix, with one object of `large` bytes.
pub async fn cases(store: &Store, prefix: &str, large: usize) -> Vec<Case> {
    let bench = Bench { store, prefix };
    let mut all = Vec::new();
    let mut note = |category, name, outcome: Outcome| {
        let verdict = outcome.map_or_else(Verdict::Failed, |()| Verdict::Pass);
        all.push(Case { category, name, verdict });
    };
    let first = body(2, 1000);
    note("basic", "put an object", bench.put("first", &first).await);
    note("basic", "get an object", bench.shows("first", &first).await);
    note("basic", "get and head a missing object", bench.get_missing().await);
    note("basic", "get ranges of an object", bench.ranges().await);
    note("basic", "head an object", bench.head().await);
    note("basic", "modified just now", bench.modified().await);
    note("basic", "overwrite an object", bench.overwrite().await);
    note("basic", "delete an object", bench.delete().await);
    note("basic", "delete a missing object", store.delete(&bench.key("never-written")).await.map_err(words));
    note("basic", "list objects in order", bench.list().await);
    note("names", "special keys", bench.odd_names().await);
    note("sizes", "an empty object", bench.sized("empty", 0).await);
    note("sizes", "a large object", bench.sized("large", large).await);
    note("together", "put the same at once", bench.together().await);
    all
}
