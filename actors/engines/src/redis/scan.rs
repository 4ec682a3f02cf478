//! What scans find. Redis has no order of keys: each kind of record is found through the structure that holds it.

use super::RedisEngine;
use super::listing::{Listing, behind};
use super::record::{bytes, damaged, decode, list, pairs};
use redis::{Pipeline, Value};
use zest_metadata::{EngineError, Key, Record, Scan};
use zest_types::limits::CHUNK_SIZE;
use zest_types::{Ino, Name, SliceId};

/// Fields or keys asked for at once.
pub(super) const BATCH: usize = 4096;

fn odd(why: &'static str) -> EngineError {
    EngineError::Failed(why.into())
}

pub(crate) async fn scan(engine: &RedisEngine, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
    match scan {
        Scan::Dentries { dir, after, limit } => entries(engine, *dir, after.as_ref(), *limit).await,
        Scan::Parents(ino) => {
            let hash = engine.places.parents(*ino);
            fields(engine, &hash, |text| Some(Key::Parent { ino: *ino, parent: Ino(number(text)?) })).await
        }
        Scan::Xattrs(ino) => {
            let hash = engine.places.xattrs(*ino);
            fields(engine, &hash, |name| Some(Key::Xattr(*ino, Name::attribute(name).ok()?))).await
        }
        Scan::Chunks { ino, from, limit } => chunks(engine, *ino, *from, *limit).await,
        Scan::Deleted { limit } => {
            let set = engine.places.name("delfiles");
            scored(engine, &set, *limit, |member| {
                let text = std::str::from_utf8(member).ok()?;
                let (ino, length) = text.split_once(':')?;
                // Very old members have something between the two.
                let length = length.rsplit(':').next()?;
                Some(Key::Deleted { ino: Ino(ino.parse().ok()?), length: length.parse().ok()? })
            })
            .await
        }
        Scan::Sustained { limit } => sustained(engine, *limit).await,
        Scan::Sessions { limit } => {
            let set = engine.places.name("allSessions");
            scored(engine, &set, *limit, |member| Some(Key::SessionExpiry(number(member)?))).await
        }
        Scan::SliceRefs { .. } => {
            let hash = engine.places.name("sliceRef");
            fields(engine, &hash, |field| {
                let text = std::str::from_utf8(field).ok()?;
                let (id, size) = text.strip_prefix('k')?.split_once('_')?;
                Some(Key::SliceRef { id: SliceId(id.parse().ok()?), size: size.parse().ok()? })
            })
            .await
        }
        Scan::Delayed { limit } => {
            let hash = engine.places.name("delSlices");
            let mut found = fields(engine, &hash, |field| {
                let (id, stamp) = std::str::from_utf8(field).ok()?.split_once('_')?;
                Some(Key::DelayedSlices { stamp: stamp.parse().ok()?, id: SliceId(id.parse().ok()?) })
            })
            .await?;
            found.truncate(*limit);
            Ok(found)
        }
        Scan::Detached { limit } => {
            let set = engine.places.name("detachedNodes");
            scored(engine, &set, *limit, |member| Some(Key::Detached(Ino(number(member)?)))).await
        }
        Scan::DirQuotas { limit } | Scan::UserQuotas { limit } | Scan::GroupQuotas { limit } => {
            quotas(engine, scan, *limit).await
        }
        Scan::Flocks { session } => {
            let command = locked(engine, *session);
            named(engine, &command, usize::MAX, |name| Some(Key::Flocks(locked_ino(engine, name, "lockf")?)))
                .await
        }
        Scan::RangeLocks { session } => {
            let command = locked(engine, *session);
            named(engine, &command, usize::MAX, |name| {
                Some(Key::RangeLocks(locked_ino(engine, name, "lockp")?))
            })
            .await
        }
    }
}

/// Quotas of one kind: their limits are the values of a hash.
async fn quotas(engine: &RedisEngine, scan: &Scan, limit: usize) -> Result<Vec<(Key, Record)>, EngineError> {
    let (hash, key): (&str, fn(u64) -> Option<Key>) = match scan {
        Scan::UserQuotas { .. } => ("userQuota", |id| Some(Key::UserQuota(id.try_into().ok()?))),
        Scan::GroupQuotas { .. } => ("groupQuota", |id| Some(Key::GroupQuota(id.try_into().ok()?))),
        _ => ("dirQuota", |id| Some(Key::DirQuota(Ino(id)))),
    };
    let mut command = redis::cmd("HKEYS");
    command.arg(engine.places.name(hash));
    named(engine, &command, limit, |name| key(number(name)?)).await
}

fn locked(engine: &RedisEngine, session: u64) -> redis::Cmd {
    let mut command = redis::cmd("SMEMBERS");
    command.arg(engine.places.locked(session));
    command
}

/// The inode in the name of a lock record's key.
fn locked_ino(engine: &RedisEngine, name: &[u8], kind: &str) -> Option<Ino> {
    number(name.strip_prefix(&engine.places.name(kind)[..])?).map(Ino)
}

/// The records whose names a command lists.
async fn named(
    engine: &RedisEngine,
    command: &redis::Cmd,
    limit: usize,
    key: impl Fn(&[u8]) -> Option<Key>,
) -> Result<Vec<(Key, Record)>, EngineError> {
    let names = list(engine.ask(command).await?).map_err(odd)?;
    let mut keys: Vec<Key> = names.iter().filter_map(|name| key(name)).collect();
    keys.sort();
    keys.truncate(limit);
    let records = super::read::read(engine, &keys).await?;
    Ok(keys.into_iter().zip(records).filter_map(|(key, record)| Some((key, record?))).collect())
}

pub(crate) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Entries of a directory. What can't be a name is passed over, as other clients do.
async fn entries(
    engine: &RedisEngine,
    dir: Ino,
    after: Option<&Name>,
    limit: usize,
) -> Result<Vec<(Key, Record)>, EngineError> {
    let now = engine.world.clock.mono();
    if let Some(listing) = after.and_then(|name| engine.listings.with(dir, name, now)) {
        return Ok(behind(&listing, dir, after, limit));
    }
    let hash = engine.places.entries(dir);
    let key = |name: &[u8]| Some(Key::Dentry(dir, Name::new(name).ok()?));
    let (next, mut found) =
        some_fields(engine, &hash, b"0", if limit <= 1 { 1 } else { BATCH }, &key).await?;
    // Whether there is anything at all is often all that is asked.
    if limit == 1 && after.is_none() && !found.is_empty() {
        return Ok(found);
    }
    rest(engine, &hash, next, &mut found, &key).await?;
    let listing: Listing = sorted(found).into();
    let part = behind(&listing, dir, after, limit);
    if part.len() == limit && limit > 1 {
        engine.listings.keep(dir, listing, now);
    }
    Ok(part)
}

/// In the order of keys; a walk through a hash may give a field twice.
fn sorted(mut found: Vec<(Key, Record)>) -> Vec<(Key, Record)> {
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found.dedup_by(|(a, _), (b, _)| a == b);
    found
}

/// All records that are fields of a hash.
async fn fields(
    engine: &RedisEngine,
    hash: &[u8],
    key: impl Fn(&[u8]) -> Option<Key>,
) -> Result<Vec<(Key, Record)>, EngineError> {
    let (next, mut found) = some_fields(engine, hash, b"0", BATCH, &key).await?;
    rest(engine, hash, next, &mut found, &key).await?;
    Ok(sorted(found))
}

async fn rest(
    engine: &RedisEngine,
    hash: &[u8],
    mut cursor: Vec<u8>,
    found: &mut Vec<(Key, Record)>,
    key: &impl Fn(&[u8]) -> Option<Key>,
) -> Result<(), EngineError> {
    while cursor != b"0" {
        let (next, more) = some_fields(engine, hash, &cursor, BATCH, key).await?;
        found.extend(more);
        cursor = next;
    }
    Ok(())
}

/// One step of a walk through a hash: where it goes on, and what was found.
pub(super) async fn some_fields(
    engine: &RedisEngine,
    hash: &[u8],
    cursor: &[u8],
    count: usize,
    key: &impl Fn(&[u8]) -> Option<Key>,
) -> Result<(Vec<u8>, Vec<(Key, Record)>), EngineError> {
    let mut command = redis::cmd("HSCAN");
    command.arg(hash).arg(cursor).arg("COUNT").arg(count);
    let Value::Array(parts) = engine.ask(&command).await? else {
        return Err(odd("a walk without an answer"));
    };
    let (Some(next), Some(found)) = two(parts) else { return Err(odd("a walk without an answer")) };
    let next = bytes(next).map_err(odd)?.unwrap_or_else(|| b"0".to_vec());
    let mut records = Vec::new();
    for (field, value) in pairs(found).map_err(odd)? {
        let Some(key) = key(&field) else { continue };
        if let Some(record) = decode(&key, Value::BulkString(value))? {
            records.push((key, record));
        }
    }
    Ok((next, records))
}

pub(super) fn two(parts: Vec<Value>) -> (Option<Value>, Option<Value>) {
    let mut parts = parts.into_iter();
    (parts.next(), parts.next())
}

/// The members of a sorted set with the lowest scores.
async fn scored(
    engine: &RedisEngine,
    set: &[u8],
    limit: usize,
    key: impl Fn(&[u8]) -> Option<Key>,
) -> Result<Vec<(Key, Record)>, EngineError> {
    let last = i64::try_from(limit).unwrap_or(i64::MAX).saturating_sub(1);
    let mut command = redis::cmd("ZRANGE");
    command.arg(set).arg(0).arg(last).arg("WITHSCORES");
    let Value::Array(parts) = engine.ask(&command).await? else { return Err(odd("a set without an answer")) };
    // The newer protocol gives pairs, the older one a flat list.
    let mut flat = Vec::new();
    for part in parts {
        match part {
            Value::Array(pair) => flat.extend(pair),
            other => flat.push(other),
        }
    }
    let mut flat = flat.into_iter();
    let mut found = Vec::new();
    while let (Some(member), Some(score)) = (flat.next(), flat.next()) {
        let member = bytes(member).map_err(odd)?.unwrap_or_default();
        let Some(key) = key(&member) else { continue };
        if let Some(record) = decode(&key, score)? {
            found.push((key, record));
        }
    }
    Ok(found)
}

async fn sustained(engine: &RedisEngine, limit: usize) -> Result<Vec<(Key, Record)>, EngineError> {
    let sessions = scored(engine, &engine.places.name("allSessions"), usize::MAX, |member| {
        Some(Key::SessionExpiry(number(member)?))
    })
    .await?;
    let mut found = Vec::new();
    for batch in sessions.chunks(BATCH) {
        let mut pipeline = Pipeline::new();
        let ids = batch.iter().filter_map(|(key, _)| match key {
            Key::SessionExpiry(session) => Some(*session),
            _ => None,
        });
        let ids: Vec<u64> = ids.collect();
        for session in &ids {
            pipeline.cmd("SMEMBERS").arg(engine.places.sustained(*session));
        }
        for (session, members) in ids.iter().zip(engine.ask_all(&pipeline).await?) {
            for member in list(members).map_err(odd)? {
                let ino = number(&member).map(Ino);
                found.extend(ino.map(|ino| (Key::Sustained { session: *session, ino }, Record::Mark)));
            }
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok(found)
}

/// The last chunk a file can have: by its attributes, or by the length it was deleted with. Who looks at a deleted
/// file from the middle on knows its length, and asks for what may be behind: of that nothing is found.
async fn last_chunk(engine: &RedisEngine, ino: Ino, from: u32) -> Result<Option<u32>, EngineError> {
    let found = super::read::read(engine, &[Key::Attr(ino)]).await?;
    let length = match found.into_iter().next().flatten() {
        Some(Record::Attr(attr)) => Some(attr.length),
        _ if from > 0 => None,
        _ => deleted_length(engine, ino).await?,
    };
    Ok(length.map(|length| u32::try_from(length / CHUNK_SIZE).unwrap_or(u32::MAX)))
}

async fn deleted_length(engine: &RedisEngine, ino: Ino) -> Result<Option<u64>, EngineError> {
    let mut cursor = b"0".to_vec();
    loop {
        let mut command = redis::cmd("ZSCAN");
        command.arg(engine.places.name("delfiles")).arg(&cursor[..]);
        command.arg("MATCH").arg(format!("{ino}:*")).arg("COUNT").arg(BATCH);
        let Value::Array(parts) = engine.ask(&command).await? else {
            return Err(odd("a walk without an answer"));
        };
        let (Some(next), Some(members)) = two(parts) else { return Err(odd("a walk without an answer")) };
        for member in list(members).map_err(odd)?.iter().step_by(2) {
            let length = member.rsplit(|b| *b == b':').next().and_then(number);
            if length.is_some() {
                return Ok(length);
            }
        }
        cursor = bytes(next).map_err(odd)?.unwrap_or_else(|| b"0".to_vec());
        if cursor == b"0" {
            return Ok(None);
        }
    }
}

/// Chunk lists up to the end of the file. Lists behind it, which a truncation leaves, are not found.
async fn chunks(
    engine: &RedisEngine,
    ino: Ino,
    from: u32,
    limit: usize,
) -> Result<Vec<(Key, Record)>, EngineError> {
    let Some(last) = last_chunk(engine, ino, from).await? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let mut next = u64::from(from);
    while next <= u64::from(last) && found.len() < limit {
        let end = (next + BATCH as u64).min(u64::from(last) + 1);
        let indexes: Vec<u32> = (next..end).filter_map(|index| u32::try_from(index).ok()).collect();
        let mut pipeline = Pipeline::new();
        for index in &indexes {
            pipeline.cmd("LRANGE").arg(engine.places.chunk(ino, *index)).arg(0).arg(-1);
        }
        for (index, answer) in indexes.iter().zip(engine.ask_all(&pipeline).await?) {
            let key = Key::Chunk(ino, *index);
            if let Some(record) = decode(&key, answer)? {
                found.push((key, record));
            }
        }
        next = end;
    }
    if found.iter().any(|(key, _)| !matches!(key, Key::Chunk(i, _) if *i == ino)) {
        return Err(damaged(&Key::Attr(ino), "a chunk of another file"));
    }
    Ok(found)
}
