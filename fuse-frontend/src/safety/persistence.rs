//! What is left of a volume when its metadata server dies, as far as the server says.

use super::redis::{Server, found};
use super::{Finding, Weight};

pub(super) fn findings(server: &Server<'_>) -> Vec<Finding> {
    let log = match server.info("aof_enabled") {
        "1" => true,
        "0" => false,
        // It does not say: nothing is known about it.
        _ => return Vec::new(),
    };
    let kept = if log { fsync(server) } else { snapshots(server) };
    kept.into_iter().chain(goes_on(server, log)).chain(failed(server)).collect()
}

fn snapshots(server: &Server<'_>) -> Option<Finding> {
    let save = server.config("save");
    if save.is_some_and(|rules| rules.trim().is_empty()) {
        return Some(found(
            "redis-persistence",
            Weight::Critical,
            "the server writes neither a log nor snapshots: with its process the volume is gone".into(),
            "redis-cli CONFIG SET appendonly yes, and the same in its configuration file",
        ));
    }
    let seconds: Option<u64> = save.and_then(|rules| {
        let numbers: Vec<&str> = rules.split_whitespace().collect();
        numbers.chunks(2).filter_map(|rule| rule.first()?.parse().ok()).max()
    });
    let window = seconds.map_or("minutes".into(), |seconds| format!("{seconds} seconds"));
    Some(found(
        "redis-aof",
        Weight::Warning,
        format!("the server writes snapshots only: when it dies, up to {window} of changes are gone"),
        "redis-cli CONFIG SET appendonly yes, and the same in its configuration file",
    ))
}

fn fsync(server: &Server<'_>) -> Option<Finding> {
    (server.config("appendfsync") == Some("no")).then(|| {
        found(
            "redis-fsync",
            Weight::Warning,
            "the server leaves it to its machine when its log reaches the disk (appendfsync no)".into(),
            "redis-cli CONFIG SET appendfsync everysec, or always",
        )
    })
}

fn goes_on(server: &Server<'_>, log: bool) -> Option<Finding> {
    (server.config("stop-writes-on-bgsave-error") == Some("no")).then(|| {
        found(
            "redis-bgsave-error",
            if log { Weight::Warning } else { Weight::Critical },
            "the server goes on when a snapshot fails (stop-writes-on-bgsave-error no), so nobody may notice"
                .into(),
            "redis-cli CONFIG SET stop-writes-on-bgsave-error yes, and watch its disk",
        )
    })
}

fn failed(server: &Server<'_>) -> Option<Finding> {
    let words = [
        ("rdb_last_bgsave_status", "snapshot"),
        ("aof_last_write_status", "write of its log"),
        ("aof_last_bgrewrite_status", "rewrite of its log"),
    ];
    let failed: Vec<&str> =
        words.into_iter().filter(|(name, _)| server.info(name) == "err").map(|(_, what)| what).collect();
    (!failed.is_empty()).then(|| {
        found(
            "redis-save-failed",
            Weight::Critical,
            format!(
                "the server's last {} failed: what it has may live in its memory only",
                failed.join(" and ")
            ),
            "see its log: a full disk, or no memory for a copy (vm.overcommit_memory)",
        )
    })
}
