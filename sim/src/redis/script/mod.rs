//! Scripts: a real Lua 5.1 with what a Redis server gives it, values converted both ways as a server does. The same
//! script with the same records does the same: no clock, no entropy, no files.

mod bits;
mod pack;

use super::command::{self, Fail, Reply};
use super::number::g17;
use super::resp::Frame;
use super::server::{ClientId, Server};
use super::value::Text;
use mlua::{Function, IntoLua, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

const PRELUDE: &str = include_str!("prelude.lua");
const RUNNER: &str = "runner";
/// Deepest nesting of a script's answer.
const DEPTH: usize = 64;

/// The name of a script: the SHA-1 of its text.
#[must_use]
pub fn digest(body: &[u8]) -> String {
    sha1_smol::Sha1::from(body).digest().to_string()
}

fn interpreter() -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH, LuaOptions::default())?;
    let native = lua.create_table()?;
    native.set("sha1hex", lua.create_function(|_, text: mlua::LuaString| Ok(digest(&text.as_bytes())))?)?;
    native.set("bit", bits::library(&lua)?)?;
    native.set("struct", pack::library(&lua)?)?;
    let runner: Function = lua.load(PRELUDE).set_name("@prelude").call(native)?;
    lua.set_named_registry_value(RUNNER, runner)?;
    Ok(lua)
}

fn with_lua<R>(server: &mut Server, f: impl FnOnce(&mut Server, &Lua) -> mlua::Result<R>) -> mlua::Result<R> {
    let lua = match server.lua.take() {
        Some(lua) => lua,
        None => interpreter()?,
    };
    let result = f(server, &lua);
    server.lua = Some(lua);
    result
}

/// Whether a script can be compiled.
///
/// # Errors
/// What a server answers to one that can't.
pub fn check(server: &mut Server, body: &[u8]) -> Result<(), Fail> {
    with_lua(server, |_, lua| lua.load(body).set_name("@user_script").into_function().map(drop))
        .map_err(|error| Fail(format!("ERR Error compiling script (new function): {}", first_line(&error))))
}

fn first_line(error: &mlua::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().into()
}

/// Runs a script for a connection.
///
/// # Errors
/// What a script that fails makes a server answer.
pub fn run(
    server: &mut Server,
    id: ClientId,
    sha: &str,
    body: &[u8],
    keys: &[Text],
    values: &[Text],
) -> Reply {
    let db = server.clients.get(&id).map_or(0, |client| client.db);
    let outside = std::mem::replace(&mut server.inside, true);
    server.scripted = true;
    server.declared = keys.to_vec();
    // Whether there is memory is asked once: a script that has begun to write goes on to its end.
    server.starved = server.state_allows(command::DENY_OOM, false).is_err();
    let result = with_lua(server, |server, lua| {
        let script: Function = match lua.named_registry_value(sha) {
            Ok(script) => script,
            Err(_) => {
                let script = lua.load(body).set_name("@user_script").into_function()?;
                lua.set_named_registry_value(sha, &script)?;
                script
            }
        };
        lua.globals().raw_set("KEYS", texts(lua, keys)?)?;
        lua.globals().raw_set("ARGV", texts(lua, values)?)?;
        let runner: Function = lua.named_registry_value(RUNNER)?;
        lua.scope(|scope| {
            let call = scope.create_function_mut(|lua, args: MultiValue| {
                let frame = called(server, id, &args);
                let failed = matches!(frame, Frame::Error(_));
                Ok((to_lua(lua, &frame)?, failed))
            })?;
            let (good, result): (bool, Value) = runner.call((script, call))?;
            Ok((good, if good { from_lua(&result, 0) } else { failure(&result, sha) }))
        })
    });
    server.inside = outside;
    server.scripted = false;
    if let Some(client) = server.clients.get_mut(&id) {
        client.db = db;
    }
    match result {
        Ok((true, frame)) => Ok(frame),
        Ok((false, Frame::Error(text))) => Err(Fail(text)),
        Ok((false, _)) => Err("ERR the script failed".into()),
        Err(error) => Err(Fail(format!("ERR {} script: {sha}, on @user_script:1.", first_line(&error)))),
    }
}

fn texts(lua: &Lua, list: &[Text]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for text in list {
        table.raw_push(lua.create_string(text)?)?;
    }
    Ok(table)
}

/// `redis.call`: the command of a script.
fn called(server: &mut Server, id: ClientId, args: &MultiValue) -> Frame {
    let mut command = Vec::new();
    for value in args {
        match value {
            Value::String(text) => command.push(text.as_bytes().to_vec()),
            Value::Integer(number) => command.push(g17(*number as f64).into_bytes()),
            Value::Number(number) => command.push(g17(*number).into_bytes()),
            _ => {
                return Frame::Error(
                    "ERR Lua redis lib command arguments must be strings or integers".into(),
                );
            }
        }
    }
    let Some(name) = command.first() else {
        return Frame::Error("ERR Please specify at least one argument for this redis.call() call".into());
    };
    let Some(spec) = server.known(name) else {
        return Frame::Error("ERR Unknown Redis command called from script".into());
    };
    if !spec.takes(command.len()) {
        return Frame::Error("ERR Wrong number of args calling Redis command from script".into());
    }
    if spec.is(command::NO_SCRIPT) {
        return Frame::Error("ERR This Redis command is not allowed from script".into());
    }
    if spec.is(command::DENY_OOM) && server.starved {
        return Frame::Error("OOM command not allowed when used memory > 'maxmemory'.".into());
    }
    if let Err(text) = server.state_allows(spec.flags & !command::DENY_OOM, false) {
        return Frame::Error(text);
    }
    server.starved &= !spec.is(command::WRITE);
    server.call(id, spec, &command)
}

fn one_field(lua: &Lua, field: &str, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(field, text)?;
    Ok(Value::Table(table))
}

fn to_lua(lua: &Lua, frame: &Frame) -> mlua::Result<Value> {
    let list = |items: Vec<&Frame>| {
        let table = lua.create_table()?;
        for (at, item) in items.into_iter().enumerate() {
            table.raw_set(at + 1, to_lua(lua, item)?)?;
        }
        Ok(Value::Table(table))
    };
    match frame {
        Frame::Simple(text) => one_field(lua, "ok", text),
        Frame::Error(text) => one_field(lua, "err", text),
        Frame::Int(number) => Ok(Value::Number(*number as f64)),
        Frame::Bulk(bytes) | Frame::Verbatim(bytes) => lua.create_string(bytes)?.into_lua(lua),
        Frame::Null | Frame::NullArray => Ok(Value::Boolean(false)),
        Frame::Array(items) | Frame::Set(items) | Frame::Push(items) => list(items.iter().collect()),
        Frame::Map(pairs) | Frame::Pairs(pairs) => {
            list(pairs.iter().flat_map(|(key, value)| [key, value]).collect())
        }
        Frame::Double(number) => lua.create_string(g17(*number))?.into_lua(lua),
        Frame::Bool(value) => Ok(Value::Number(f64::from(u8::from(*value)))),
    }
}

fn text_of(table: &Table, field: &str) -> Option<String> {
    match table.raw_get(field) {
        Ok(Value::String(text)) => Some(String::from_utf8_lossy(&text.as_bytes()).into_owned()),
        _ => None,
    }
}

fn from_lua(value: &Value, depth: usize) -> Frame {
    if depth > DEPTH {
        return Frame::Error("ERR reached lua stack limit".into());
    }
    match value {
        Value::String(text) => Frame::bulk(text.as_bytes()),
        Value::Integer(number) => Frame::Int(*number),
        // Out of range, a server's machine makes this of it.
        Value::Number(number) if number.is_nan() || number.abs() >= 9.223_372_036_854_776e18 => {
            Frame::Int(i64::MIN)
        }
        Value::Number(number) => Frame::Int(*number as i64),
        Value::Boolean(true) => Frame::Int(1),
        Value::Table(table) => {
            if let Some(text) = text_of(table, "err") {
                return Frame::Error(text);
            }
            if let Some(text) = text_of(table, "ok") {
                return Frame::Simple(text);
            }
            if let Ok(Value::Number(number)) = table.raw_get("double") {
                return Frame::Double(number);
            }
            let mut list = Vec::new();
            while let Ok(item) = table.raw_get::<Value>(list.len() + 1) {
                if item.is_nil() {
                    break;
                }
                list.push(from_lua(&item, depth + 1));
            }
            Frame::Array(list)
        }
        _ => Frame::Null,
    }
}

fn failure(value: &Value, sha: &str) -> Frame {
    let text = match value {
        Value::Table(table) => text_of(table, "err").unwrap_or_else(|| "ERR unknown error".into()),
        Value::String(text) => format!("ERR {}", String::from_utf8_lossy(&text.as_bytes())),
        Value::Error(error) => format!("ERR {}", first_line(error)),
        _ => "ERR unknown error".into(),
    };
    Frame::Error(format!("{text} script: {sha}, on @user_script:1."))
}
