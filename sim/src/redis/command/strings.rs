//! Commands on strings.

use super::{Fail, Reply, WRONG_TYPE, integer_at, no_integer, syntax};
use crate::redis::number::integer;
use crate::redis::resp::Frame;
use crate::redis::value::{Database, Text, Value};

/// Longest string.
const LONGEST: i64 = 512 << 20;

fn string(db: &mut Database, key: &[u8]) -> Result<Option<Text>, Fail> {
    match db.get(key) {
        None => Ok(None),
        Some(Value::Str(text)) => Ok(Some(text.clone())),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn put(db: &mut Database, key: &[u8], text: Text) {
    db.put(key, Value::Str(text));
    db.changed(key, 1);
}

pub(super) fn get(db: &mut Database, args: &[Text]) -> Reply {
    Ok(Frame::maybe(string(db, &args[1])?.as_ref()))
}

pub(super) fn set(db: &mut Database, args: &[Text]) -> Reply {
    let (mut absent, mut present, mut old) = (false, false, false);
    for option in &args[3..] {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" if !present => absent = true,
            b"xx" if !absent => present = true,
            b"get" => old = true,
            b"keepttl" => {}
            b"ex" | b"px" | b"exat" | b"pxat" => {
                return Err("ERR the simulated server knows no expiry".into());
            }
            _ => return syntax(),
        }
    }
    let before = if old { string(db, &args[1])? } else { None };
    let exists = db.contains(&args[1]);
    let done = !(absent && exists || present && !exists);
    if done {
        put(db, &args[1], args[2].clone());
    }
    Ok(match (old, done) {
        (true, _) => Frame::maybe(before.as_ref()),
        (false, true) => Frame::ok(),
        (false, false) => Frame::Null,
    })
}

pub(super) fn setnx(db: &mut Database, args: &[Text]) -> Reply {
    if db.contains(&args[1]) {
        return Ok(Frame::Int(0));
    }
    put(db, &args[1], args[2].clone());
    Ok(Frame::Int(1))
}

pub(super) fn getset(db: &mut Database, args: &[Text]) -> Reply {
    let before = string(db, &args[1])?;
    put(db, &args[1], args[2].clone());
    Ok(Frame::maybe(before.as_ref()))
}

pub(super) fn getdel(db: &mut Database, args: &[Text]) -> Reply {
    let before = string(db, &args[1])?;
    if before.is_some() {
        db.remove(&args[1]);
        db.changed(&args[1], 1);
    }
    Ok(Frame::maybe(before.as_ref()))
}

pub(super) fn mget(db: &mut Database, args: &[Text]) -> Reply {
    let found = args[1..].iter().map(|key| match db.get(key) {
        Some(Value::Str(text)) => Frame::Bulk(text.clone()),
        _ => Frame::Null,
    });
    Ok(Frame::Array(found.collect()))
}

pub(super) fn mset(db: &mut Database, args: &[Text]) -> Reply {
    if args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'mset' command".into());
    }
    args[1..].chunks_exact(2).for_each(|pair| put(db, &pair[0], pair[1].clone()));
    Ok(Frame::ok())
}

fn add(db: &mut Database, key: &[u8], by: i64) -> Reply {
    let before = match string(db, key)? {
        None => 0,
        Some(text) => integer(&text).ok_or_else(no_integer)?,
    };
    let after = before.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    put(db, key, after.to_string().into_bytes());
    Ok(Frame::Int(after))
}

pub(super) fn incr(db: &mut Database, args: &[Text]) -> Reply {
    add(db, &args[1], 1)
}

pub(super) fn decr(db: &mut Database, args: &[Text]) -> Reply {
    add(db, &args[1], -1)
}

pub(super) fn incrby(db: &mut Database, args: &[Text]) -> Reply {
    let by = integer_at(args, 2)?;
    add(db, &args[1], by)
}

pub(super) fn decrby(db: &mut Database, args: &[Text]) -> Reply {
    let by = integer_at(args, 2)?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(db, &args[1], by)
}

pub(super) fn append(db: &mut Database, args: &[Text]) -> Reply {
    let mut text = string(db, &args[1])?.unwrap_or_default();
    text.extend_from_slice(&args[2]);
    let length = text.len();
    put(db, &args[1], text);
    Ok(Frame::count(length))
}

pub(super) fn strlen(db: &mut Database, args: &[Text]) -> Reply {
    Ok(Frame::count(string(db, &args[1])?.map_or(0, |text| text.len())))
}

pub(super) fn getrange(db: &mut Database, args: &[Text]) -> Reply {
    let (start, end) = (integer_at(args, 2)?, integer_at(args, 3)?);
    let text = string(db, &args[1])?.unwrap_or_default();
    let length = text.len() as i64;
    if length == 0 || (start < 0 && end < 0 && start > end) {
        return Ok(Frame::bulk(""));
    }
    let place = |at: i64| if at < 0 { (at + length).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(length - 1));
    Ok(Frame::bulk(if start > end { &[][..] } else { &text[start as usize..=end as usize] }))
}

pub(super) fn setrange(db: &mut Database, args: &[Text]) -> Reply {
    let at = integer_at(args, 2)?;
    if at < 0 {
        return Err("ERR offset is out of range".into());
    }
    let mut text = string(db, &args[1])?.unwrap_or_default();
    if args[3].is_empty() {
        return Ok(Frame::count(text.len()));
    }
    if at.saturating_add(args[3].len() as i64) > LONGEST {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    let (start, end) = (at as usize, at as usize + args[3].len());
    text.resize(text.len().max(end), 0);
    text[start..end].copy_from_slice(&args[3]);
    let length = text.len();
    put(db, &args[1], text);
    Ok(Frame::count(length))
}
