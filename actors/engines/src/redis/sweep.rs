//! All records that name slices: chunk lists by a walk through the keys of the database, then what compaction
//! replaced and the counters by walks through their hashes, then counters of old clients, which are keys of their own.
//! A walk promises only what one server promises of itself, so a page says which server gave it.

use super::RedisEngine;
use super::record::{bytes, decode, list, text};
use super::scan::{BATCH, number, some_fields, two};
use redis::{Pipeline, Value};
use zest_metadata::{EngineError, Key, Record, SlicePage};
use zest_types::{Ino, SliceId};

fn failed(why: impl Into<String>) -> EngineError {
    EngineError::Failed(why.into())
}

/// Where a walk is: which part of it, the server's cursor, and which server.
struct Place {
    part: u8,
    cursor: Vec<u8>,
    server: Vec<u8>,
}

impl Place {
    fn read(mark: &[u8]) -> Option<Place> {
        let (part, rest) = mark.split_first()?;
        let end = rest.iter().position(|byte| *byte == b' ')?;
        let (cursor, server) = (rest.get(..end)?.to_vec(), rest.get(end + 1..)?.to_vec());
        Some(Place { part: *part, cursor, server })
    }

    fn write(&self) -> Vec<u8> {
        [&[self.part], &self.cursor[..], b" ", &self.server[..]].concat()
    }
}

/// The id a server has from its start to its end.
async fn server(engine: &RedisEngine) -> Result<Vec<u8>, EngineError> {
    let info = engine.ask(redis::cmd("INFO").arg("server")).await?;
    let lines = text(info).map_err(failed)?.unwrap_or_default();
    Ok(lines.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim().into())
}

pub(crate) async fn slices(engine: &RedisEngine, from: Option<Vec<u8>>) -> Result<SlicePage, EngineError> {
    let place = match from {
        None => Place { part: 0, cursor: b"0".to_vec(), server: server(engine).await? },
        Some(mark) => Place::read(&mark).ok_or_else(|| failed("a place no page gave"))?,
    };
    let (cursor, found) = match place.part {
        0 => keys(engine, &place.cursor, b"c[0-9]*", chunk_key).await?,
        1 => {
            let hash = engine.places.name("delSlices");
            some_fields(engine, &hash, &place.cursor, BATCH, &delayed_key).await?
        }
        2 => {
            let hash = engine.places.name("sliceRef");
            some_fields(engine, &hash, &place.cursor, BATCH, &counter_key).await?
        }
        _ => keys(engine, &place.cursor, b"k[0-9]*", counter_key).await?,
    };
    if server(engine).await? != place.server {
        return Err(failed(
            "another server answers than before: what was listed so far may lack something; try again",
        ));
    }
    let part = if cursor == b"0" { place.part.saturating_add(1) } else { place.part };
    let next = (part < 4).then(|| Place { part, cursor, server: place.server }.write());
    Ok((found, next))
}

fn two_numbers(text: &[u8]) -> Option<(u64, u64)> {
    let at = text.iter().position(|byte| *byte == b'_')?;
    Some((number(text.get(..at)?)?, number(text.get(at + 1..)?)?))
}

fn chunk_key(name: &[u8]) -> Option<Key> {
    let (ino, index) = two_numbers(name.strip_prefix(b"c")?)?;
    Some(Key::Chunk(Ino(ino), u32::try_from(index).ok()?))
}

fn delayed_key(field: &[u8]) -> Option<Key> {
    let (id, stamp) = two_numbers(field)?;
    Some(Key::DelayedSlices { stamp: i64::try_from(stamp).ok()?, id: SliceId(id) })
}

fn counter_key(field: &[u8]) -> Option<Key> {
    let (id, size) = two_numbers(field.strip_prefix(b"k")?)?;
    Some(Key::SliceRef { id: SliceId(id), size: u32::try_from(size).ok()? })
}

/// One step of a walk through the database: where it goes on, and the records under the keys of one kind.
async fn keys(
    engine: &RedisEngine,
    cursor: &[u8],
    pattern: &[u8],
    key: impl Fn(&[u8]) -> Option<Key>,
) -> Result<(Vec<u8>, Vec<(Key, Record)>), EngineError> {
    let odd = || failed("a walk without an answer");
    let mut command = redis::cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(engine.places.name(pattern)).arg("COUNT").arg(BATCH);
    let Value::Array(parts) = engine.ask(&command).await? else { return Err(odd()) };
    let (Some(next), Some(names)) = two(parts) else { return Err(odd()) };
    let next = bytes(next).map_err(failed)?.unwrap_or_else(|| b"0".to_vec());
    let prefix = engine.places.prefix.len();
    let mut wanted = Vec::new();
    let mut pipeline = Pipeline::new();
    for name in list(names).map_err(failed)? {
        let Some(key) = name.get(prefix..).and_then(&key) else { continue };
        match key {
            Key::Chunk(..) => pipeline.cmd("LRANGE").arg(&name[..]).arg(0).arg(-1),
            _ => pipeline.cmd("GET").arg(&name[..]),
        };
        wanted.push(key);
    }
    let answers = if wanted.is_empty() { Vec::new() } else { engine.ask_all(&pipeline).await? };
    if answers.len() != wanted.len() {
        return Err(failed("the server gave fewer answers than questions"));
    }
    let mut found = Vec::new();
    for (key, answer) in wanted.into_iter().zip(answers) {
        if let Some(record) = decode(&key, answer)? {
            found.push((key, record));
        }
    }
    Ok((next, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_format_writes_them() {
        assert_eq!(chunk_key(b"c12_3"), Some(Key::Chunk(Ino(12), 3)));
        assert_eq!(delayed_key(b"6_5"), Some(Key::DelayedSlices { stamp: 5, id: SliceId(6) }));
        assert_eq!(counter_key(b"k77_65536"), Some(Key::SliceRef { id: SliceId(77), size: 65536 }));
        for foreign in [&b"c1"[..], b"c1_", b"c_1", b"c1_99999999999", b"cleanup", b"", b"d1_2"] {
            assert_eq!(chunk_key(foreign), None);
        }
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = Place { part: 1, cursor: b"281".to_vec(), server: b"abc".to_vec() };
        let read = Place::read(&place.write()).unwrap();
        assert_eq!((read.part, read.cursor, read.server), (1, b"281".to_vec(), b"abc".to_vec()));
        assert!(Place::read(b"").is_none() && Place::read(b"x").is_none());
    }
}
