//! Commands on lists.

use super::{Fail, Reply, WRONG_TYPE, integer_at};
use crate::redis::number::integer;
use crate::redis::resp::Frame;
use crate::redis::value::{Database, Text, Value};
use std::collections::VecDeque;

type List = VecDeque<Text>;

fn empty() -> Value {
    Value::List(List::new())
}

fn see<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&List) -> R) -> Result<R, Fail> {
    match db.get(key) {
        None => Ok(f(&List::new())),
        Some(Value::List(list)) => Ok(f(list)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn edit<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&mut List) -> R) -> Result<R, Fail> {
    db.change(key, empty, |value| match value {
        Value::List(list) => Ok(f(list)),
        _ => Err(WRONG_TYPE.into()),
    })
}

fn push(db: &mut Database, args: &[Text], left: bool, only_existing: bool) -> Reply {
    if only_existing && see(db, &args[1], List::is_empty)? {
        return Ok(Frame::Int(0));
    }
    let length = edit(db, &args[1], |list| {
        for item in &args[2..] {
            if left {
                list.push_front(item.clone());
            } else {
                list.push_back(item.clone());
            }
        }
        list.len()
    })?;
    db.changed(&args[1], args.len() - 2);
    Ok(Frame::count(length))
}

pub(super) fn lpush(db: &mut Database, args: &[Text]) -> Reply {
    push(db, args, true, false)
}

pub(super) fn rpush(db: &mut Database, args: &[Text]) -> Reply {
    push(db, args, false, false)
}

pub(super) fn lpushx(db: &mut Database, args: &[Text]) -> Reply {
    push(db, args, true, true)
}

pub(super) fn rpushx(db: &mut Database, args: &[Text]) -> Reply {
    push(db, args, false, true)
}

fn pop(db: &mut Database, args: &[Text], left: bool) -> Reply {
    let count = match args.get(2) {
        None => None,
        Some(_) if args.len() > 3 => {
            let name = if left { "lpop" } else { "rpop" };
            return Err(format!("ERR wrong number of arguments for '{name}' command").into());
        }
        Some(text) => match integer(text) {
            Some(count) if count >= 0 => Some(count as usize),
            _ => return Err("ERR value is out of range, must be positive".into()),
        },
    };
    let length = see(db, &args[1], List::len)?;
    if length == 0 {
        return Ok(if count.is_some() { Frame::NullArray } else { Frame::Null });
    }
    let many = count.unwrap_or(1).min(length);
    let taken: Vec<Text> = edit(db, &args[1], |list| {
        (0..many).filter_map(|_| if left { list.pop_front() } else { list.pop_back() }).collect()
    })?;
    if many > 0 {
        db.changed(&args[1], many);
    }
    Ok(match count {
        None => Frame::maybe(taken.first()),
        Some(_) => Frame::Array(taken.iter().map(Frame::bulk).collect()),
    })
}

pub(super) fn lpop(db: &mut Database, args: &[Text]) -> Reply {
    pop(db, args, true)
}

pub(super) fn rpop(db: &mut Database, args: &[Text]) -> Reply {
    pop(db, args, false)
}

/// The part of a list of this length from one index to another, both included; empty where they cross.
fn part(length: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    let length = length as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (start, end) = (place(start).max(0), place(end).min(length - 1));
    if start > end || start >= length { 0..0 } else { start as usize..end as usize + 1 }
}

pub(super) fn lrange(db: &mut Database, args: &[Text]) -> Reply {
    let (start, end) = (integer_at(args, 2)?, integer_at(args, 3)?);
    see(db, &args[1], |list| {
        Frame::Array(list.range(part(list.len(), start, end)).map(Frame::bulk).collect())
    })
}

pub(super) fn llen(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |list| Frame::count(list.len()))
}

fn index(length: usize, at: i64) -> Option<usize> {
    let at = if at < 0 { at.checked_add(length as i64)? } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

pub(super) fn lindex(db: &mut Database, args: &[Text]) -> Reply {
    // The key comes first: what it holds matters before the number does.
    if !db.contains(&args[1]) {
        return Ok(Frame::Null);
    }
    see(db, &args[1], |_| ())?;
    let at = integer_at(args, 2)?;
    see(db, &args[1], |list| Frame::maybe(index(list.len(), at).and_then(|at| list.get(at))))
}

pub(super) fn ltrim(db: &mut Database, args: &[Text]) -> Reply {
    let (start, end) = (integer_at(args, 2)?, integer_at(args, 3)?);
    if !db.contains(&args[1]) {
        return Ok(Frame::ok());
    }
    let gone = edit(db, &args[1], |list| {
        let keep = part(list.len(), start, end);
        let gone = list.len() - keep.len();
        *list = list.range(keep).cloned().collect();
        gone
    })?;
    db.changed(&args[1], gone);
    Ok(Frame::ok())
}

pub(super) fn lset(db: &mut Database, args: &[Text]) -> Reply {
    if !db.contains(&args[1]) {
        return Err("ERR no such key".into());
    }
    see(db, &args[1], |_| ())?;
    let at = integer_at(args, 2)?;
    let at = see(db, &args[1], |list| index(list.len(), at))?.ok_or("ERR index out of range")?;
    edit(db, &args[1], |list| list.get_mut(at).map(|item| item.clone_from(&args[3])))?;
    db.changed(&args[1], 1);
    Ok(Frame::ok())
}

pub(super) fn lrem(db: &mut Database, args: &[Text]) -> Reply {
    let count = integer_at(args, 2)?;
    if !db.contains(&args[1]) {
        return Ok(Frame::Int(0));
    }
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let gone = edit(db, &args[1], |list| {
        let mut left = most;
        let mut keep = |item: &Text| {
            let goes = left > 0 && *item == args[3];
            left -= usize::from(goes);
            !goes
        };
        let before = list.len();
        if count < 0 {
            let mut kept: Vec<Text> = list.drain(..).rev().filter(&mut keep).collect();
            kept.reverse();
            list.extend(kept);
        } else {
            list.retain(&mut keep);
        }
        before - list.len()
    })?;
    if gone > 0 {
        db.changed(&args[1], gone);
    }
    Ok(Frame::count(gone))
}
