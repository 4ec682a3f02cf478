//! What a mount can say of itself in numbers, for metrics and `zest status`. Named as other clients of the volume
//! format name them where they mean the same; what is our own begins with `zest`. Knows no form they are shown in.

use serde_json::{Value, json};
use std::time::Duration;
use zest_cache::Count;
use zest_metadata::Stalls;
use zest_vfs::Mount;

/// Whether a figure only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum since the mount began.
    Counter,
    /// What is now.
    Gauge,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// What it is, with its unit.
    pub help: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Its value.
    pub value: f64,
}

fn gauge(name: &'static str, help: &'static str, value: u64) -> Figure {
    Figure { name, help, kind: Kind::Gauge, value: value as f64 }
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
    Figure { name, help, kind: Kind::Counter, value: value as f64 }
}

fn seconds(name: &'static str, help: &'static str, kind: Kind, value: Duration) -> Figure {
    Figure { name, help, kind, value: value.as_secs_f64() }
}

/// All figures of a mount that has been served since `begun` (of its world's monotonic clock).
#[must_use]
pub fn figures(mount: &Mount, begun: Duration) -> Vec<Figure> {
    let shared = mount.vfs.shared();
    let now = shared.world.clock.mono();
    let mut all = process(now.saturating_sub(begun));
    all.push(gauge(
        "juicefs_used_buffer_size_bytes",
        "Bytes written and not yet committed.",
        shared.budget.used(),
    ));
    let refuses = u64::from(shared.read_only || shared.live.is_frozen());
    all.push(gauge("zest_refuses_changes", "1 while the mount takes no changes.", refuses));
    all.extend(cache(mount));
    all.extend(reading(mount));
    if let Some(staging) = &shared.staging {
        let stats = staging.stats();
        all.extend([
            gauge("juicefs_staging_blocks", "Blocks that wait on the local disk.", stats.waiting.blocks),
            gauge("juicefs_staging_block_bytes", "Their bytes.", stats.waiting.bytes),
            gauge("zest_staging_damaged_blocks", "Staged blocks that are damaged.", stats.damaged.blocks),
            counter("zest_staging_uploaded_blocks", "Staged blocks that were uploaded.", stats.uploaded),
            counter("zest_staging_direct_blocks", "Blocks that staging had no room for.", stats.direct),
        ]);
    }
    all.extend(server(&mount.engine().stalls(), now));
    all
}

/// The process.
fn process(up: Duration) -> Vec<Figure> {
    let (resident, _) = crate::memory::resident().unwrap_or_default();
    let usage = cpu_time();
    vec![
        seconds("juicefs_uptime", "Seconds since the mount began.", Kind::Gauge, up),
        seconds("juicefs_cpu_usage", "Seconds of CPU used.", Kind::Counter, usage),
        gauge("juicefs_memory", "Bytes of memory in use.", resident),
    ]
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(spent.tv_sec).unwrap_or(0), u32::try_from(spent.tv_nsec).unwrap_or(0))
}

fn cache(mount: &Mount) -> Vec<Figure> {
    let shared = mount.vfs.shared();
    let memory = shared.tier.stats();
    let disk = shared.disk.as_ref().map(|disk| disk.stats()).unwrap_or_default();
    vec![
        gauge("juicefs_blockcache_blocks", "Blocks and parts cached.", memory.blocks + disk.files),
        gauge("juicefs_blockcache_bytes", "Bytes cached.", memory.bytes + disk.bytes),
        counter("juicefs_blockcache_hits", "Questions the cache answered.", memory.hits + disk.hits),
        // What memory does not have is asked of the disk next.
        counter(
            "juicefs_blockcache_miss",
            "Questions the cache could not answer.",
            if shared.disk.is_some() { disk.misses } else { memory.misses },
        ),
        counter("juicefs_blockcache_drops", "Blocks not kept, since too many waited.", disk.dropped),
        gauge("zest_cache_memory_bytes", "Bytes cached in memory.", memory.bytes),
        gauge("zest_cache_disk_bytes", "Bytes cached in files.", disk.bytes),
        counter("zest_cache_damaged_files", "Cache files that were found damaged.", disk.damaged),
        gauge("zest_cache_directories", "Cache directories in use.", disk.directories),
    ]
}

fn reading(mount: &Mount) -> Vec<Figure> {
    let meter = &mount.vfs.shared().meter;
    vec![
        counter(
            "zest_fetched_bytes",
            "Bytes that came from the object store.",
            meter.get(Count::FetchedBytes),
        ),
        counter(
            "zest_ahead_bytes",
            "Bytes asked for ahead of streams of reads.",
            meter.get(Count::AheadBytes),
        ),
        counter("zest_ahead_used_bytes", "Bytes of them that were read.", meter.get(Count::AheadUsedBytes)),
        counter("zest_hedges", "Gets asked for a second time, being late.", meter.get(Count::Hedges)),
    ]
}

fn server(stalls: &Stalls, now: Duration) -> Vec<Figure> {
    let silent = stalls.since.map(|since| now.saturating_sub(since)).unwrap_or_default();
    let total = "Seconds the metadata server did not answer, in stalls that are over.";
    vec![
        seconds(
            "zest_meta_silent_seconds",
            "For how long the metadata server has not answered; 0 while it does.",
            Kind::Gauge,
            silent,
        ),
        counter("zest_meta_stalls", "Stalls of the metadata server that are over.", stalls.count),
        seconds("zest_meta_stall_seconds", total, Kind::Counter, stalls.total),
    ]
}

/// What `zest status` shows of how the metadata server answered this mount.
#[must_use]
pub fn stalls(stalls: &Stalls, now: Duration) -> Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let recent = stalls.recent.iter();
    let recent: Vec<Value> =
        recent.map(|stall| json!({ "Millis": millis(stall.lasted), "Cause": stall.cause })).collect();
    json!({
        "SilentMillis": stalls.since.map(|since| millis(now.saturating_sub(since))),
        "Stalls": stalls.count,
        "StalledMillis": millis(stalls.total),
        "Recent": recent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_metadata::Stall;

    #[test]
    fn a_silent_server_shows() {
        let stall = Stall { lasted: Duration::from_millis(1500), cause: "it slept".into() };
        let (second, now) = (Duration::from_secs(1), Duration::from_secs(10));
        let all = Stalls { since: Some(second * 7), count: 3, total: second * 4, recent: vec![stall] };
        let values: Vec<f64> = server(&all, now).iter().map(|figure| figure.value).collect();
        assert_eq!(values, [3.0, 3.0, 4.0]);
        assert_eq!(server(&Stalls::default(), now)[0].value, 0.0);
        let shown = stalls(&all, now);
        assert_eq!((&shown["SilentMillis"], &shown["Stalls"]), (&json!(3000), &json!(3)));
        assert_eq!(shown["Recent"], json!([{ "Millis": 1500, "Cause": "it slept" }]));
        assert_eq!(stalls(&Stalls::default(), now)["SilentMillis"], Value::Null);
    }

    #[test]
    fn a_process_has_memory_and_used_cpu() {
        let all = process(Duration::from_secs(2));
        assert!(all.iter().all(|figure| figure.value > 0.0), "{all:?}");
    }
}
