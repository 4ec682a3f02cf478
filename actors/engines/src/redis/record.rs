//! Records to the values Redis holds and back: what is bytes there is what the key-value layout has, numbers are
//! decimal, locks and statistics are spread over fields. Pure, and safe against anything a server may hold.
//! Source: volume format, Redis engine.

use super::place::{Place, Places, offset};
use crate::kv::Pair;
use crate::kv::{decode_record, encode_record};
use redis::Value;
use zest_metadata::record::{FlockEntry, LockOwner, LockRange};
use zest_metadata::{EngineError, Key, Record};

/// The values of a record, in the order its place wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// One value: a string, a field, a score.
    One(Vec<u8>),
    /// Elements of a list.
    List(Vec<Vec<u8>>),
    /// Fields and values of a hash.
    Fields(Vec<Pair>),
    /// The same field of three hashes.
    Three([Vec<u8>; 3]),
    /// Being there is all.
    Nothing,
}

/// Bytes of a slice record and of a lock record.
const ENTRY: usize = 24;

pub(crate) fn damaged(key: &Key, why: &str) -> EngineError {
    EngineError::Damaged { key: format!("{key:?}"), why: why.into() }
}

fn decimal(n: i64) -> Vec<u8> {
    n.to_string().into_bytes()
}

/// The values of a record.
pub(crate) fn encode(key: &Key, record: &Record) -> Result<Values, EngineError> {
    Ok(match (key, record) {
        (Key::Flocks(_), Record::Flocks(list)) => Values::Fields(
            list.iter()
                .map(|entry| (owner_field(entry.owner), vec![if entry.write { b'W' } else { b'R' }]))
                .collect(),
        ),
        (Key::RangeLocks(_), Record::RangeLocks(list)) => Values::Fields(
            list.iter().map(|(owner, ranges)| (owner_field(*owner), encode_ranges(ranges))).collect(),
        ),
        (Key::DirStat(_), Record::DirStat { length, space, inodes }) => {
            Values::Three([*length, *space, *inodes].map(decimal))
        }
        (
            Key::DirQuota(_) | Key::UserQuota(_) | Key::GroupQuota(_),
            Record::Quota { max_space, max_inodes, used_space, used_inodes },
        ) => {
            let limits = [max_space.to_be_bytes(), max_inodes.to_be_bytes()].concat();
            Values::Three([limits, decimal(*used_space), decimal(*used_inodes)])
        }
        (_, Record::Count(n)) => {
            let stored = n.checked_sub(offset(key)).ok_or_else(|| damaged(key, "the number is too small"))?;
            Values::One(decimal(stored))
        }
        (_, Record::Stamp(n)) => Values::One(decimal(*n)),
        (_, Record::Mark) => Values::Nothing,
        (Key::Chunk(..), Record::Slices(_)) => {
            let bytes = encode_record(key, record).map_err(EngineError::from)?;
            Values::List(bytes.chunks(ENTRY).map(<[u8]>::to_vec).collect())
        }
        _ => Values::One(encode_record(key, record).map_err(EngineError::from)?),
    })
}

/// The record in what a server answered for its place; `None` where there is none.
pub(crate) fn decode(key: &Key, answer: Value) -> Result<Option<Record>, EngineError> {
    let wrong = |why| damaged(key, why);
    match Places::default().of(key) {
        Place::Whole(_) | Place::Field(..) => {
            let Some(bytes) = bytes(answer).map_err(wrong)? else { return Ok(absent(key)) };
            one(key, &bytes).map(Some)
        }
        Place::Score(..) => match answer {
            Value::Nil => Ok(None),
            Value::Double(score) => whole(score).map(|n| Some(Record::Stamp(n))).ok_or_else(|| wrong(NUMBER)),
            other => {
                let Some(text) = bytes(other).map_err(wrong)? else { return Ok(None) };
                let score = std::str::from_utf8(&text).ok().and_then(|t| t.parse::<f64>().ok());
                let n = score.and_then(whole).ok_or_else(|| wrong(NUMBER))?;
                Ok(Some(Record::Stamp(n)))
            }
        },
        Place::Member(..) => match answer {
            Value::Int(0) | Value::Boolean(false) => Ok(None),
            Value::Int(_) | Value::Boolean(true) => Ok(Some(Record::Mark)),
            _ => Err(wrong("the server answered something else than a number")),
        },
        Place::List(_) => {
            let elements = list(answer).map_err(wrong)?;
            if elements.is_empty() {
                return Ok(None);
            }
            if elements.iter().any(|element| element.len() != ENTRY) {
                return Err(wrong("an element of the list has not 24 bytes"));
            }
            decode_record(key, &elements.concat()).map(Some).map_err(EngineError::from)
        }
        Place::Hash(_) => locks(key, pairs(answer).map_err(wrong)?),
        Place::Three(..) => three(key, answer),
    }
}

const NUMBER: &str = "it is no number";

/// A number without a record is the one that counting begins with.
fn absent(key: &Key) -> Option<Record> {
    (offset(key) != 0).then(|| Record::Count(offset(key)))
}

#[allow(clippy::cast_possible_truncation)]
fn whole(score: f64) -> Option<i64> {
    (score.fract() == 0.0 && score.abs() < 9.0e15).then_some(score as i64)
}

fn one(key: &Key, bytes: &[u8]) -> Result<Record, EngineError> {
    let number = || {
        let text = std::str::from_utf8(bytes).ok()?;
        text.parse::<i64>().ok()?.checked_add(offset(key))
    };
    match crate::kv::is_number(key) {
        Some(count) => {
            let n = number().ok_or_else(|| damaged(key, NUMBER))?;
            Ok(if count { Record::Count(n) } else { Record::Stamp(n) })
        }
        None => decode_record(key, bytes).map_err(EngineError::from),
    }
}

fn three(key: &Key, answer: Value) -> Result<Option<Record>, EngineError> {
    let wrong = |why| damaged(key, why);
    let parts = match answer {
        Value::Array(parts) => parts,
        _ => return Err(wrong("the server answered something else than three values")),
    };
    let parts: Vec<Option<Vec<u8>>> =
        parts.into_iter().map(bytes).collect::<Result<_, _>>().map_err(wrong)?;
    let [first, space, inodes] = <[_; 3]>::try_from(parts).map_err(|_| wrong("not three values"))?;
    let number = |part: Option<Vec<u8>>| match part {
        None => Ok(0),
        Some(text) => std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.parse::<i64>().ok())
            .ok_or_else(|| damaged(key, NUMBER)),
    };
    if matches!(key, Key::DirStat(_)) {
        // Whether there are statistics is what the field of the space says.
        return Ok(match space {
            None => None,
            space => Some(Record::DirStat {
                length: number(first)?,
                space: number(space)?,
                inodes: number(inodes)?,
            }),
        });
    }
    let Some(limits) = first else { return Ok(None) };
    let half =
        |from: usize| limits.get(from..from + 8).and_then(|b| b.try_into().ok()).map(i64::from_be_bytes);
    let (Some(max_space), Some(max_inodes), 16) = (half(0), half(8), limits.len()) else {
        return Err(wrong("the limits have not 16 bytes"));
    };
    Ok(Some(Record::Quota {
        max_space,
        max_inodes,
        used_space: number(space)?,
        used_inodes: number(inodes)?,
    }))
}

fn locks(key: &Key, fields: Vec<Pair>) -> Result<Option<Record>, EngineError> {
    if fields.is_empty() {
        return Ok(None);
    }
    let wrong = || damaged(key, "a lock is not what a lock should be");
    if matches!(key, Key::Flocks(_)) {
        let mut list = Vec::new();
        for (field, value) in fields {
            let write = match value.as_slice() {
                b"W" => true,
                b"R" => false,
                _ => return Err(wrong()),
            };
            list.push(FlockEntry { owner: owner(&field).ok_or_else(wrong)?, write });
        }
        list.sort_by_key(|entry| entry.owner);
        return Ok(Some(Record::Flocks(list)));
    }
    let mut list = Vec::new();
    for (field, value) in fields {
        let owner = owner(&field).ok_or_else(wrong)?;
        list.push((owner, decode_ranges(&value).ok_or_else(wrong)?));
    }
    list.sort_by_key(|(owner, _)| *owner);
    Ok(Some(Record::RangeLocks(list)))
}

fn owner_field(owner: LockOwner) -> Vec<u8> {
    format!("{}_{:016X}", owner.session, owner.owner).into_bytes()
}

fn owner(field: &[u8]) -> Option<LockOwner> {
    let (session, owner) = std::str::from_utf8(field).ok()?.split_once('_')?;
    Some(LockOwner { session: session.parse().ok()?, owner: u64::from_str_radix(owner, 16).ok()? })
}

fn encode_ranges(ranges: &[LockRange]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ranges.len().saturating_mul(ENTRY));
    for range in ranges {
        out.extend_from_slice(&range.kind.to_be_bytes());
        out.extend_from_slice(&range.pid.to_be_bytes());
        out.extend_from_slice(&range.start.to_be_bytes());
        out.extend_from_slice(&range.end.to_be_bytes());
    }
    out
}

fn decode_ranges(bytes: &[u8]) -> Option<Vec<LockRange>> {
    let entries = bytes.chunks(ENTRY).map(|entry| {
        let word = |from: usize| entry.get(from..from + 4)?.try_into().ok().map(u32::from_be_bytes);
        let long = |from: usize| entry.get(from..from + 8)?.try_into().ok().map(u64::from_be_bytes);
        Some(LockRange { kind: word(0)?, pid: word(4)?, start: long(8)?, end: long(16)? })
    });
    entries.collect()
}

/// A string, or nothing.
pub(crate) fn bytes(answer: Value) -> Result<Option<Vec<u8>>, &'static str> {
    match answer {
        Value::Nil | Value::Boolean(false) => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) => Ok(Some(text.into_bytes())),
        Value::Okay => Ok(Some(b"OK".to_vec())),
        Value::Int(n) => Ok(Some(decimal(n))),
        Value::Double(n) => Ok(Some(n.to_string().into_bytes())),
        _ => Err("the server answered something else than a string"),
    }
}

/// A text, as `INFO` gives it.
pub(crate) fn text(answer: Value) -> Result<Option<String>, &'static str> {
    if let Value::VerbatimString { text, .. } = answer {
        return Ok(Some(text));
    }
    Ok(bytes(answer)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The elements of a list or set.
pub(crate) fn list(answer: Value) -> Result<Vec<Vec<u8>>, &'static str> {
    let elements = match answer {
        Value::Nil => Vec::new(),
        Value::Array(elements) | Value::Set(elements) => elements,
        _ => return Err("the server answered something else than a list"),
    };
    elements
        .into_iter()
        .map(|element| bytes(element)?.ok_or("the server answered a list with nothing in it"))
        .collect()
}

/// Fields and values of a hash, in either protocol.
pub(crate) fn pairs(answer: Value) -> Result<Vec<Pair>, &'static str> {
    let odd = "the server answered something else than fields and values";
    if let Value::Map(pairs) = answer {
        return pairs
            .into_iter()
            .map(|(field, value)| Ok((bytes(field)?.ok_or(odd)?, bytes(value)?.ok_or(odd)?)))
            .collect();
    }
    let flat = list(answer)?;
    if flat.len() % 2 != 0 {
        return Err(odd);
    }
    let mut flat = flat.into_iter();
    let mut pairs = Vec::new();
    while let (Some(field), Some(value)) = (flat.next(), flat.next()) {
        pairs.push((field, value));
    }
    Ok(pairs)
}
