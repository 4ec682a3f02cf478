//! What operators and careful clients ask: INFO, CONFIG, saving, waiting, emptying, shutting down.

use super::connection::natural;
use super::{Reply, every, find, integer_at, syntax, unknown_sub};
use crate::redis::info;
use crate::redis::number::double;
use crate::redis::resp::Frame;
use crate::redis::server::{ClientId, Server, Wish};
use crate::redis::value::Text;
use std::time::Duration;

pub(super) fn command(_: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    let row = |name: &[u8]| {
        let Some(spec) = find(name) else { return Frame::NullArray };
        let flag = if spec.is(super::WRITE) { "write" } else { "readonly" };
        let (first, last, step) = spec.keys;
        Frame::Array(vec![
            Frame::bulk(spec.name),
            Frame::Int(spec.arity.into()),
            Frame::Set(vec![Frame::Simple(flag.into())]),
            Frame::Int(first.into()),
            Frame::Int(last.into()),
            Frame::Int(step.into()),
        ])
    };
    match args.get(1).map(|word| word.to_ascii_lowercase()).as_deref() {
        None => Ok(Frame::Array(every().map(|spec| row(spec.name.as_bytes())).collect())),
        Some(b"count") => Ok(Frame::count(every().count())),
        Some(b"info") => Ok(Frame::Array(args[2..].iter().map(|name| row(name)).collect())),
        Some(b"docs") => Ok(Frame::Map(Vec::new())),
        Some(_) => unknown_sub("command", &args[1]),
    }
}

pub(super) fn info(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    let wanted: Vec<String> =
        args[1..].iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    Ok(Frame::Verbatim(info::text(server, &wanted).into_bytes()))
}

pub(super) fn config(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    match args[1].to_ascii_lowercase().as_slice() {
        b"get" => {
            let found = server.config.find(&args[2..]);
            Ok(Frame::Map(
                found.into_iter().map(|(name, value)| (Frame::bulk(name), Frame::bulk(value))).collect(),
            ))
        }
        b"set" if args.len().is_multiple_of(2) => {
            let mut next = server.config.clone();
            for pair in args[2..].chunks_exact(2) {
                next.set(&String::from_utf8_lossy(&pair[0]), &String::from_utf8_lossy(&pair[1]))?;
            }
            server.config = next;
            server.wishes.push(Wish::Configured);
            Ok(Frame::ok())
        }
        b"set" => syntax(),
        b"resetstat" => {
            server.stats.commands = 0;
            server.stats.evicted = 0;
            Ok(Frame::ok())
        }
        b"rewrite" => Ok(Frame::ok()),
        _ => unknown_sub("config", &args[1]),
    }
}

fn empty(server: &mut Server, id: ClientId, only: Option<usize>, args: &[Text]) -> Reply {
    match args.get(1).map(|word| word.to_ascii_lowercase()).as_deref() {
        None | Some(b"sync" | b"async") if args.len() <= 2 => {}
        _ => return syntax(),
    }
    let (told, read) = (server.news.len(), server.direct.len());
    for db in only.map_or(0..server.databases.len(), |db| db..db + 1) {
        for key in server.databases[db].clear() {
            server.touch(id, db, key);
        }
        let (_, dirty) = server.databases[db].take_changes();
        server.stats.dirty += dirty;
    }
    // Those who track hear of everything at once, not of each key.
    server.news.truncate(told);
    server.direct.truncate(read);
    server.reads.clear();
    server.tell_all_gone();
    server.propagate(id, only.unwrap_or(0), args.to_vec());
    Ok(Frame::ok())
}

pub(super) fn flushdb(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let db = server.clients.get(&id).map_or(0, |client| client.db);
    empty(server, id, Some(db), args)
}

pub(super) fn flushall(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    empty(server, id, None, args)
}

pub(super) fn time(server: &mut Server, _: ClientId, _: &[Text]) -> Reply {
    let now = server.facts.now;
    Ok(Frame::Array(vec![
        Frame::bulk(now.as_secs().to_string()),
        Frame::bulk(now.subsec_micros().to_string()),
    ]))
}

pub(super) fn role(server: &mut Server, _: ClientId, _: &[Text]) -> Reply {
    let offset = Frame::Int(server.offset as i64);
    if server.facts.replica {
        let parts =
            [Frame::bulk("slave"), Frame::bulk("redis"), Frame::Int(6379), Frame::bulk("connected"), offset];
        return Ok(Frame::Array(parts.into()));
    }
    let replicas = server.facts.replicas.iter().map(|at| {
        Frame::Array(vec![Frame::bulk("replica"), Frame::bulk("6379"), Frame::bulk(at.to_string())])
    });
    let replicas = Frame::Array(replicas.collect());
    Ok(Frame::Array(vec![Frame::bulk("master"), offset, replicas]))
}

pub(super) fn cluster(_: &mut Server, _: ClientId, _: &[Text]) -> Reply {
    Err("ERR This instance has cluster support disabled".into())
}

pub(super) fn save(server: &mut Server, _: ClientId, _: &[Text]) -> Reply {
    if server.facts.saving {
        return Err("ERR Background save already in progress".into());
    }
    server.wishes.push(Wish::SaveNow);
    Ok(Frame::ok())
}

pub(super) fn bgsave(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    if args.len() > 1 && !(args.len() == 2 && args[1].eq_ignore_ascii_case(b"schedule")) {
        return syntax();
    }
    if server.facts.saving {
        return Err("ERR Background save already in progress".into());
    }
    server.wishes.push(Wish::Save);
    Ok(Frame::Simple("Background saving started".into()))
}

pub(super) fn bgrewriteaof(server: &mut Server, _: ClientId, _: &[Text]) -> Reply {
    if server.facts.rewriting {
        return Err("ERR Background append only file rewriting already in progress".into());
    }
    server.wishes.push(Wish::Rewrite);
    Ok(Frame::Simple("Background append only file rewriting started".into()))
}

pub(super) fn lastsave(server: &mut Server, _: ClientId, _: &[Text]) -> Reply {
    Ok(Frame::Int(server.facts.last_save.as_secs() as i64))
}

pub(super) fn debug(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    match (args[1].to_ascii_lowercase().as_slice(), args.get(2)) {
        (b"sleep", Some(seconds)) => {
            let seconds = double(seconds).filter(|seconds| (0.0..1e6).contains(seconds)).unwrap_or(0.0);
            server.wishes.push(Wish::Sleep(Duration::from_secs_f64(seconds)));
            Ok(Frame::ok())
        }
        _ => unknown_sub("debug", &args[1]),
    }
}

pub(super) fn shutdown(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    let mut save = !server.config.get("save").is_empty();
    for word in &args[1..] {
        match word.to_ascii_lowercase().as_slice() {
            b"nosave" => save = false,
            b"save" => save = true,
            b"now" | b"force" => {}
            _ => return syntax(),
        }
    }
    server.wishes.push(Wish::Shutdown { save });
    Ok(Frame::ok())
}

fn behind(server: &Server, id: ClientId) -> u64 {
    server.clients.get(&id).map_or(0, |client| client.written)
}

fn acknowledged(server: &Server, id: ClientId) -> usize {
    let written = behind(server, id);
    server.facts.replicas.iter().filter(|at| **at >= written).count()
}

pub(super) fn wait(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let replicas = natural(args, 1)?;
    let timeout = integer_at(args, 2)?;
    if timeout < 0 {
        return Err("ERR timeout is negative".into());
    }
    if server.facts.replica {
        return Err("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a \
                    replica is configured to be writable (which is not the default) writes to replicas are just \
                    local and are not propagated."
            .into());
    }
    let now = acknowledged(server, id);
    if now as u64 >= replicas || server.inside {
        return Ok(Frame::count(now));
    }
    let timeout = Duration::from_millis(timeout as u64);
    server.wishes.push(Wish::Wait { client: id, logs: None, replicas, timeout });
    Ok(Frame::Null)
}

pub(super) fn waitaof(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let (logs, replicas) = (natural(args, 1)?, natural(args, 2)?);
    let timeout = integer_at(args, 3)?;
    if logs > 1 {
        return Err("ERR value is out of range, must be between 0 and 1".into());
    }
    if timeout < 0 {
        return Err("ERR timeout is negative".into());
    }
    if server.facts.replica {
        return Err(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas \
                    are just local and are not propagated."
                .into(),
        );
    }
    if logs > 0 && !server.config.is("appendonly") {
        return Err("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into());
    }
    let synced = server.config.is("appendonly") && server.facts.synced >= behind(server, id);
    let now = acknowledged(server, id);
    if u64::from(synced) >= logs && now as u64 >= replicas || server.inside {
        return Ok(Frame::Array(vec![Frame::Int(synced.into()), Frame::count(now)]));
    }
    let timeout = Duration::from_millis(timeout as u64);
    server.wishes.push(Wish::Wait { client: id, logs: Some(logs), replicas, timeout });
    Ok(Frame::Null)
}

pub(super) fn memory(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    match args[1].to_ascii_lowercase().as_slice() {
        b"usage" => Ok(args
            .get(2)
            .filter(|key| server.databases.iter().any(|db| db.contains(key)))
            .map_or(Frame::Null, |_| Frame::Int(64))),
        b"purge" => Ok(Frame::ok()),
        _ => unknown_sub("memory", &args[1]),
    }
}
