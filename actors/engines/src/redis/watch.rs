//! Commits without scripts: the keys are watched, read, met with the change set by `apply`, and written in one
//! transaction, which fails when somebody changed one of them meanwhile. Slower than the script, same meaning.

use super::link::Miss;
use super::place::Place;
use super::read::{ask, take};
use super::record::{Values, decode, encode, pairs};
use super::scan::number;
use super::{Patience, RedisEngine};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zest_metadata::apply::{Records, Refused, apply};
use zest_metadata::{Applied, ChangeSet, CommitError, EngineError, Key, Record, Scan};
use zest_types::{Ino, Name, limits};
use zest_world::planted::{self, Bug};

/// What was read, and what is missing so far.
#[derive(Default)]
struct Seen {
    records: BTreeMap<Key, Option<Record>>,
    scans: BTreeMap<Scan, Vec<(Key, Record)>>,
    missing: Mutex<(BTreeSet<Key>, BTreeSet<Scan>)>,
}

fn missing() -> EngineError {
    EngineError::Failed("not read yet".into())
}

impl Records for Seen {
    fn get(&self, key: &Key) -> Result<Option<Record>, EngineError> {
        self.records.get(key).cloned().ok_or_else(|| {
            self.missing.lock().0.insert(key.clone());
            missing()
        })
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
        self.scans.get(scan).cloned().ok_or_else(|| {
            self.missing.lock().1.insert(scan.clone());
            missing()
        })
    }
}

/// Why a try did not come to its end.
enum Stop {
    /// That is the answer.
    Final(CommitError),
    /// Nothing was written.
    Passing(Miss),
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Stop {
        Stop::Final(error.into())
    }
}

/// Commits a change set.
pub(crate) async fn commit(engine: &RedisEngine, changes: &ChangeSet) -> Result<Applied, CommitError> {
    let mut patience = Patience::new(&engine.world);
    let mut attempt = 0;
    // What passes by itself is no attempt: patience has an end of its own.
    while attempt < limits::TXN_RETRIES {
        let tried = match engine.link.exclusive().await {
            Ok(mut connection) => once(engine, &mut connection, changes).await,
            Err(miss) => Err(Stop::Passing(miss)),
        };
        match tried {
            Ok(Some(applied)) => return Ok(applied),
            Ok(None) => {}
            Err(Stop::Final(error)) => return Err(error),
            Err(Stop::Passing(miss)) => {
                patience.bear(engine, miss).await?;
                continue;
            }
        }
        let most = u64::from(attempt).saturating_mul(u64::from(attempt)).clamp(1, 100);
        let pause = engine.world.chance.next_u64() % most;
        engine.world.clock.sleep(Duration::from_millis(pause)).await;
        attempt += 1;
    }
    Err(EngineError::Failed(format!("{}: others change the same records all the time", engine.url())).into())
}

/// One try; `None` when somebody else was faster.
async fn once(
    engine: &RedisEngine,
    connection: &mut MultiplexedConnection,
    changes: &ChangeSet,
) -> Result<Option<Applied>, Stop> {
    let mut seen = Seen::default();
    let decided = loop {
        let decided = apply(changes, &seen);
        let (keys, scans) = std::mem::take(&mut *seen.missing.lock());
        if keys.is_empty() && scans.is_empty() {
            break decided;
        }
        look(engine, connection, &mut seen, keys, scans).await.map_err(|error| before(engine, error))?;
    };
    let records = match decided {
        Ok(records) => records,
        Err(Refused::Conflict(found)) => {
            // What was read one after the other is of one moment only if nobody has changed it since.
            let confirm = redis::pipe().atomic().cmd("PING").query_async::<Value>(connection).await;
            return match confirm.map_err(|error| before(engine, error))? {
                Value::Nil if !planted::active(Bug::ConflictUnconfirmed) => Ok(None),
                _ => Err(Stop::Final(CommitError::Conflict(found))),
            };
        }
        Err(Refused::Engine(error)) => return Err(error.into()),
    };
    let mut pipeline = Pipeline::new();
    pipeline.atomic();
    for (key, record) in &records {
        write(engine, &mut pipeline, key, record.as_ref(), seen.records.get(key).and_then(Option::as_ref))?;
    }
    match pipeline.query_async::<Value>(connection).await {
        Ok(Value::Nil) if !planted::active(Bug::AbortTakenForDone) => Ok(None),
        Ok(_) => Ok(Some(Applied { records: records.into_iter().collect(), grown: Vec::new() })),
        Err(error) if error.is_io_error() || error.is_connection_dropped() => {
            Err(Stop::Final(CommitError::Unknown(error.to_string())))
        }
        Err(error) => Err(before(engine, error)),
    }
}

/// Nothing was written yet: what passes by itself is waited for.
fn before(engine: &RedisEngine, error: RedisError) -> Stop {
    let text = error.to_string();
    if error.is_io_error() || error.is_connection_dropped() {
        return Stop::Passing(Miss::Unknown(text));
    }
    match ["OOM", "MISCONF"].iter().any(|word| text.contains(word)) {
        true => super::refusal(engine.url(), &error).into(),
        false => Stop::Passing(Miss::Server(error)),
    }
}

/// Watches and reads what is missing.
async fn look(
    engine: &RedisEngine,
    connection: &mut MultiplexedConnection,
    seen: &mut Seen,
    keys: BTreeSet<Key>,
    scans: BTreeSet<Scan>,
) -> Result<(), RedisError> {
    let places: Vec<(Key, Place)> =
        keys.into_iter().map(|key| (key.clone(), engine.places.of(&key))).collect();
    let hashes: Vec<(Scan, Vec<u8>)> = scans
        .into_iter()
        .map(|scan| {
            let hash = match &scan {
                Scan::Parents(ino) => engine.places.parents(*ino),
                Scan::Xattrs(ino) => engine.places.xattrs(*ino),
                Scan::Dentries { dir, .. } => engine.places.entries(*dir),
                _ => Vec::new(),
            };
            (scan, hash)
        })
        .collect();
    let mut watch = redis::cmd("WATCH");
    places.iter().flat_map(|(_, place)| place.keys()).chain(hashes.iter().map(|(_, hash)| hash)).for_each(
        |key| {
            watch.arg(&key[..]);
        },
    );
    if !planted::active(Bug::WatchForgotten) {
        connection.send_packed_command(&watch).await?;
    }
    let mut pipeline = Pipeline::new();
    for (_, place) in &places {
        ask(&mut pipeline, place);
    }
    for (_, hash) in &hashes {
        pipeline.cmd("HGETALL").arg(&hash[..]);
    }
    let mut answers = pipeline.query_async::<Vec<Value>>(connection).await?.into_iter();
    for (key, place) in places {
        let record = take(&place, &mut answers).map(|answer| decode(&key, answer));
        seen.records.insert(key, record.transpose().map_err(broken)?.flatten());
    }
    for (scan, _) in hashes {
        let mut found = Vec::new();
        for (field, value) in pairs(answers.next().unwrap_or_default()).unwrap_or_default() {
            let Some(key) = key_of(&scan, &field) else { continue };
            if let Some(record) = decode(&key, Value::BulkString(value)).map_err(broken)? {
                found.push((key, record));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.truncate(scan.limit());
        seen.scans.insert(scan, found);
    }
    Ok(())
}

fn broken(error: EngineError) -> RedisError {
    RedisError::from((redis::ErrorKind::UnexpectedReturnType, "damaged record", error.to_string()))
}

fn key_of(scan: &Scan, field: &[u8]) -> Option<Key> {
    Some(match scan {
        Scan::Parents(ino) => Key::Parent { ino: *ino, parent: Ino(number(field)?) },
        Scan::Xattrs(ino) => Key::Xattr(*ino, Name::attribute(field).ok()?),
        Scan::Dentries { dir, .. } => Key::Dentry(*dir, Name::new(field).ok()?),
        _ => return None,
    })
}

/// The commands that make a record what it shall be.
fn write(
    engine: &RedisEngine,
    pipeline: &mut Pipeline,
    key: &Key,
    new: Option<&Record>,
    old: Option<&Record>,
) -> Result<(), EngineError> {
    let place = engine.places.of(key);
    let values = new.map(|record| encode(key, record)).transpose()?;
    let values = values.filter(|values| !matches!(values, Values::Fields(fields) if fields.is_empty()));
    match (&place, values) {
        (Place::Whole(at), Some(Values::One(value))) => {
            pipeline.cmd("SET").arg(at).arg(value);
        }
        (Place::Field(at, field), Some(Values::One(value))) => {
            pipeline.cmd("HSET").arg(at).arg(field).arg(value);
        }
        (Place::Score(at, member), Some(Values::One(value))) => {
            pipeline.cmd("ZADD").arg(at).arg(value).arg(member);
        }
        (Place::Member(at, member), Some(_)) => {
            pipeline.cmd("SADD").arg(at).arg(member);
        }
        (Place::List(at), Some(Values::List(list))) => {
            pipeline.cmd("DEL").arg(at).cmd("RPUSH").arg(at).arg(list);
        }
        (Place::Hash(at), Some(Values::Fields(fields))) => {
            pipeline.cmd("DEL").arg(at).cmd("HSET").arg(at);
            for (field, value) in fields {
                pipeline.arg(field).arg(value);
            }
        }
        (Place::Three(keys, field), Some(Values::Three(values))) => {
            for (at, value) in keys.iter().zip(values) {
                pipeline.cmd("HSET").arg(at).arg(field).arg(value);
            }
        }
        (Place::Whole(at) | Place::List(at) | Place::Hash(at), _) => {
            pipeline.cmd("DEL").arg(at);
        }
        (Place::Field(at, field), _) => {
            pipeline.cmd("HDEL").arg(at).arg(field);
        }
        (Place::Score(at, member), _) => {
            pipeline.cmd("ZREM").arg(at).arg(member);
        }
        (Place::Member(at, member), _) => {
            pipeline.cmd("SREM").arg(at).arg(member);
        }
        (Place::Three(keys, field), _) => {
            for at in keys {
                pipeline.cmd("HDEL").arg(at).arg(field);
            }
        }
    }
    super::commit::moved_sessions(key, new, old).into_iter().for_each(|(command, session)| {
        if let Place::Hash(at) = &place {
            pipeline.cmd(command).arg(engine.places.locked(session)).arg(at);
        }
    });
    Ok(())
}
