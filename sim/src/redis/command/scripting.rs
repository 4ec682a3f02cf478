//! EVAL, EVALSHA, SCRIPT: finds the script, its keys and arguments; the interpreter is elsewhere.

use super::{Fail, Reply, integer_at, unknown_sub};
use crate::redis::resp::Frame;
use crate::redis::script;
use crate::redis::server::{ClientId, Server};
use crate::redis::value::Text;

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

fn run(server: &mut Server, id: ClientId, sha: &str, args: &[Text]) -> Reply {
    let count = integer_at(args, 2)?;
    if count > args.len() as i64 - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let count = usize::try_from(count).map_err(|_| Fail::from("ERR Number of keys can't be negative"))?;
    let (keys, values) = args[3..].split_at(count);
    let Some(body) = server.scripts.get(sha).cloned() else { return Err(NO_SCRIPT.into()) };
    script::run(server, id, sha, &body, keys, values)
}

pub(super) fn eval(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let count = integer_at(args, 2)?;
    if count > args.len() as i64 - 3 || count < 0 {
        return run(server, id, "", args);
    }
    let sha = script::digest(&args[1]);
    if !server.scripts.contains_key(&sha) {
        script::check(server, &args[1])?;
        server.scripts.insert(sha.clone(), args[1].clone());
    }
    run(server, id, &sha, args)
}

pub(super) fn evalsha(server: &mut Server, id: ClientId, args: &[Text]) -> Reply {
    let sha = String::from_utf8_lossy(&args[1]).to_ascii_lowercase();
    run(server, id, &sha, args)
}

pub(super) fn script(server: &mut Server, _: ClientId, args: &[Text]) -> Reply {
    match args[1].to_ascii_lowercase().as_slice() {
        b"load" => {
            script::check(server, &args[2])?;
            let sha = script::digest(&args[2]);
            server.scripts.insert(sha.clone(), args[2].clone());
            Ok(Frame::bulk(sha))
        }
        b"exists" => {
            let known =
                |sha: &Text| server.scripts.contains_key(&String::from_utf8_lossy(sha).to_ascii_lowercase());
            Ok(Frame::Array(args[2..].iter().map(|sha| Frame::Int(known(sha).into())).collect()))
        }
        b"flush" if args.len() <= 3 => {
            match args.get(2).map(|word| word.to_ascii_lowercase()).as_deref() {
                None | Some(b"sync" | b"async") => {}
                Some(_) => return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
            }
            server.scripts.clear();
            server.lua = None;
            Ok(Frame::ok())
        }
        b"kill" => Err("NOTBUSY No scripts in execution right now.".into()),
        b"flush" => Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
        _ => unknown_sub("script", &args[1]),
    }
}
