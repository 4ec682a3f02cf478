//! How close a metadata server is to being full. A full one takes no changes, not even removals.

use super::redis::{Server, found};
use super::{Finding, Weight};

/// About what a file takes.
const FILE: u64 = 300;

pub(super) fn finding(server: &Server<'_>) -> Option<Finding> {
    let used = server.number("used_memory");
    let (limit, of) = match server.number("maxmemory") {
        0 => (server.number("total_system_memory"), "its machine's memory"),
        limit => (limit, "its maxmemory"),
    };
    if limit == 0 {
        return None;
    }
    let percent = u64::try_from(u128::from(used) * 100 / u128::from(limit)).unwrap_or(u64::MAX);
    let weight = match percent {
        0..70 => return None,
        70..90 => Weight::Warning,
        _ => Weight::Critical,
    };
    let left = limit.saturating_sub(used) / FILE;
    Some(found(
        "redis-memory",
        weight,
        format!(
            "the server uses {percent} % of {of}: room for about {left} files more, then nothing can be changed"
        ),
        "give it more memory, or remove files before it is full",
    ))
}
