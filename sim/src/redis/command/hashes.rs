//! Commands on hashes.

use super::{Fail, Reply, WRONG_TYPE, integer_at, no_integer, scan, syntax};
use crate::redis::number::integer;
use crate::redis::resp::Frame;
use crate::redis::value::{Database, Text, Value};
use std::collections::BTreeMap;

type Map = BTreeMap<Text, Text>;

fn empty() -> Value {
    Value::Hash(Map::new())
}

fn see<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&Map) -> R) -> Result<R, Fail> {
    match db.get(key) {
        None => Ok(f(&Map::new())),
        Some(Value::Hash(map)) => Ok(f(map)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn edit<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&mut Map) -> R) -> Result<R, Fail> {
    db.change(key, empty, |value| match value {
        Value::Hash(map) => Ok(f(map)),
        _ => Err(WRONG_TYPE.into()),
    })
}

pub(super) fn hget(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| Frame::maybe(map.get(&args[2])))
}

fn insert(db: &mut Database, args: &[Text]) -> Result<usize, Fail> {
    let pairs = || args[2..].chunks_exact(2);
    let added = edit(db, &args[1], |map| {
        pairs().filter(|pair| map.insert(pair[0].clone(), pair[1].clone()).is_none()).count()
    })?;
    db.changed(&args[1], pairs().count());
    Ok(added)
}

pub(super) fn hset(db: &mut Database, args: &[Text]) -> Reply {
    if !args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'hset' command".into());
    }
    insert(db, args).map(Frame::count)
}

pub(super) fn hmset(db: &mut Database, args: &[Text]) -> Reply {
    if !args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'hmset' command".into());
    }
    insert(db, args).map(|_| Frame::ok())
}

pub(super) fn hsetnx(db: &mut Database, args: &[Text]) -> Reply {
    if see(db, &args[1], |map| map.contains_key(&args[2]))? {
        return Ok(Frame::Int(0));
    }
    insert(db, args).map(|_| Frame::Int(1))
}

pub(super) fn hmget(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| {
        Frame::Array(args[2..].iter().map(|field| Frame::maybe(map.get(field))).collect())
    })
}

pub(super) fn hdel(db: &mut Database, args: &[Text]) -> Reply {
    if !db.contains(&args[1]) {
        return Ok(Frame::Int(0));
    }
    let gone =
        edit(db, &args[1], |map| args[2..].iter().filter(|field| map.remove(*field).is_some()).count())?;
    if gone > 0 {
        db.changed(&args[1], gone);
    }
    Ok(Frame::count(gone))
}

pub(super) fn hexists(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| Frame::Int(map.contains_key(&args[2]).into()))
}

pub(super) fn hlen(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| Frame::count(map.len()))
}

pub(super) fn hstrlen(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| Frame::count(map.get(&args[2]).map_or(0, Vec::len)))
}

pub(super) fn hkeys(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| Frame::Array(map.keys().map(Frame::bulk).collect()))
}

pub(super) fn hvals(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| Frame::Array(map.values().map(Frame::bulk).collect()))
}

fn pairs<'a>(map: impl Iterator<Item = (&'a Text, &'a Text)>) -> Vec<(Frame, Frame)> {
    map.map(|(field, value)| (Frame::bulk(field), Frame::bulk(value))).collect()
}

pub(super) fn hgetall(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |map| Frame::Map(pairs(map.iter())))
}

pub(super) fn hincrby(db: &mut Database, args: &[Text]) -> Reply {
    let by = integer_at(args, 3)?;
    let before = match see(db, &args[1], |map| map.get(&args[2]).cloned())? {
        None => 0,
        Some(text) => integer(&text).ok_or("ERR hash value is not an integer")?,
    };
    let after = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    edit(db, &args[1], |map| map.insert(args[2].clone(), after.to_string().into_bytes()))?;
    db.changed(&args[1], 1);
    Ok(Frame::Int(after))
}

pub(super) fn hscan(db: &mut Database, args: &[Text]) -> Reply {
    scan::cursor(args, 2)?;
    // The key comes before the options: what they are does not matter where there is nothing.
    if !db.contains(&args[1]) {
        return Ok(scan::nothing());
    }
    see(db, &args[1], |_| ())?;
    let window = scan::window(args, 2)?;
    see(db, &args[1], |map| {
        let (cursor, found) = window.over(map.keys());
        let list = found.into_iter().flat_map(|field| [Frame::bulk(&field), Frame::maybe(map.get(&field))]);
        scan::answer(cursor, list.collect())
    })
}

/// Which fields come is for the server to choose: here the first ones.
pub(super) fn hrandfield(db: &mut Database, args: &[Text]) -> Reply {
    let Some(count) = args.get(2) else {
        return see(db, &args[1], |map| Frame::maybe(map.keys().next()));
    };
    let count = integer(count).ok_or_else(no_integer)?;
    let values = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"withvalues") => true,
        Some(_) => return syntax(),
    };
    if count.unsigned_abs() > u64::from(u32::MAX) {
        return Err("ERR value is out of range".into());
    }
    see(db, &args[1], |map| {
        let many = count.unsigned_abs() as usize;
        let chosen: Vec<_> =
            if count < 0 { map.iter().cycle().take(many).collect() } else { map.iter().take(many).collect() };
        if values {
            Frame::Pairs(pairs(chosen.into_iter()))
        } else {
            Frame::Array(chosen.into_iter().map(|(field, _)| Frame::bulk(field)).collect())
        }
    })
}
