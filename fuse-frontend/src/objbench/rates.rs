//! Rates: so many requests at once, one thread that makes them, each answer checked.

use super::body;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zest_host::objects::Store;
use zest_world::{ObjectError, Objects};

/// How much to move.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Bytes of an object of the large part.
    pub block: usize,
    /// Bytes of the large part in all.
    pub large: u64,
    /// Bytes of a small object.
    pub small: usize,
    /// How many small objects.
    pub count: u64,
    /// Requests at once.
    pub threads: usize,
}

/// What one kind of request reached.
#[derive(Clone, Debug)]
pub struct Rate {
    /// The request.
    pub name: &'static str,
    /// MiB, or requests, a second.
    pub per_second: f64,
    /// Which of them.
    pub unit: &'static str,
    /// Mean time of a request.
    pub mean: Duration,
    /// The time that 99 of 100 requests stay below.
    pub late: Duration,
    /// The first failure, if there was one.
    pub failed: Option<String>,
}

/// Makes requests number 0 to `count`, some at once. `bytes`: what each moves, where that is what counts.
async fn measure<F>(
    name: &'static str,
    (count, bytes): (u64, Option<usize>),
    threads: usize,
    request: impl Fn(u64) -> F,
) -> Rate
where
    F: Future<Output = Result<(), String>>,
{
    let begun = Instant::now();
    let timed = |n| {
        let answer = request(n);
        async move {
            let begun = Instant::now();
            (answer.await, begun.elapsed())
        }
    };
    let done: Vec<(Result<(), String>, Duration)> =
        stream::iter(0..count).map(timed).buffer_unordered(threads.max(1)).collect().await;
    let seconds = begun.elapsed().as_secs_f64().max(1e-9);
    let mut times: Vec<Duration> = done.iter().map(|(_, took)| *took).collect();
    times.sort_unstable();
    let mean = times.iter().sum::<Duration>() / u32::try_from(times.len().max(1)).unwrap_or(u32::MAX);
    let late = times.get(times.len() * 99 / 100).or(times.last()).copied().unwrap_or_default();
    let failed = done.into_iter().find_map(|(answer, _)| answer.err());
    let amount = bytes.map_or(count as f64, |bytes| count as f64 * bytes as f64 / f64::from(1 << 20));
    let unit = if bytes.is_some() { "MiB/s" } else { "objects/s" };
    Rate { name, per_second: amount / seconds, unit, mean, late, failed }
}

/// Bodies of objects: all alike but for their number in front, so that making them costs nothing.
struct Bodies(Vec<u8>);

impl Bodies {
    fn new(len: usize) -> Bodies {
        Bodies(body(1, len))
    }

    fn of(&self, number: u64) -> Bytes {
        let mut data = self.0.clone();
        data.iter_mut().zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        data.into()
    }

    fn check(&self, number: u64, got: &Bytes) -> Result<(), String> {
        let head = number.to_le_bytes();
        let cut = self.0.len().min(head.len());
        let right = got.len() == self.0.len() && got[..cut] == head[..cut] && got[cut..] == self.0[cut..];
        if right { Ok(()) } else { Err(format!("object {number} came back with other bytes")) }
    }
}

fn words(error: ObjectError) -> String {
    error.to_string()
}

/// Measures everything under this prefix.
pub async fn rates(store: &Store, prefix: &str, wish: Wish) -> Vec<Rate> {
    let mut all = Vec::new();
    let blocks = wish.large.div_ceil(wish.block.max(1) as u64).max(1);
    let parts = [
        ("upload", "download", "large", wish.block, blocks, true),
        ("put small objects", "get small objects", "small", wish.small, wish.count.max(1), false),
    ];
    for (up, down, folder, len, count, by_bytes) in parts {
        let bodies = Arc::new(Bodies::new(len));
        let key = |n: u64| format!("{prefix}rates/{folder}/{n:08}");
        let moved = (count, by_bytes.then_some(len));
        let put = |n| {
            let (request, bodies) = (key(n), Arc::clone(&bodies));
            async move { store.put(&request, bodies.of(n)).await.map_err(words) }
        };
        all.push(measure(up, moved, wish.threads, put).await);
        let get = |n| {
            let (request, bodies) = (key(n), Arc::clone(&bodies));
            async move { bodies.check(n, &store.get(&request, None).await.map_err(words)?) }
        };
        all.push(measure(down, moved, wish.threads, get).await);
    }
    all.extend(rest(store, prefix, wish).await);
    all
}

/// Requests about small objects that move no content.
async fn rest(store: &Store, prefix: &str, wish: Wish) -> Vec<Rate> {
    let count = wish.count.max(1);
    let key = |n: u64| format!("{prefix}rates/small/{n:08}");
    let part = |n| {
        let request = key(n);
        async move { store.get(&request, Some(0..1)).await.map(|_| ()).map_err(words) }
    };
    let parts = measure("get one byte", (count, None), wish.threads, part).await;
    let head = |n| {
        let request = key(n);
        async move { store.head(&request).await.map(|_| ()).map_err(words) }
    };
    let heads = measure("head", (count, None), wish.threads, head).await;
    let folder = format!("{prefix}rates/small/");
    let list = |_| {
        let folder = folder.clone();
        async move {
            let found = store.list(&folder, "", 1000).await.map_err(words)?.len() as u64;
            if found == count.min(1000) {
                Ok(())
            } else {
                Err(format!("{found} of {count} objects are listed"))
            }
        }
    };
    let mut lists = measure("list", (10, None), wish.threads, list).await;
    lists.unit = "lists/s";
    let delete = |n| {
        let request = key(n);
        async move { store.delete(&request).await.map_err(words) }
    };
    let deletes = measure("delete", (count, None), wish.threads, delete).await;
    vec![parts, heads, lists, deletes]
}
