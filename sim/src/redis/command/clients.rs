//! CLIENT: names, numbers, tracking, and the end of other connections.

use super::{Fail, Reply, syntax, unknown_sub};
use crate::redis::number::integer;
use crate::redis::resp::Frame;
use crate::redis::server::{Client, ClientId, Server, Wish};
use crate::redis::tracking::{Tracking, overlap};
use crate::redis::value::Text;

pub(super) fn client(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let sub = args[1].to_ascii_lowercase();
    match sub.as_slice() {
        b"id" => Ok(Frame::Int(id as i64)),
        b"getname" => Ok(named(server, id)),
        b"setname" => set_name(server, id, &args[2]),
        b"setinfo" => set_info(server, id, args),
        b"no-evict" | b"no-touch" if matches!(args[2].to_ascii_lowercase().as_slice(), b"on" | b"off") => {
            Ok(Frame::ok())
        }
        b"no-evict" | b"no-touch" => syntax(),
        b"tracking" => tracking(server, id, args),
        b"trackinginfo" => Ok(tracking_info(server, id)),
        b"getredir" => Ok(Frame::Int(redirection(server, id))),
        b"kill" => kill(server, id, args),
        b"list" | b"info" => Ok(list(server, (sub == b"info").then_some(id))),
        _ => unknown_sub("client", &args[1]),
    }
}

fn named(server: &Server, id: ClientId) -> Frame {
    match server.clients.get(&id) {
        Some(client) if !client.name.is_empty() => Frame::bulk(&client.name),
        _ => Frame::Null,
    }
}

fn set_name(server: &mut Server, id: ClientId, name: &Text) -> Reply {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.".into());
    }
    if let Some(client) = server.clients.get_mut(&id) {
        client.name.clone_from(name);
    }
    Ok(Frame::ok())
}

fn set_info(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let Some(client) = server.clients.get_mut(&id) else { return Ok(Frame::ok()) };
    match args[2].to_ascii_lowercase().as_slice() {
        b"lib-name" => client.library.0.clone_from(&args[3]),
        b"lib-ver" => client.library.1.clone_from(&args[3]),
        _ => return Err(format!("ERR Unrecognized option '{}'", String::from_utf8_lossy(&args[2])).into()),
    }
    Ok(Frame::ok())
}

/// What CLIENT TRACKING ON asks for.
fn wanted(server: &Server, args: &[Text]) -> Result<(Tracking, bool, Vec<Text>), Fail> {
    let (mut tracking, mut broadcast, mut prefixes) = (Tracking::default(), false, Vec::new());
    let mut rest = args[3..].iter();
    while let Some(word) = rest.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"bcast" => broadcast = true,
            b"noloop" => tracking.no_loop = true,
            b"prefix" => prefixes.push(rest.next().ok_or("ERR syntax error")?.clone()),
            b"redirect" => {
                let number = rest.next().ok_or("ERR syntax error")?;
                let number = integer(number).ok_or("ERR Invalid client ID")? as ClientId;
                if !server.clients.contains_key(&number) {
                    return Err("ERR The client ID you want redirect to does not exist".into());
                }
                tracking.redirect = Some(number);
            }
            b"optin" | b"optout" => return Err("ERR the simulated server has no opting in and out".into()),
            _ => return Err("ERR syntax error".into()),
        }
    }
    Ok((tracking, broadcast, prefixes))
}

fn tracking(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {}
        b"off" => {
            if let Some(client) = server.clients.get_mut(&id) {
                client.tracking = None;
            }
            return Ok(Frame::ok());
        }
        _ => return syntax(),
    }
    let (mut tracking, broadcast, mut prefixes) = wanted(server, args)?;
    if !prefixes.is_empty() && !broadcast {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    let Some(client) = server.clients.get_mut(&id) else { return syntax() };
    if client.tracking.as_ref().is_some_and(|before| before.broadcast != broadcast) {
        return Err(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                    re-enabling it with a different mode."
                .into(),
        );
    }
    let before = client.tracking.take().unwrap_or_default();
    if let Some((new, old, exists)) = overlap(&before.prefixes, &prefixes) {
        let (new, old) =
            (String::from_utf8_lossy(new).into_owned(), String::from_utf8_lossy(old).into_owned());
        client.tracking = (!before.prefixes.is_empty()).then_some(before);
        return Err(if exists {
            format!(
                "ERR Prefix '{new}' overlaps with an existing prefix '{old}'. Prefixes for a single client must not overlap."
            )
        } else {
            format!(
                "ERR Prefix '{new}' overlaps with another provided prefix '{old}'. Prefixes for a single client must not overlap."
            )
        }
        .into());
    }
    tracking.broadcast = broadcast;
    if broadcast && prefixes.is_empty() && before.prefixes.is_empty() {
        prefixes.push(Text::new());
    }
    tracking.prefixes = before.prefixes.into_iter().chain(prefixes).collect();
    client.tracking = Some(tracking);
    Ok(Frame::ok())
}

fn redirection(server: &Server, id: ClientId) -> i64 {
    match server.clients.get(&id).and_then(|client| client.tracking.as_ref()) {
        None => -1,
        Some(tracking) => tracking.redirect.map_or(0, |id| id as i64),
    }
}

fn tracking_info(server: &Server, id: ClientId) -> Frame {
    let tracking = server.clients.get(&id).and_then(|client| client.tracking.as_ref());
    let mut flags = vec![if tracking.is_some() { "on" } else { "off" }];
    let mut prefixes = Vec::new();
    if let Some(tracking) = tracking {
        flags.extend(tracking.broadcast.then_some("bcast"));
        flags.extend(tracking.no_loop.then_some("noloop"));
        prefixes = tracking.prefixes.iter().map(Frame::bulk).collect();
    }
    Frame::Map(vec![
        (Frame::bulk("flags"), Frame::Set(flags.into_iter().map(Frame::bulk).collect())),
        (Frame::bulk("redirect"), Frame::Int(redirection(server, id))),
        (Frame::bulk("prefixes"), Frame::Array(prefixes)),
    ])
}

fn kill(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    if args.len() == 3 {
        return Err("ERR No such client".into()); // addresses are the machine's
    }
    let (mut number, mut skip_me, mut rest) = (None, true, args[2..].chunks(2));
    for pair in &mut rest {
        let [word, value] = pair else { return syntax() };
        match word.to_ascii_lowercase().as_slice() {
            b"id" => {
                let found = integer(value).filter(|number| *number > 0);
                number = Some(found.ok_or("ERR client-id should be greater than 0")? as ClientId);
            }
            b"type" if value.eq_ignore_ascii_case(b"normal") => {}
            b"type" => number = Some(0),
            b"skipme" => skip_me = value.eq_ignore_ascii_case(b"yes"),
            _ => return syntax(),
        }
    }
    let chosen =
        |other: &ClientId| number.is_none_or(|number| number == *other) && !(skip_me && *other == id);
    let killed: Vec<ClientId> = server.clients.keys().copied().filter(chosen).collect();
    server.wishes.extend(killed.iter().map(|id| Wish::Kill(*id)));
    Ok(Frame::count(killed.len()))
}

fn list(server: &Server, only: Option<ClientId>) -> Frame {
    let line = |(id, client): (&ClientId, &Client)| {
        let flags = if client.tracking.is_some() { "tB" } else { "N" };
        let multi = client.queue.as_ref().map_or(-1, |queue| queue.len() as i64);
        format!(
            "id={id} addr=sim:{id} name={} flags={flags} db={} sub={} multi={multi} watch={} resp={} lib-name={} lib-ver={}\n",
            String::from_utf8_lossy(&client.name),
            client.db,
            client.channels.len(),
            client.watched.len(),
            client.resp,
            String::from_utf8_lossy(&client.library.0),
            String::from_utf8_lossy(&client.library.1),
        )
    };
    let wanted = server.clients.iter().filter(|(id, _)| only.is_none_or(|only| only == **id));
    Frame::Verbatim(wanted.map(line).collect::<String>().into_bytes())
}
