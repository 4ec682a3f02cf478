//! What INFO and CONFIG of a Redis server say against it. A server that does not let clients read its CONFIG is
//! judged by INFO alone.

use super::{Finding, Weight, Words, memory, persistence};

/// What a server says, with words for what is missing.
pub(super) struct Server<'a> {
    pub(super) info: &'a Words,
    pub(super) config: &'a Words,
}

impl Server<'_> {
    pub(super) fn info(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        self.info(name).parse().unwrap_or(0)
    }

    pub(super) fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }
}

pub(super) fn found(id: &'static str, weight: Weight, what: String, remedy: &str) -> Finding {
    Finding { id, weight, what, remedy: remedy.into() }
}

/// Everything that speaks against this server, the worst first. `strangers` are keys beside the volume's in its database
/// `db`.
#[must_use]
pub fn findings(info: &Words, config: &Words, strangers: &[String], db: i64) -> Vec<Finding> {
    let server = Server { info, config };
    let mut all: Vec<Finding> = [
        version(&server),
        role(&server),
        eviction(&server),
        evicted(&server),
        neighbours(&server, strangers, db),
        replicas(&server),
        fork(&server),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.extend(persistence::findings(&server));
    all.extend(memory::finding(&server));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    all
}

fn version(server: &Server<'_>) -> Option<Finding> {
    let text = server.info("redis_version");
    let major: u32 = text.split('.').next().and_then(|part| part.parse().ok())?;
    match major {
        0..4 => Some(found(
            "redis-version",
            Weight::Impossible,
            format!("the server is Redis {text}, and 4.0 is the oldest that can hold a volume"),
            "use a newer server",
        )),
        4 | 5 => Some(found(
            "redis-version",
            Weight::Note,
            format!("the server is Redis {text}, which tells clients of no changes"),
            "with Redis 6 or newer clients need not ask as often",
        )),
        _ => None,
    }
}

fn role(server: &Server<'_>) -> Option<Finding> {
    (server.info("role") == "slave").then(|| {
        found(
            "redis-role",
            Weight::Impossible,
            "the server is a replica and takes no changes".into(),
            "name the primary, or its Sentinels, or mount with --read-only",
        )
    })
}

fn eviction(server: &Server<'_>) -> Option<Finding> {
    let policy = match server.info("maxmemory_policy") {
        "" => server.config("maxmemory-policy").unwrap_or_default(),
        policy => policy,
    };
    // A server that keeps what it evicts on flash loses nothing.
    if matches!(policy, "" | "noeviction") || server.info("storage_provider") == "flash" {
        return None;
    }
    let which = if policy.starts_with("volatile-") { "keys with an expiry date" } else { "any keys" };
    Some(found(
        "redis-eviction",
        Weight::Refused,
        format!(
            "the server's maxmemory-policy is {policy}: when its memory is full it throws away {which}, and with them files of the volume, without a word"
        ),
        "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in its configuration file; or, to lose files, --force-unsafe-engine",
    ))
}

fn evicted(server: &Server<'_>) -> Option<Finding> {
    let evicted = server.number("evicted_keys");
    (evicted > 0).then(|| {
        found(
            "redis-evicted",
            Weight::ReadOnly,
            format!("the server has thrown away {evicted} keys since it was started; files of the volume may be gone"),
            "run fsck; when the volume is sound, redis-cli CONFIG RESETSTAT, and mount again",
        )
    })
}

/// The value of one field in a list such as `keys=3,expires=0`.
fn field<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    list.split(',')
        .find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name))
        .map(|(_, value)| value)
}

/// No record of a volume ever expires, and all have names of the volume format.
fn neighbours(server: &Server<'_>, strangers: &[String], db: i64) -> Option<Finding> {
    if !strangers.is_empty() {
        let named = strangers.join(", ");
        return Some(found(
            "shared-db",
            Weight::Warning,
            format!(
                "there are keys in database {db} that are no volume's ({named}), so somebody else uses it, too"
            ),
            "give the volume a database of its own, so that nobody flushes it or takes its memory",
        ));
    }
    let expiring: u64 = field(server.info(&format!("db{db}")), "expires")?.parse().ok()?;
    (expiring > 0).then(|| {
        found(
            "shared-db",
            Weight::Warning,
            format!("{expiring} keys in database {db} have an expiry date, so somebody else uses it, too"),
            "give the volume a database of its own, so that nobody flushes it or takes its memory",
        )
    })
}

/// Seconds a replica may be silent.
const LAG: u64 = 10;

fn replicas(server: &Server<'_>) -> Option<Finding> {
    let slow = |index: u64| {
        let replica = server.info(&format!("slave{index}"));
        let lag = field(replica, "lag").and_then(|text| text.parse::<u64>().ok())?;
        let away = field(replica, "state") != Some("online") || lag > LAG;
        away.then(|| {
            format!("{}:{}", field(replica, "ip").unwrap_or("?"), field(replica, "port").unwrap_or("?"))
        })
    };
    let behind: Vec<String> = (0..server.number("connected_slaves").min(64)).filter_map(slow).collect();
    (!behind.is_empty()).then(|| {
        found(
            "redis-replica-lag",
            Weight::Warning,
            format!("replica {} is behind: a fail-over to it loses what was acknowledged", behind.join(", ")),
            "look at its network and disk; min-replicas-to-write 1 makes the server refuse what no replica gets",
        )
    })
}

/// Microseconds the server may stand still for a snapshot.
const FORK: u64 = 100_000;

fn fork(server: &Server<'_>) -> Option<Finding> {
    let took = server.number("latest_fork_usec");
    (took > FORK).then(|| {
        found(
            "redis-fork",
            Weight::Warning,
            format!("the server stood still for {} ms at its last snapshot or rewrite", took / 1000),
            "turn transparent huge pages off for it, set vm.overcommit_memory to 1, or save on a replica",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server without a fault.
    fn sound() -> (Words, Words) {
        let words = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Words>()
        };
        let info = words(&[
            ("redis_version", "7.2.4"),
            ("role", "master"),
            ("maxmemory_policy", "noeviction"),
            ("maxmemory", "0"),
            ("used_memory", "1000000"),
            ("total_system_memory", "8000000000"),
            ("evicted_keys", "0"),
            ("aof_enabled", "1"),
            ("rdb_last_bgsave_status", "ok"),
            ("aof_last_write_status", "ok"),
            ("aof_last_bgrewrite_status", "ok"),
            ("latest_fork_usec", "300"),
            ("connected_slaves", "0"),
            ("db1", "keys=100,expires=0,avg_ttl=0"),
        ]);
        let config = words(&[
            ("save", "3600 1 300 100"),
            ("appendfsync", "everysec"),
            ("stop-writes-on-bgsave-error", "yes"),
        ]);
        (info, config)
    }

    fn with(info: &[(&str, &str)], config: &[(&str, &str)]) -> Vec<(&'static str, Weight)> {
        let (mut all_info, mut all_config) = sound();
        all_info.extend(info.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        all_config.extend(config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        findings(&all_info, &all_config, &[], 1)
            .into_iter()
            .map(|finding| (finding.id, finding.weight))
            .collect()
    }

    #[test]
    fn nothing_speaks_against_a_sound_server_nor_against_a_silent_one() {
        assert_eq!(with(&[], &[]), []);
        assert_eq!(
            with(&[("db0", "keys=5,expires=5"), ("connected_slaves", "1")], &[]),
            [],
            "others' matters"
        );
        assert_eq!(findings(&Words::new(), &Words::new(), &[], 0), []);
        let (info, config) = sound();
        let found = findings(&info, &config, &["user:7".into()], 1);
        assert_eq!((found[0].id, found[0].weight), ("shared-db", Weight::Warning));
        assert!(found[0].what.contains("user:7"), "{}", found[0]);
    }

    #[test]
    fn servers_that_throw_keys_away_are_refused() {
        for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"] {
            assert_eq!(
                with(&[("maxmemory_policy", policy)], &[]),
                [("redis-eviction", Weight::Refused)],
                "{policy}"
            );
        }
        let flash = [("maxmemory_policy", "allkeys-lru"), ("storage_provider", "flash")];
        assert_eq!(with(&flash, &[]), []);
        assert_eq!(with(&[("evicted_keys", "3")], &[]), [("redis-evicted", Weight::ReadOnly)]);
    }

    #[test]
    fn servers_that_can_not_serve_are_refused_whatever_the_user_says() {
        assert_eq!(with(&[("redis_version", "3.2.1")], &[]), [("redis-version", Weight::Impossible)]);
        assert_eq!(with(&[("redis_version", "5.0.7")], &[]), [("redis-version", Weight::Note)]);
        assert_eq!(with(&[("role", "slave")], &[]), [("redis-role", Weight::Impossible)]);
    }

    #[test]
    fn neighbours_replicas_and_pauses_are_noticed() {
        assert_eq!(with(&[("db1", "keys=9,expires=2,avg_ttl=7")], &[]), [("shared-db", Weight::Warning)]);
        let late =
            [("connected_slaves", "1"), ("slave0", "ip=10.0.0.2,port=6379,state=online,offset=5,lag=60")];
        assert_eq!(with(&late, &[]), [("redis-replica-lag", Weight::Warning)]);
        let fine =
            [("connected_slaves", "1"), ("slave0", "ip=10.0.0.2,port=6379,state=online,offset=5,lag=1")];
        assert_eq!(with(&fine, &[]), []);
        assert_eq!(with(&[("latest_fork_usec", "250000")], &[]), [("redis-fork", Weight::Warning)]);
    }

    #[test]
    fn what_a_crash_of_the_server_takes_is_said() {
        let no_aof = [("aof_enabled", "0")];
        assert_eq!(with(&no_aof, &[("save", "")]), [("redis-persistence", Weight::Critical)]);
        assert_eq!(with(&no_aof, &[]), [("redis-aof", Weight::Warning)]);
        let goes_on = [("stop-writes-on-bgsave-error", "no")];
        assert_eq!(with(&[], &goes_on), [("redis-bgsave-error", Weight::Warning)]);
        let both = with(&no_aof, &goes_on);
        assert!(both.contains(&("redis-bgsave-error", Weight::Critical)), "{both:?}");
        assert_eq!(with(&[], &[("appendfsync", "no")]), [("redis-fsync", Weight::Warning)]);
        assert_eq!(
            with(&[("rdb_last_bgsave_status", "err")], &[]),
            [("redis-save-failed", Weight::Critical)]
        );
        assert_eq!(with(&[("aof_last_write_status", "err")], &[]), [("redis-save-failed", Weight::Critical)]);
    }

    #[test]
    fn memory_is_warned_about_before_it_is_full() {
        assert_eq!(with(&[("maxmemory", "1400000")], &[]), [("redis-memory", Weight::Warning)]);
        assert_eq!(with(&[("maxmemory", "1100000")], &[]), [("redis-memory", Weight::Critical)]);
        assert_eq!(with(&[("maxmemory", "2000000")], &[]), []);
        assert_eq!(with(&[("total_system_memory", "1100000")], &[]), [("redis-memory", Weight::Critical)]);
    }
}
