//! Commands on sets.

use super::{Fail, Reply, WRONG_TYPE, scan};
use crate::redis::resp::Frame;
use crate::redis::value::{Database, Text, Value};
use std::collections::BTreeSet;

type Set = BTreeSet<Text>;

fn empty() -> Value {
    Value::Set(Set::new())
}

fn see<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&Set) -> R) -> Result<R, Fail> {
    match db.get(key) {
        None => Ok(f(&Set::new())),
        Some(Value::Set(set)) => Ok(f(set)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn edit<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&mut Set) -> R) -> Result<R, Fail> {
    db.change(key, empty, |value| match value {
        Value::Set(set) => Ok(f(set)),
        _ => Err(WRONG_TYPE.into()),
    })
}

pub(super) fn sadd(db: &mut Database, args: &[Text]) -> Reply {
    let added =
        edit(db, &args[1], |set| args[2..].iter().filter(|member| set.insert((*member).clone())).count())?;
    if added > 0 {
        db.changed(&args[1], added);
    }
    Ok(Frame::count(added))
}

pub(super) fn srem(db: &mut Database, args: &[Text]) -> Reply {
    if !db.contains(&args[1]) {
        return Ok(Frame::Int(0));
    }
    let gone = edit(db, &args[1], |set| args[2..].iter().filter(|member| set.remove(*member)).count())?;
    if gone > 0 {
        db.changed(&args[1], gone);
    }
    Ok(Frame::count(gone))
}

pub(super) fn smembers(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| Frame::Set(set.iter().map(Frame::bulk).collect()))
}

pub(super) fn sismember(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| Frame::Int(set.contains(&args[2]).into()))
}

pub(super) fn smismember(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| {
        Frame::Array(args[2..].iter().map(|member| Frame::Int(set.contains(member).into())).collect())
    })
}

pub(super) fn scard(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| Frame::count(set.len()))
}

pub(super) fn sscan(db: &mut Database, args: &[Text]) -> Reply {
    scan::cursor(args, 2)?;
    // The key comes before the options: what they are does not matter where there is nothing.
    if !db.contains(&args[1]) {
        return Ok(scan::nothing());
    }
    see(db, &args[1], |_| ())?;
    let window = scan::window(args, 2)?;
    see(db, &args[1], |set| {
        let (cursor, found) = window.over(set.iter());
        scan::answer(cursor, found.into_iter().map(Frame::Bulk).collect())
    })
}
