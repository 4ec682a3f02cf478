//! How a metadata server has been: stalls, how long they lasted, and why, as far as the server tells. Kept for
//! `status` and metrics. Pure but for its lock.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;
use zest_metadata::{Stall, Stalls};
use zest_types::limits;

/// What is remembered of a server.
#[derive(Default)]
pub(crate) struct Health(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    since: Option<Duration>,
    stalls: VecDeque<Stall>,
    count: u64,
    total: Duration,
    fork_usec: Option<u64>,
}

impl Health {
    pub(crate) fn stall_begins(&self, at: Duration) {
        self.0.lock().since = Some(at);
    }

    pub(crate) fn stall_ends(&self, lasted: Duration, cause: &str) {
        let mut inner = self.0.lock();
        inner.since = None;
        inner.count += 1;
        inner.total = inner.total.saturating_add(lasted);
        if inner.stalls.len() >= limits::META_STALLS_KEPT {
            inner.stalls.pop_front();
        }
        inner.stalls.push_back(Stall { lasted, cause: cause.into() });
    }

    pub(crate) fn look(&self) -> Stalls {
        let inner = self.0.lock();
        let recent = inner.stalls.iter().cloned().collect();
        Stalls { since: inner.since, count: inner.count, total: inner.total, recent }
    }

    /// The cause of a stall out of what `INFO` says after it.
    pub(crate) fn explain(&self, info: &str) -> String {
        let get = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim)
        };
        let on = |name| get(name) == Some("1");
        let fork = get("latest_fork_usec").and_then(|text| text.parse::<u64>().ok());
        let forked = {
            let mut inner = self.0.lock();
            let before = std::mem::replace(&mut inner.fork_usec, fork);
            fork.filter(|usec| *usec > 0 && before.is_some_and(|before| before != *usec))
        };
        let child = match (on("rdb_bgsave_in_progress"), on("aof_rewrite_in_progress")) {
            (true, _) => Some("a snapshot (BGSAVE)"),
            (_, true) => Some("a rewrite of its append-only file"),
            _ => None,
        };
        if on("loading") {
            return "it is loading its data".into();
        }
        match (child, forked) {
            (Some(child), Some(usec)) => format!("it forked for {child}, which took {} ms", usec / 1000),
            (Some(child), None) => format!("{child} is running"),
            (None, Some(usec)) => {
                format!("it forked for a snapshot or rewrite, which took {} ms", usec / 1000)
            }
            (None, None) if get("role").is_some_and(|role| role != "master") => {
                "it is no longer the primary: a fail-over".into()
            }
            (None, None) => "it does not tell why: a slow command, a stopped process, or the network".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_named_once() {
        let health = Health::default();
        health.explain("latest_fork_usec:100\r\n");
        let text = "rdb_bgsave_in_progress:1\r\nlatest_fork_usec:950000\r\n";
        assert_eq!(health.explain(text), "it forked for a snapshot (BGSAVE), which took 950 ms");
        assert_eq!(health.explain(text), "a snapshot (BGSAVE) is running");
        assert!(health.explain("latest_fork_usec:950000\r\nrole:master").contains("does not tell"));
        assert!(health.explain("role:slave").contains("fail-over"));
    }

    #[test]
    fn only_so_many_stalls_are_kept() {
        let health = Health::default();
        for n in 0..100 {
            health.stall_begins(Duration::from_secs(n));
            health.stall_ends(Duration::from_millis(n), "x");
        }
        let Stalls { since, count, total, recent } = health.look();
        assert_eq!((since, count, total), (None, 100, Duration::from_millis(4950)));
        assert_eq!(recent.len(), limits::META_STALLS_KEPT);
        assert_eq!(recent[0].lasted, Duration::from_millis(100 - limits::META_STALLS_KEPT as u64));
    }
}
