//! Settings of a server: those that clients and operators of metadata servers look at, with the checks a real server
//! makes when they are set.

use super::pattern::matches;
use std::collections::BTreeMap;

const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

enum Kind {
    Text,
    Switch,
    Number,
    Memory,
    OneOf(&'static [&'static str]),
    Fixed,
}

static KNOWN: &[(&str, &str, Kind)] = &[
    ("appendfsync", "everysec", Kind::OneOf(&["everysec", "always", "no"])),
    ("appendonly", "no", Kind::Switch),
    ("auto-aof-rewrite-min-size", "67108864", Kind::Memory),
    ("auto-aof-rewrite-percentage", "100", Kind::Number),
    ("bind", "* -::*", Kind::Text),
    (
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        Kind::Text,
    ),
    ("databases", "16", Kind::Fixed),
    ("dir", "/data", Kind::Text),
    ("hz", "10", Kind::Number),
    ("lazyfree-lazy-eviction", "no", Kind::Switch),
    ("maxclients", "10000", Kind::Number),
    ("maxmemory", "0", Kind::Memory),
    ("maxmemory-policy", "noeviction", Kind::OneOf(POLICIES)),
    ("min-replicas-max-lag", "10", Kind::Number),
    ("min-replicas-to-write", "0", Kind::Number),
    ("no-appendfsync-on-rewrite", "no", Kind::Switch),
    ("notify-keyspace-events", "", Kind::Text),
    ("port", "6379", Kind::Number),
    ("proto-max-bulk-len", "536870912", Kind::Memory),
    ("repl-timeout", "60", Kind::Number),
    ("requirepass", "", Kind::Text),
    ("save", "3600 1 300 100 60 10000", Kind::Text),
    ("stop-writes-on-bgsave-error", "yes", Kind::Switch),
    ("tcp-keepalive", "300", Kind::Number),
    ("timeout", "0", Kind::Number),
    ("tracking-table-max-keys", "1000000", Kind::Number),
];

/// Settings and their values.
#[derive(Clone, Debug)]
pub struct Config {
    values: BTreeMap<&'static str, String>,
}

impl Default for Config {
    fn default() -> Config {
        Config { values: KNOWN.iter().map(|(name, value, _)| (*name, String::from(*value))).collect() }
    }
}

/// Bytes from text such as `100mb`.
fn memory(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let units: [(&str, u64); 6] = [
        ("kb", 1 << 10),
        ("mb", 1 << 20),
        ("gb", 1 << 30),
        ("k", 1000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
    ];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((&text, 1));
    digits.trim_end_matches('b').parse::<u64>().ok()?.checked_mul(unit)
}

impl Config {
    /// The value of a setting; nothing where it is not known.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.get(name) == "yes"
    }

    /// A number; 0 where it is none.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.get(name).parse().unwrap_or(0)
    }

    /// Settings whose name fits one of the patterns.
    #[must_use]
    pub fn find(&self, patterns: &[Vec<u8>]) -> Vec<(&'static str, &str)> {
        let fits = |name: &str| {
            patterns.iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        self.values
            .iter()
            .filter(|(name, _)| fits(name))
            .map(|(name, value)| (*name, value.as_str()))
            .collect()
    }

    /// Sets a setting.
    ///
    /// # Errors
    /// What a server answers to a setting that is not known or a value that it can't have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let lower = name.to_ascii_lowercase();
        let Some((name, _, kind)) = KNOWN.iter().find(|(known, ..)| *known == lower) else {
            return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"));
        };
        let failed =
            |why: &str| Err(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"));
        let value = match kind {
            Kind::Text => value.to_owned(),
            Kind::Fixed => return failed("can't set immutable config"),
            Kind::Switch if ["yes", "no"].contains(&value.to_ascii_lowercase().as_str()) => {
                value.to_ascii_lowercase()
            }
            Kind::Switch => return failed("argument must be 'yes' or 'no'"),
            Kind::Number if value.parse::<u64>().is_ok() => value.to_owned(),
            Kind::Number => return failed("argument couldn't be parsed into an integer"),
            Kind::Memory => match memory(value) {
                Some(bytes) => bytes.to_string(),
                None => return failed("argument must be a memory value"),
            },
            Kind::OneOf(words) if words.contains(&value.to_ascii_lowercase().as_str()) => {
                value.to_ascii_lowercase()
            }
            Kind::OneOf(words) => {
                return failed(&format!("argument(s) must be one of the following: {}", words.join(", ")));
            }
        };
        self.values.insert(name, value);
        Ok(())
    }
}
