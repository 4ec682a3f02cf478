//! What a connection says about itself: HELLO, AUTH, SELECT, PING, QUIT.

use super::{Reply, integer_at, messages, syntax};
use crate::redis::number::integer;
use crate::redis::resp::Frame;
use crate::redis::server::{Client, ClientId, DATABASES, Server, Wish};
use crate::redis::value::Text;

pub(super) fn ping(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    if args.len() > 2 {
        return Err("ERR wrong number of arguments for 'ping' command".into());
    }
    let text = args.get(1);
    let listens =
        server.clients.get(&id).is_some_and(|client| client.resp == 2 && !client.channels.is_empty());
    if listens {
        let parts = vec![Frame::bulk("pong"), Frame::bulk(text.map_or(&[][..], Vec::as_slice))];
        return Ok(Frame::Push(vec![Frame::Array(parts)]));
    }
    Ok(text.map_or_else(|| Frame::Simple("PONG".into()), Frame::bulk))
}

pub(super) fn echo(_: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    Ok(Frame::bulk(&args[1]))
}

pub(super) fn select(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let number = integer(&args[1]).ok_or("ERR value is not an integer or out of range")?;
    let db =
        usize::try_from(number).ok().filter(|db| *db < DATABASES).ok_or("ERR DB index is out of range")?;
    if let Some(client) = server.clients.get_mut(&id) {
        client.db = db;
    }
    Ok(Frame::ok())
}

fn check_password(server: &mut Server, id: ClientId, user: &[u8], password: &[u8]) -> Reply {
    let wanted = server.config.get("requirepass");
    if user != b"default" || !wanted.is_empty() && password != wanted.as_bytes() {
        return Err("WRONGPASS invalid username-password pair or user is disabled.".into());
    }
    if let Some(client) = server.clients.get_mut(&id) {
        client.trusted = true;
    }
    Ok(Frame::ok())
}

pub(super) fn auth(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    match args {
        [_, _] if server.config.get("requirepass").is_empty() => {
            Err("ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?"
                .into())
        }
        [_, password] => check_password(server, id, b"default", password),
        [_, user, password] => check_password(server, id, user, password),
        _ => syntax(),
    }
}

pub(super) fn hello(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let mut resp = server.protocol(id);
    if let Some(version) = args.get(1) {
        let number = integer(version).ok_or("ERR Protocol version is not an integer or out of range")?;
        resp = match number {
            2 => 2,
            3 => 3,
            _ => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let (mut rest, mut name) = (args.iter().skip(2), None);
    while let Some(word) = rest.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"auth" => match (rest.next(), rest.next()) {
                (Some(user), Some(password)) => drop(check_password(server, id, user, password)?),
                _ => {
                    return Err(format!(
                        "ERR Syntax error in HELLO option '{}'",
                        String::from_utf8_lossy(word)
                    )
                    .into());
                }
            },
            b"setname" => {
                name = Some(rest.next().ok_or("ERR Syntax error in HELLO option 'setname'")?.clone())
            }
            _ => {
                return Err(
                    format!("ERR Syntax error in HELLO option '{}'", String::from_utf8_lossy(word)).into()
                );
            }
        }
    }
    let role = if server.facts.replica { "replica" } else { "master" };
    let (a, b, c) = (server.version.0, server.version.1, server.version.2);
    let Some(client) = server.clients.get_mut(&id) else { return syntax() };
    if !client.trusted {
        return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                    AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
                    version at the same time"
            .into());
    }
    client.resp = resp;
    if let Some(name) = name {
        client.name = name;
    }
    let text = |key: &str, value: &str| (Frame::bulk(key), Frame::bulk(value));
    Ok(Frame::Map(vec![
        text("server", "redis"),
        text("version", &format!("{a}.{b}.{c}")),
        (Frame::bulk("proto"), Frame::Int(resp.into())),
        (Frame::bulk("id"), Frame::Int(id as i64)),
        text("mode", "standalone"),
        text("role", role),
        (Frame::bulk("modules"), Frame::Array(Vec::new())),
    ]))
}

pub(super) fn quit(server: &mut Server, id: ClientId, _: &[Text]) -> Reply {
    server.wishes.push(Wish::Kill(id));
    Ok(Frame::ok())
}

pub(super) fn reset(server: &mut Server, id: ClientId, _: &[Text]) -> Reply {
    let trusted = server.config.get("requirepass").is_empty();
    messages::leave(server, id);
    server.clients.insert(id, Client { resp: 2, trusted, ..Client::default() });
    Ok(Frame::Simple("RESET".into()))
}

/// A number that is at least 0.
pub(super) fn natural(args: &[Text], at: usize) -> Result<u64, super::Fail> {
    u64::try_from(integer_at(args, at)?).map_err(|_| super::no_integer())
}
