//! What a mount tells of its reading, for `zest status`: what it cost, and what read-ahead was good for.

use serde_json::{Map, Value};
use zest_cache::Count;
use zest_vfs::Mount;

/// The figures of a mount, as JSON. Sums since it began.
pub(super) fn shown(mount: &Mount) -> Value {
    let shared = mount.vfs.shared();
    let counts = Count::ALL.iter().map(|(count, name)| ((*name).to_owned(), shared.meter.get(*count).into()));
    let mut reading: Map<String, Value> = counts.collect();
    reading.insert("streams".into(), shared.streams.count().into());
    let micros = u64::try_from(shared.meter.block_time().as_micros()).unwrap_or(u64::MAX);
    reading.insert("blockMicros".into(), micros.into());
    Value::Object(reading)
}
