//! What `zest status` tells of a volume: settings without secrets, sessions, and how full it is.

use serde::Serialize;
use serde_json::{Map, Value};
use zest_engines::EmbeddedEngine;
use zest_host::secrets;
use zest_metadata::{Counter, EngineError, Key, Record, Scan};
use zest_types::volume::Settings;

/// Sessions that are listed.
const SESSIONS: usize = 10_000;
/// Space a volume without a limit claims to have at first, bytes.
const SPACE: u64 = 1 << 50;
/// Inodes a volume without a limit claims to have free at first.
const INODES: u64 = 10 << 20;

#[derive(Serialize)]
struct Status {
    #[serde(rename = "Setting")]
    setting: Settings,
    #[serde(rename = "Sessions")]
    sessions: Vec<Value>,
    #[serde(rename = "Stat")]
    stat: Stat,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Stat {
    used_space: u64,
    available_space: u64,
    used_inodes: u64,
    available_inodes: u64,
}

/// How full a volume is; limits of 0 are none.
fn stat(used_space: u64, used_inodes: u64, capacity: u64, inodes: u64) -> Stat {
    let mut total = SPACE;
    while total.saturating_mul(8) < used_space.saturating_mul(10) {
        total = total.saturating_mul(2);
    }
    let mut free = INODES;
    while used_inodes > free.saturating_mul(4) {
        free = free.saturating_mul(2);
    }
    Stat {
        used_space,
        available_space: if capacity > 0 { capacity } else { total }.saturating_sub(used_space),
        used_inodes,
        available_inodes: if inodes > 0 { inodes.saturating_sub(used_inodes) } else { free },
    }
}

fn session(engine: &EmbeddedEngine, number: u64, expires: i64) -> Result<Value, EngineError> {
    let found = engine.read_now(&[Key::SessionInfo(number)])?;
    let mut all = Map::new();
    all.insert("Sid".into(), number.into());
    let expires = chrono::DateTime::from_timestamp(expires, 0).map(|time| time.to_rfc3339());
    all.insert("Expire".into(), expires.unwrap_or_default().into());
    if let Some(Some(Record::Bytes(bytes))) = found.into_iter().next()
        && let Ok(Value::Object(info)) = serde_json::from_slice(&bytes)
    {
        all.extend(info);
    }
    Ok(Value::Object(all))
}

/// The text, JSON with two spaces of indent.
pub fn report(engine: &EmbeddedEngine, settings: &Settings) -> Result<String, EngineError> {
    let used = [Counter::UsedSpace, Counter::TotalInodes].map(Key::Counter);
    let counted: Vec<u64> = engine
        .read_now(&used)?
        .into_iter()
        .map(|record| match record {
            Some(Record::Count(n)) => u64::try_from(n).unwrap_or(0),
            _ => 0,
        })
        .collect();
    let mut sessions = Vec::new();
    for (key, record) in engine.scan_now(&Scan::Sessions { limit: SESSIONS })? {
        if let (Key::SessionExpiry(number), Record::Stamp(expires)) = (key, record) {
            sessions.push(session(engine, number, expires)?);
        }
    }
    let mut setting = settings.clone();
    secrets::mask(&mut setting);
    let count = |place: usize| counted.get(place).copied().unwrap_or(0);
    let stat = stat(count(0), count(1), settings.capacity, settings.inodes);
    let status = Status { setting, sessions, stat };
    serde_json::to_string_pretty(&status).map_err(|e| EngineError::Failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_limits_leave() {
        let limited = stat(100, 10, 1000, 11);
        assert_eq!((limited.available_space, limited.available_inodes), (900, 1));
        let over = stat(2000, 12, 1000, 11);
        assert_eq!((over.available_space, over.available_inodes), (0, 0));
        let free = stat(0, 0, 0, 0);
        assert_eq!((free.available_space, free.available_inodes), (SPACE, INODES));
        assert_eq!(stat(SPACE, 0, 0, 0).available_space, SPACE);
    }
}
