//! Keys of other programs in the database of a volume: found by looking at a page of names at a time, further with each
//! look. Knows the names of the volume format, and nobody else's. Source: volume format, Redis engine.

use super::RedisEngine;
use super::record::list;
use parking_lot::Mutex;
use redis::Value;
use std::collections::BTreeSet;
use zest_metadata::EngineError;

/// Names in a page.
const PAGE: usize = 500;
/// Names of strangers that are remembered.
const NAMED: usize = 4;
/// Bytes of a name that are shown.
const SHOWN: usize = 40;

/// Keys with one name.
const WHOLE: &[&str] = &[
    "setting",
    "nextinode",
    "nextchunk",
    "nextsession",
    "nextTrash",
    "usedSpace",
    "totalInodes",
    "aclMaxId",
    "lastCleanupSessions",
    "lastCleanupFiles",
    "lastCleanupTrash",
    "nextCleanupSlices",
    "delfiles",
    "sliceRef",
    "delSlices",
    "allSessions",
    "sessions",
    "sessionInfos",
    "dirDataLength",
    "dirUsedSpace",
    "dirUsedInodes",
    "detachedNodes",
    "acl",
    "dirQuota",
    "dirQuotaUsedSpace",
    "dirQuotaUsedInodes",
    "userQuota",
    "userQuotaUsedSpace",
    "userQuotaUsedInodes",
    "groupQuota",
    "groupQuotaUsedSpace",
    "groupQuotaUsedInodes",
    "lastCleanupChangelog",
    "krbToken",
    "txnLog",
    "txnLastLog",
];
/// Keys with a number behind the name.
const NUMBERED: &[&str] = &["i", "d", "p", "s", "x", "c", "lockf", "lockp", "session", "locked"];

/// What was found so far.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<(u64, BTreeSet<String>)>);

/// Looks at one page more; the strangers found so far.
pub(crate) async fn look(engine: &RedisEngine) -> Result<Vec<String>, EngineError> {
    let from = engine.strangers.0.lock().0;
    let mut scan = redis::cmd("SCAN");
    scan.arg(from).arg("COUNT").arg(PAGE);
    let odd = || EngineError::Failed(format!("{}: SCAN answered something else", engine.url()));
    let (next, page) = match engine.ask(&scan).await? {
        Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
            Ok([next, page]) => (super::record::text(next).map_err(|_| odd())?.unwrap_or_default(), page),
            Err(_) => return Err(odd()),
        },
        _ => return Err(odd()),
    };
    let names = list(page).map_err(|_| odd())?;
    let mut found = engine.strangers.0.lock();
    found.0 = next.parse().unwrap_or(0);
    for name in names.iter().filter(|name| !is_known(name, engine.link.prefix())) {
        if found.1.len() < NAMED {
            let end = name.len().min(SHOWN);
            found.1.insert(String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned());
        }
    }
    Ok(found.1.iter().cloned().collect())
}

/// Whether a volume has a key of this name. In a cluster volumes share a database, each with its prefix.
fn is_known(name: &[u8], prefix: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match (prefix.is_empty(), name.strip_prefix('{').and_then(|rest| rest.split_once('}'))) {
        (false, Some((number, rest))) if digits(number) => rest,
        (false, _) => return false,
        (true, _) => name,
    };
    let numbered = |kind: &str| {
        name.strip_prefix(kind).is_some_and(|rest| match rest.split_once('_') {
            Some((ino, index)) => kind == "c" && digits(ino) && digits(index),
            None => digits(rest) && kind != "c",
        })
    };
    WHOLE.contains(&name) || NUMBERED.iter().any(|kind| numbered(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::place::Places;
    use zest_metadata::{Counter, Key};
    use zest_types::{Ino, Name, SliceId};

    #[test]
    fn keys_of_a_volume_are_known_and_others_are_not() {
        let name = Name::new(b"x").unwrap();
        let ours = [
            Key::Setting,
            Key::Counter(Counter::NextInode),
            Key::Counter(Counter::NextSlice),
            Key::Counter(Counter::NextSession),
            Key::Counter(Counter::NextTrash),
            Key::Counter(Counter::UsedSpace),
            Key::Counter(Counter::TotalInodes),
            Key::Counter(Counter::AclMaxId),
            Key::Counter(Counter::LastCleanupSessions),
            Key::Counter(Counter::LastCleanupFiles),
            Key::Counter(Counter::LastCleanupTrash),
            Key::Counter(Counter::NextCleanupSlices),
            Key::Attr(Ino(7)),
            Key::Dentry(Ino(7), name.clone()),
            Key::Parent { ino: Ino(7), parent: Ino(1) },
            Key::Chunk(Ino(7), 3),
            Key::Symlink(Ino(7)),
            Key::Xattr(Ino(7), name),
            Key::Flocks(Ino(7)),
            Key::RangeLocks(Ino(7)),
            Key::Deleted { ino: Ino(7), length: 1 },
            Key::SliceRef { id: SliceId(7), size: 1 },
            Key::DelayedSlices { stamp: 1, id: SliceId(1) },
            Key::SessionExpiry(7),
            Key::SessionInfo(7),
            Key::Sustained { session: 7, ino: Ino(7) },
            Key::DirStat(Ino(7)),
            Key::Detached(Ino(7)),
            Key::DirQuota(Ino(7)),
            Key::UserQuota(7),
            Key::GroupQuota(7),
            Key::AclRule(7),
        ];
        for prefix in [&b""[..], b"{3}"] {
            let places = Places { prefix: prefix.to_vec() };
            for key in &ours {
                for stored in places.of(key).keys() {
                    assert!(is_known(stored, prefix), "{key:?} {}", String::from_utf8_lossy(stored));
                }
            }
            assert!(is_known(&places.locked(7), prefix));
        }
        assert!(is_known(b"{4}i7", b"{3}"), "another volume of the cluster");
        for stranger in ["user:7", "i", "i7x", "c7", "i7_3", "queue", "{1}i7", "settings", "", "sess:1"] {
            assert!(!is_known(stranger.as_bytes(), b""), "{stranger}");
        }
        assert!(!is_known(b"i7", b"{3}") && !is_known(b"{user}i7", b"{3}") && !is_known(b"\xff", b""));
    }
}
