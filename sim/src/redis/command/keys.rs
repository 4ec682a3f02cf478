//! Commands on keys, whatever they hold.

use super::{Reply, scan};
use crate::redis::pattern::matches;
use crate::redis::resp::Frame;
use crate::redis::value::{Database, Text};

pub(super) fn kind(db: &mut Database, args: &[Text]) -> Reply {
    Ok(Frame::Simple(db.get(&args[1]).map_or("none", |value| value.kind()).into()))
}

pub(super) fn exists(db: &mut Database, args: &[Text]) -> Reply {
    Ok(Frame::count(args[1..].iter().filter(|key| db.get(key).is_some()).count()))
}

pub(super) fn del(db: &mut Database, args: &[Text]) -> Reply {
    let mut gone = 0;
    for key in &args[1..] {
        if db.remove(key).is_some() {
            db.changed(key, 1);
            gone += 1;
        }
    }
    Ok(Frame::count(gone))
}

fn moved(db: &mut Database, args: &[Text]) {
    if args[1] == args[2] {
        return;
    }
    if let Some(value) = db.remove(&args[1]) {
        db.put(&args[2], value);
        db.changed(&args[1], 1);
        db.changed(&args[2], 1);
    }
}

pub(super) fn rename(db: &mut Database, args: &[Text]) -> Reply {
    if !db.contains(&args[1]) {
        return Err("ERR no such key".into());
    }
    moved(db, args);
    Ok(Frame::ok())
}

pub(super) fn renamenx(db: &mut Database, args: &[Text]) -> Reply {
    if !db.contains(&args[1]) {
        return Err("ERR no such key".into());
    }
    if db.contains(&args[2]) {
        return Ok(Frame::Int(0));
    }
    moved(db, args);
    Ok(Frame::Int(1))
}

pub(super) fn keys(db: &mut Database, args: &[Text]) -> Reply {
    Ok(Frame::Array(db.keys().filter(|key| matches(&args[1], key)).map(Frame::bulk).collect()))
}

pub(super) fn scan(db: &mut Database, args: &[Text]) -> Reply {
    let window = scan::window(args, 1)?;
    let kind = window.kind.clone();
    let (cursor, mut found) = window.over(db.keys());
    found
        .retain(|key| kind.as_ref().is_none_or(|kind| db.get(key).is_some_and(|value| value.kind() == kind)));
    Ok(scan::answer(cursor, found.into_iter().map(Frame::Bulk).collect()))
}

pub(super) fn dbsize(db: &mut Database, _: &[Text]) -> Reply {
    Ok(Frame::count(db.len()))
}

pub(super) fn randomkey(db: &mut Database, _: &[Text]) -> Reply {
    Ok(Frame::maybe(db.keys().next()))
}

/// Nothing expires here.
pub(super) fn ttl(db: &mut Database, args: &[Text]) -> Reply {
    Ok(Frame::Int(if db.contains(&args[1]) { -1 } else { -2 }))
}
