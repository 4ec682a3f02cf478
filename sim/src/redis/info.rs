//! INFO: the sections and fields that clients of a metadata server and its operators read.

use super::server::Server;

const SECTIONS: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cluster", "keyspace"];

/// The wanted sections; all where none is named.
#[must_use]
pub fn text(server: &Server, wanted: &[String]) -> String {
    let every = wanted.iter().any(|word| ["all", "default", "everything"].contains(&word.as_str()));
    let chosen = |name: &str| wanted.is_empty() || every || wanted.iter().any(|word| word == name);
    let sections: Vec<String> =
        SECTIONS.into_iter().filter(|name| chosen(name)).map(|name| section(server, name)).collect();
    sections.join("\r\n")
}

fn section(server: &Server, name: &str) -> String {
    let mut title = name.to_owned();
    title.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
    let fields = match name {
        "server" => about(server),
        "clients" => vec![
            ("connected_clients", server.clients.len().to_string()),
            (
                "tracking_clients",
                server.clients.values().filter(|client| client.tracking.is_some()).count().to_string(),
            ),
        ],
        "memory" => memory(server),
        "persistence" => persistence(server),
        "stats" => stats(server),
        "replication" => replication(server),
        "cluster" => vec![("cluster_enabled", "0".into())],
        _ => return keyspace(server, &title),
    };
    let lines: String = fields.into_iter().map(|(field, value)| format!("{field}:{value}\r\n")).collect();
    format!("# {title}\r\n{lines}")
}

type Fields = Vec<(&'static str, String)>;

fn number(value: impl Into<u64>) -> String {
    value.into().to_string()
}

fn good(failed: bool) -> String {
    if failed { "err".into() } else { "ok".into() }
}

fn about(server: &Server) -> Fields {
    let facts = &server.facts;
    let (a, b, c) = (server.version.0, server.version.1, server.version.2);
    vec![
        ("redis_version", format!("{a}.{b}.{c}")),
        ("redis_mode", "standalone".into()),
        ("os", "simulated".into()),
        ("arch_bits", "64".into()),
        ("process_id", number(facts.process + 1)),
        ("run_id", format!("{:040x}", u128::from(facts.process) + 0xCAFE)),
        ("tcp_port", "6379".into()),
        ("server_time_usec", facts.now.as_micros().to_string()),
        ("uptime_in_seconds", number(facts.uptime.as_secs())),
        ("hz", server.config.get("hz").into()),
    ]
}

fn memory(server: &Server) -> Fields {
    let used = server.memory();
    vec![
        ("used_memory", number(used)),
        ("used_memory_rss", number(used)),
        ("used_memory_peak", number(used)),
        ("used_memory_dataset", number(used - (1 << 20))),
        ("total_system_memory", number(64u64 << 30)),
        ("maxmemory", server.config.get("maxmemory").into()),
        ("maxmemory_policy", server.config.get("maxmemory-policy").into()),
        ("mem_fragmentation_ratio", "1.00".into()),
        ("mem_allocator", "simulated".into()),
    ]
}

fn persistence(server: &Server) -> Fields {
    let facts = &server.facts;
    vec![
        ("loading", number(facts.loading)),
        ("async_loading", "0".into()),
        ("rdb_changes_since_last_save", number(server.stats.dirty)),
        ("rdb_bgsave_in_progress", number(facts.saving)),
        ("rdb_last_save_time", number(facts.last_save.as_secs())),
        ("rdb_last_bgsave_status", good(facts.save_failed)),
        ("rdb_last_bgsave_time_sec", "-1".into()),
        ("rdb_current_bgsave_time_sec", if facts.saving { "0".into() } else { "-1".into() }),
        ("aof_enabled", number(server.config.is("appendonly"))),
        ("aof_rewrite_in_progress", number(facts.rewriting)),
        ("aof_rewrite_scheduled", "0".into()),
        ("aof_last_bgrewrite_status", good(facts.rewrite_failed)),
        ("aof_last_write_status", good(facts.log_failed.is_some())),
        ("aof_delayed_fsync", number(facts.delayed_syncs)),
    ]
}

fn stats(server: &Server) -> Fields {
    vec![
        ("total_connections_received", number(server.stats.connections)),
        ("total_commands_processed", number(server.stats.commands)),
        ("rejected_connections", number(server.stats.rejected)),
        ("expired_keys", "0".into()),
        ("evicted_keys", number(server.stats.evicted)),
        ("keyspace_hits", "0".into()),
        ("keyspace_misses", "0".into()),
        ("latest_fork_usec", server.facts.fork.as_micros().to_string()),
    ]
}

fn replication(server: &Server) -> Fields {
    let facts = &server.facts;
    let mut fields = vec![("role", if facts.replica { "slave".into() } else { String::from("master") })];
    if facts.replica {
        fields.extend([
            ("master_host", "redis".into()),
            ("master_port", "6379".into()),
            ("master_link_status", "up".into()),
            ("slave_read_only", "1".into()),
        ]);
    }
    fields.push(("connected_slaves", number(facts.replicas.len() as u64)));
    for (name, at) in ["slave0", "slave1", "slave2"].into_iter().zip(&facts.replicas) {
        fields.push((name, format!("ip=replica,port=6379,state=online,offset={at},lag=0")));
    }
    fields.push(("master_replid", format!("{:040x}", u128::from(facts.process) + 0xBEEF)));
    fields.push(("master_repl_offset", number(server.offset)));
    fields
}

fn keyspace(server: &Server, title: &str) -> String {
    let mut text = format!("# {title}\r\n");
    for (number, db) in server.databases.iter().enumerate().filter(|(_, db)| !db.is_empty()) {
        text.push_str(&format!("db{number}:keys={},expires=0,avg_ttl=0\r\n", db.len()));
    }
    text
}
