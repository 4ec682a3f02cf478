//! What `zest status` tells of a volume: settings without secrets, sessions, and how full it is.

use crate::safety::Finding;
use serde::Serialize;
use serde_json::{Map, Value};
use zest_host::secrets;
use zest_metadata::{Counter, Engine, EngineError, Key, Record, Scan};
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
    /// What speaks against the metadata server.
    #[serde(rename = "Findings", skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Finding>,
    /// Mounts on this machine, and how the server answered them.
    #[serde(rename = "Mounts", skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<Value>,
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

/// A session as it is shown: its number, when it counts as dead, and what it says of itself.
fn session(number: u64, expires: i64, info: Option<&Record>) -> Value {
    let mut all = Map::new();
    all.insert("Sid".into(), number.into());
    let expires = chrono::DateTime::from_timestamp(expires, 0).map(|time| time.to_rfc3339());
    all.insert("Expire".into(), expires.unwrap_or_default().into());
    if let Some(Record::Bytes(bytes)) = info
        && let Ok(Value::Object(info)) = serde_json::from_slice(bytes)
    {
        all.extend(info);
    }
    Value::Object(all)
}

async fn sessions(engine: &dyn Engine, only: Option<u64>) -> Result<Vec<Value>, EngineError> {
    let found = engine.scan(&Scan::Sessions { limit: SESSIONS }).await?;
    let wanted = |number: u64| only.is_none_or(|only| only == number);
    let alive: Vec<(u64, i64)> = found
        .into_iter()
        .filter_map(|(key, record)| match (key, record) {
            (Key::SessionExpiry(number), Record::Stamp(expires)) if wanted(number) => Some((number, expires)),
            _ => None,
        })
        .collect();
    let keys: Vec<Key> = alive.iter().map(|(number, _)| Key::SessionInfo(*number)).collect();
    let infos = if keys.is_empty() { Vec::new() } else { engine.read(&keys).await? };
    let shown = alive.into_iter().zip(infos);
    Ok(shown.map(|((number, expires), info)| session(number, expires, info.as_ref())).collect())
}

/// One session with the files it holds open that are removed; nothing where there is no such session.
pub async fn one_session(engine: &dyn Engine, number: u64) -> Result<Option<String>, EngineError> {
    let Some(Value::Object(mut all)) = sessions(engine, Some(number)).await?.pop() else { return Ok(None) };
    let held = engine.scan(&Scan::Sustained { limit: usize::MAX }).await?;
    let inodes: Vec<Value> = held
        .into_iter()
        .filter_map(|(key, _)| match key {
            Key::Sustained { session, ino } if session == number => Some(ino.0.into()),
            _ => None,
        })
        .collect();
    all.insert("Sustained".into(), inodes.into());
    serde_json::to_string_pretty(&all).map(Some).map_err(|e| EngineError::Failed(e.to_string()))
}

/// Bytes and inodes in use.
pub async fn usage(engine: &dyn Engine) -> Result<(u64, u64), EngineError> {
    let used = [Counter::UsedSpace, Counter::TotalInodes].map(Key::Counter);
    let found = engine.read(&used).await?;
    let count = |place: usize| match found.get(place) {
        Some(Some(Record::Count(n))) => u64::try_from(*n).unwrap_or(0),
        _ => 0,
    };
    Ok((count(0), count(1)))
}

/// Sessions with the versions they report.
pub async fn versions(engine: &dyn Engine) -> Result<Vec<(u64, String)>, EngineError> {
    let word = |session: &Value, name: &str| {
        session.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let number = |session: &Value| session.get("Sid").and_then(Value::as_u64).unwrap_or(0);
    let all = sessions(engine, None).await?;
    Ok(all.iter().map(|session| (number(session), word(session, "Version"))).collect())
}

/// The text, JSON with two spaces of indent.
pub async fn report(
    engine: &dyn Engine,
    settings: &Settings,
    findings: Vec<Finding>,
    mounts: Vec<Value>,
) -> Result<String, EngineError> {
    let mut setting = settings.clone();
    secrets::mask(&mut setting);
    let (space, inodes) = usage(engine).await?;
    let stat = stat(space, inodes, settings.capacity, settings.inodes);
    let status = Status { setting, sessions: sessions(engine, None).await?, stat, findings, mounts };
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
