//! WATCH, MULTI, EXEC, DISCARD.

use super::{Reply, find};
use crate::redis::resp::Frame;
use crate::redis::server::{ClientId, Server};
use crate::redis::value::Text;

pub(super) fn watch(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let Some(client) = server.clients.get_mut(&id) else { return Ok(Frame::ok()) };
    if client.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let db = client.db;
    client.watched.extend(args[1..].iter().map(|key| (db, key.clone())));
    Ok(Frame::ok())
}

pub(super) fn unwatch(server: &mut Server, id: ClientId, _: &[Text]) -> Reply {
    if let Some(client) = server.clients.get_mut(&id) {
        client.watched.clear();
        client.watch_broken = false;
    }
    Ok(Frame::ok())
}

pub(super) fn multi(server: &mut Server, id: ClientId, _: &[Text]) -> Reply {
    match server.clients.get_mut(&id) {
        Some(client) if client.queue.is_none() => {
            client.queue = Some(Vec::new());
            Ok(Frame::ok())
        }
        _ => Err("ERR MULTI calls can not be nested".into()),
    }
}

pub(super) fn discard(server: &mut Server, id: ClientId, _: &[Text]) -> Reply {
    if server.clients.get(&id).is_none_or(|client| client.queue.is_none()) {
        return Err("ERR DISCARD without MULTI".into());
    }
    server.end_transaction(id);
    Ok(Frame::ok())
}

pub(super) fn exec(server: &mut Server, id: ClientId, _: &[Text]) -> Reply {
    let Some(client) = server.clients.get_mut(&id) else { return Ok(Frame::Null) };
    let Some(queue) = client.queue.take() else { return Err("ERR EXEC without MULTI".into()) };
    let (broken, lost) = (client.queue_broken, client.watch_broken);
    server.end_transaction(id);
    if broken {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if lost {
        return Ok(Frame::NullArray);
    }
    let mut replies = Vec::new();
    server.inside = true;
    for args in queue {
        if let Some(spec) = args.first().and_then(|name| find(name)) {
            let reply = server.call(id, spec, &args);
            match reply {
                Frame::Push(parts) if spec.is(super::SUBSCRIBER) => replies.extend(parts),
                reply => replies.push(reply),
            }
        }
    }
    server.inside = false;
    Ok(Frame::Array(replies))
}
