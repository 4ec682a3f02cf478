//! Commands on sorted sets.

use super::{Fail, Reply, WRONG_TYPE, integer_at, scan, syntax};
use crate::redis::number::{double, g17};
use crate::redis::resp::Frame;
use crate::redis::value::{Database, SortedSet, Text, Value};

const NO_DOUBLE: &str = "ERR value is not a valid float";
const NO_RANGE: &str = "ERR min or max is not a float";

fn empty() -> Value {
    Value::Sorted(SortedSet::default())
}

fn see<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&SortedSet) -> R) -> Result<R, Fail> {
    match db.get(key) {
        None => Ok(f(&SortedSet::default())),
        Some(Value::Sorted(set)) => Ok(f(set)),
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

fn edit<R>(db: &mut Database, key: &[u8], f: impl FnOnce(&mut SortedSet) -> R) -> Result<R, Fail> {
    db.change(key, empty, |value| match value {
        Value::Sorted(set) => Ok(f(set)),
        _ => Err(WRONG_TYPE.into()),
    })
}

#[derive(Default)]
struct Options {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    ch: bool,
    incr: bool,
}

fn options(args: &[Text]) -> (Options, usize) {
    let (mut options, mut at) = (Options::default(), 2);
    while let Some(word) = args.get(at) {
        match word.to_ascii_lowercase().as_slice() {
            b"nx" => options.nx = true,
            b"xx" => options.xx = true,
            b"gt" => options.gt = true,
            b"lt" => options.lt = true,
            b"ch" => options.ch = true,
            b"incr" => options.incr = true,
            _ => break,
        }
        at += 1;
    }
    (options, at)
}

pub(super) fn zadd(db: &mut Database, args: &[Text]) -> Reply {
    let (options, at) = options(args);
    let rest = &args[at..];
    if rest.is_empty() || !rest.len().is_multiple_of(2) {
        return syntax();
    }
    if options.nx && options.xx {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    if options.gt && options.lt || options.nx && (options.gt || options.lt) {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if options.incr && rest.len() > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    let mut pairs = Vec::new();
    for pair in rest.chunks_exact(2) {
        pairs.push((double(&pair[0]).ok_or(NO_DOUBLE)?, pair[1].clone()));
    }
    add(db, &args[1], pairs, &options)
}

fn add(db: &mut Database, key: &[u8], pairs: Vec<(f64, Text)>, options: &Options) -> Reply {
    let (added, changed, last) = edit(db, key, |set| {
        let (mut added, mut changed, mut last) = (0, 0, None);
        for (score, member) in pairs {
            let before = set.score(&member);
            let wanted = score + before.filter(|_| options.incr).unwrap_or(0.0);
            let allowed = match before {
                None => !options.xx,
                Some(before) => {
                    !options.nx && (!options.gt || wanted > before) && (!options.lt || wanted < before)
                }
            };
            last = allowed.then_some(wanted);
            if allowed && before != Some(wanted) {
                added += usize::from(before.is_none());
                changed += 1;
                set.set(member, wanted);
            }
        }
        (added, changed, last)
    })?;
    if changed > 0 {
        db.changed(key, changed);
    }
    if options.incr {
        return Ok(last.map_or(Frame::Null, Frame::Double));
    }
    Ok(Frame::count(if options.ch { changed } else { added }))
}

pub(super) fn zincrby(db: &mut Database, args: &[Text]) -> Reply {
    let by = double(&args[2]).ok_or(NO_DOUBLE)?;
    add(db, &args[1], vec![(by, args[3].clone())], &Options { incr: true, ..Options::default() })
}

pub(super) fn zrem(db: &mut Database, args: &[Text]) -> Reply {
    if !db.contains(&args[1]) {
        return Ok(Frame::Int(0));
    }
    let gone = edit(db, &args[1], |set| args[2..].iter().filter(|member| set.remove(member)).count())?;
    if gone > 0 {
        db.changed(&args[1], gone);
    }
    Ok(Frame::count(gone))
}

pub(super) fn zscore(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| set.score(&args[2]).map_or(Frame::Null, Frame::Double))
}

pub(super) fn zmscore(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| {
        let scores = args[2..].iter().map(|member| set.score(member).map_or(Frame::Null, Frame::Double));
        Frame::Array(scores.collect())
    })
}

pub(super) fn zcard(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| Frame::count(set.len()))
}

pub(super) fn zrank(db: &mut Database, args: &[Text]) -> Reply {
    see(db, &args[1], |set| {
        let place = set.ordered().iter().position(|(member, _)| *member == args[2]);
        place.map_or(Frame::Null, Frame::count)
    })
}

#[derive(Clone, Copy)]
struct Bound {
    score: f64,
    open: bool,
}

fn bound(text: &[u8]) -> Result<Bound, Fail> {
    let (open, text) = text.strip_prefix(b"(").map_or((false, text), |rest| (true, rest));
    Ok(Bound { score: double(text).ok_or(NO_RANGE)?, open })
}

fn inside(score: f64, low: Bound, high: Bound) -> bool {
    (score > low.score || !low.open && score == low.score)
        && (score < high.score || !high.open && score == high.score)
}

pub(super) fn zcount(db: &mut Database, args: &[Text]) -> Reply {
    let (low, high) = (bound(&args[2])?, bound(&args[3])?);
    see(db, &args[1], |set| {
        Frame::count(set.ordered().iter().filter(|(_, score)| inside(*score, low, high)).count())
    })
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Shape {
    by_score: bool,
    reverse: bool,
    scores: bool,
    limit: Option<(i64, i64)>,
}

pub(super) fn zrange(db: &mut Database, args: &[Text]) -> Reply {
    let shape = shape(args, Shape::default(), true)?;
    if shape.limit.is_some() && !shape.by_score {
        return Err(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into()
        );
    }
    range(db, args, shape)
}

pub(super) fn zrevrange(db: &mut Database, args: &[Text]) -> Reply {
    let shape = shape(args, Shape { reverse: true, ..Shape::default() }, false)?;
    if shape.limit.is_some() {
        return syntax();
    }
    range(db, args, shape)
}

pub(super) fn zrangebyscore(db: &mut Database, args: &[Text]) -> Reply {
    let shape = shape(args, Shape { by_score: true, ..Shape::default() }, false)?;
    range(db, args, shape)
}

pub(super) fn zrevrangebyscore(db: &mut Database, args: &[Text]) -> Reply {
    let shape = shape(args, Shape { by_score: true, reverse: true, ..Shape::default() }, false)?;
    range(db, args, shape)
}

fn shape(args: &[Text], mut shape: Shape, words: bool) -> Result<Shape, Fail> {
    let mut at = 4;
    while let Some(word) = args.get(at) {
        match word.to_ascii_lowercase().as_slice() {
            b"withscores" => shape.scores = true,
            b"byscore" if words => shape.by_score = true,
            b"rev" if words => shape.reverse = true,
            b"limit" if at + 2 < args.len() => {
                shape.limit = Some((integer_at(args, at + 1)?, integer_at(args, at + 2)?));
                at += 2;
            }
            _ => return Err("ERR syntax error".into()),
        }
        at += 1;
    }
    Ok(shape)
}

fn range(db: &mut Database, args: &[Text], shape: Shape) -> Reply {
    let found = if shape.by_score {
        let (low, high) = if shape.reverse { (3, 2) } else { (2, 3) };
        let (low, high) = (bound(&args[low])?, bound(&args[high])?);
        let mut list = see(db, &args[1], SortedSet::ordered)?;
        list.retain(|(_, score)| inside(*score, low, high));
        if shape.reverse {
            list.reverse();
        }
        let (offset, count) = shape.limit.unwrap_or((0, -1));
        let count = if count < 0 { usize::MAX } else { count as usize };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        list.into_iter().skip(offset).take(count).collect()
    } else {
        let (start, end) = (integer_at(args, 2)?, integer_at(args, 3)?);
        let mut list = see(db, &args[1], SortedSet::ordered)?;
        if shape.reverse {
            list.reverse();
        }
        let length = list.len() as i64;
        let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let (start, end) = (place(start).max(0), place(end).min(length - 1));
        if start > end || start >= length { Vec::new() } else { list[start as usize..=end as usize].to_vec() }
    };
    Ok(if shape.scores {
        Frame::Pairs(
            found.into_iter().map(|(member, score)| (Frame::Bulk(member), Frame::Double(score))).collect(),
        )
    } else {
        Frame::Array(found.into_iter().map(|(member, _)| Frame::Bulk(member)).collect())
    })
}

pub(super) fn zremrangebyscore(db: &mut Database, args: &[Text]) -> Reply {
    let (low, high) = (bound(&args[2])?, bound(&args[3])?);
    if !db.contains(&args[1]) {
        return Ok(Frame::Int(0));
    }
    let gone = edit(db, &args[1], |set| {
        let goes = set.ordered().into_iter().filter(|(_, score)| inside(*score, low, high));
        goes.filter(|(member, _)| set.remove(member)).count()
    })?;
    if gone > 0 {
        db.changed(&args[1], gone);
    }
    Ok(Frame::count(gone))
}

pub(super) fn zscan(db: &mut Database, args: &[Text]) -> Reply {
    scan::cursor(args, 2)?;
    // The key comes before the options: what they are does not matter where there is nothing.
    if !db.contains(&args[1]) {
        return Ok(scan::nothing());
    }
    see(db, &args[1], |_| ())?;
    let window = scan::window(args, 2)?;
    see(db, &args[1], |set| {
        let mut members: Vec<Text> = set.ordered().into_iter().map(|(member, _)| member).collect();
        members.sort();
        let (cursor, found) = window.over(members.iter());
        let score = |member: &Text| Frame::bulk(g17(set.score(member).unwrap_or(0.0)));
        let list = found.into_iter().flat_map(|member| [Frame::bulk(&member), score(&member)]);
        scan::answer(cursor, list.collect())
    })
}
