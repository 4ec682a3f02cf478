//! Channels: SUBSCRIBE, UNSUBSCRIBE, PUBLISH.

use super::Reply;
use crate::redis::resp::Frame;
use crate::redis::server::{ClientId, Server};
use crate::redis::value::Text;

/// As each protocol says it: out of band, or a list.
fn said(server: &Server, id: ClientId, parts: Vec<Frame>) -> Frame {
    if server.protocol(id) >= 3 { Frame::Push(parts) } else { Frame::Array(parts) }
}

pub(super) fn subscribe(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let mut replies = Vec::new();
    for channel in &args[1..] {
        let Some(client) = server.clients.get_mut(&id) else { break };
        client.channels.insert(channel.clone());
        let count = Frame::count(client.channels.len());
        replies.push(said(server, id, vec![Frame::bulk("subscribe"), Frame::bulk(channel), count]));
    }
    Ok(Frame::Push(replies))
}

pub(super) fn unsubscribe(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let Some(client) = server.clients.get(&id) else { return Ok(Frame::Push(Vec::new())) };
    let channels: Vec<Text> =
        if args.len() > 1 { args[1..].to_vec() } else { client.channels.iter().cloned().collect() };
    let mut replies = Vec::new();
    for channel in &channels {
        let Some(client) = server.clients.get_mut(&id) else { break };
        client.channels.remove(channel);
        let count = Frame::count(client.channels.len());
        replies.push(said(server, id, vec![Frame::bulk("unsubscribe"), Frame::bulk(channel), count]));
    }
    if channels.is_empty() {
        replies.push(said(server, id, vec![Frame::bulk("unsubscribe"), Frame::Null, Frame::Int(0)]));
    }
    Ok(Frame::Push(replies))
}

pub(super) fn publish(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    let listeners: Vec<ClientId> = server
        .clients
        .iter()
        .filter(|(_, client)| client.channels.contains(&args[1]))
        .map(|(id, _)| *id)
        .collect();
    for id in &listeners {
        let message = vec![Frame::bulk("message"), Frame::bulk(&args[1]), Frame::bulk(&args[2])];
        server.pushes.push((*id, Frame::Push(message)));
    }
    Ok(Frame::count(listeners.len()))
}

pub(super) fn leave(server: &mut Server, id: ClientId) {
    if let Some(client) = server.clients.get_mut(&id) {
        client.channels.clear();
    }
}
