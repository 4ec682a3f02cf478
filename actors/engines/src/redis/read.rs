//! Records under keys, in one round trip and of one moment.

use super::RedisEngine;
use super::place::Place;
use super::record::decode;
use redis::{Pipeline, Value};
use zest_metadata::{EngineError, Key, Record};

/// Adds the commands that read a place; tells how many.
pub(crate) fn ask(pipeline: &mut Pipeline, place: &Place) -> usize {
    match place {
        Place::Whole(key) => pipeline.cmd("GET").arg(key),
        Place::Field(key, field) => pipeline.cmd("HGET").arg(key).arg(field),
        Place::List(key) => pipeline.cmd("LRANGE").arg(key).arg(0).arg(-1),
        Place::Score(key, member) => pipeline.cmd("ZSCORE").arg(key).arg(member),
        Place::Member(key, member) => pipeline.cmd("SISMEMBER").arg(key).arg(member),
        Place::Hash(key) => pipeline.cmd("HGETALL").arg(key),
        Place::Three(keys, field) => {
            for key in keys {
                pipeline.cmd("HGET").arg(key).arg(field);
            }
            return 3;
        }
    };
    1
}

/// The answers of a pipeline, taken apart as `ask` put it together.
pub(crate) fn take(place: &Place, answers: &mut impl Iterator<Item = Value>) -> Option<Value> {
    match place {
        Place::Three(..) => Some(Value::Array(vec![answers.next()?, answers.next()?, answers.next()?])),
        _ => answers.next(),
    }
}

fn odd() -> EngineError {
    EngineError::Failed("the server gave fewer answers than questions".into())
}

pub(crate) async fn read(engine: &RedisEngine, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
    let places: Vec<Place> = keys.iter().map(|key| engine.places.of(key)).collect();
    let whole: Option<Vec<&Vec<u8>>> = places
        .iter()
        .map(|place| match place {
            Place::Whole(key) => Some(key),
            _ => None,
        })
        .collect();
    let answers = match (&places[..], whole) {
        ([], _) => return Ok(Vec::new()),
        // Of one moment by itself.
        (_, Some(names)) => {
            let mut command = redis::cmd("MGET");
            names.iter().for_each(|name| {
                command.arg(name.as_slice());
            });
            match engine.ask(&command).await? {
                Value::Array(values) => values,
                _ => return Err(odd()),
            }
        }
        (places, None) => {
            let mut pipeline = Pipeline::new();
            let commands: usize = places.iter().map(|place| ask(&mut pipeline, place)).sum();
            if commands > 1 {
                pipeline.atomic();
            }
            engine.ask_all(&pipeline).await?
        }
    };
    let mut answers = answers.into_iter();
    let pairs = keys.iter().zip(&places);
    pairs.map(|(key, place)| decode(key, take(place, &mut answers).ok_or_else(odd)?)).collect()
}
