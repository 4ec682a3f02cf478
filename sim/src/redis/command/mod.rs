//! The table of commands: names, number of arguments, what is allowed when, where the keys are, and who does it.

mod admin;
mod clients;
mod connection;
mod hashes;
mod keys;
mod lists;
mod messages;
mod scan;
mod scripting;
mod sets;
mod sorted;
mod strings;
mod transactions;

use super::number::integer;
use super::resp::Frame;
use super::server::{ClientId, Server};
use super::value::{Database, Text};

/// Why a command did nothing: the text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail(pub String);

impl From<&str> for Fail {
    fn from(text: &str) -> Fail {
        Fail(text.into())
    }
}

impl From<String> for Fail {
    fn from(text: String) -> Fail {
        Fail(text)
    }
}

/// What a command answers.
pub type Reply = Result<Frame, Fail>;

/// The key holds something of another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

pub(super) fn no_integer() -> Fail {
    "ERR value is not an integer or out of range".into()
}

fn syntax() -> Reply {
    Err("ERR syntax error".into())
}

fn integer_at(args: &[Text], at: usize) -> Result<i64, Fail> {
    args.get(at).and_then(|text| integer(text)).ok_or_else(no_integer)
}

/// Changes records; refused on a replica and when nothing can be saved.
pub const WRITE: u16 = 1;
/// May need memory; refused when there is none.
pub const DENY_OOM: u16 = 2;
/// Not from a script.
pub const NO_SCRIPT: u16 = 4;
/// Allowed while records are loaded.
pub const LOADING: u16 = 8;
/// Done at once in a transaction instead of being queued.
pub const NOT_QUEUED: u16 = 16;
/// Not in a transaction.
pub const NO_MULTI: u16 = 32;
/// Allowed to a subscriber of the old protocol.
pub const SUBSCRIBER: u16 = 64;
/// Allowed before a password was given.
pub const NO_AUTH: u16 = 128;

/// Who does a command.
#[derive(Clone, Copy)]
pub enum Run {
    /// One that needs one database only.
    Data(fn(&mut Database, &[Text]) -> Reply),
    /// One that needs the server.
    Server(fn(&mut Server, ClientId, &[Text]) -> Reply),
}

/// A command.
pub struct Spec {
    /// Its name, in small letters.
    pub name: &'static str,
    /// Number of arguments with the name; negative for at least so many.
    pub arity: i32,
    /// What is allowed when.
    pub flags: u16,
    /// First key, last key (negative from the end) and step; no keys where the first is 0.
    pub keys: (i32, i32, i32),
    /// Who does it.
    pub run: Run,
}

impl Spec {
    /// Whether so many arguments are right.
    #[must_use]
    pub fn takes(&self, arguments: usize) -> bool {
        let count = i32::try_from(arguments).unwrap_or(i32::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }

    /// The keys among its arguments.
    pub fn keys_of<'a>(&self, args: &'a [Text]) -> impl Iterator<Item = &'a Text> {
        let (first, last, step) = self.keys;
        let count = i32::try_from(args.len()).unwrap_or(i32::MAX);
        let last = if last < 0 { count + last } else { last };
        let place = |at: i32| usize::try_from(at).unwrap_or(usize::MAX);
        let length = if first == 0 { 0 } else { place(last + 1 - first) };
        args.iter().skip(place(first)).take(length).step_by(place(step.max(1)))
    }

    /// Whether it has this flag.
    #[must_use]
    pub fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

const ONE: (i32, i32, i32) = (1, 1, 1);
const ALL: (i32, i32, i32) = (1, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);
const TWO: (i32, i32, i32) = (1, 2, 1);
const NONE: (i32, i32, i32) = (0, 0, 0);
const GROW: u16 = WRITE | DENY_OOM;

type DataFn = fn(&mut Database, &[Text]) -> Reply;
type ServerFn = fn(&mut Server, ClientId, &[Text]) -> Reply;

const fn d(name: &'static str, arity: i32, flags: u16, keys: (i32, i32, i32), run: DataFn) -> Spec {
    Spec { name, arity, flags, keys, run: Run::Data(run) }
}

const fn s(name: &'static str, arity: i32, flags: u16, run: ServerFn) -> Spec {
    Spec { name, arity, flags, keys: NONE, run: Run::Server(run) }
}

static DATA: &[Spec] = &[
    d("get", 2, 0, ONE, strings::get),
    d("set", -3, GROW, ONE, strings::set),
    d("setnx", 3, GROW, ONE, strings::setnx),
    d("getset", 3, GROW, ONE, strings::getset),
    d("getdel", 2, WRITE, ONE, strings::getdel),
    d("mget", -2, 0, ALL, strings::mget),
    d("mset", -3, GROW, PAIRS, strings::mset),
    d("incr", 2, GROW, ONE, strings::incr),
    d("decr", 2, GROW, ONE, strings::decr),
    d("incrby", 3, GROW, ONE, strings::incrby),
    d("decrby", 3, GROW, ONE, strings::decrby),
    d("append", 3, GROW, ONE, strings::append),
    d("strlen", 2, 0, ONE, strings::strlen),
    d("getrange", 4, 0, ONE, strings::getrange),
    d("substr", 4, 0, ONE, strings::getrange),
    d("setrange", 4, GROW, ONE, strings::setrange),
    d("hget", 3, 0, ONE, hashes::hget),
    d("hset", -4, GROW, ONE, hashes::hset),
    d("hmset", -4, GROW, ONE, hashes::hmset),
    d("hsetnx", 4, GROW, ONE, hashes::hsetnx),
    d("hmget", -3, 0, ONE, hashes::hmget),
    d("hdel", -3, WRITE, ONE, hashes::hdel),
    d("hexists", 3, 0, ONE, hashes::hexists),
    d("hlen", 2, 0, ONE, hashes::hlen),
    d("hstrlen", 3, 0, ONE, hashes::hstrlen),
    d("hkeys", 2, 0, ONE, hashes::hkeys),
    d("hvals", 2, 0, ONE, hashes::hvals),
    d("hgetall", 2, 0, ONE, hashes::hgetall),
    d("hincrby", 4, GROW, ONE, hashes::hincrby),
    d("hscan", -3, 0, ONE, hashes::hscan),
    d("hrandfield", -2, 0, ONE, hashes::hrandfield),
    d("lpush", -3, GROW, ONE, lists::lpush),
    d("rpush", -3, GROW, ONE, lists::rpush),
    d("lpushx", -3, GROW, ONE, lists::lpushx),
    d("rpushx", -3, GROW, ONE, lists::rpushx),
    d("lpop", -2, WRITE, ONE, lists::lpop),
    d("rpop", -2, WRITE, ONE, lists::rpop),
    d("lrange", 4, 0, ONE, lists::lrange),
    d("llen", 2, 0, ONE, lists::llen),
    d("lindex", 3, 0, ONE, lists::lindex),
    d("ltrim", 4, WRITE, ONE, lists::ltrim),
    d("lset", 4, GROW, ONE, lists::lset),
    d("lrem", 4, WRITE, ONE, lists::lrem),
    d("sadd", -3, GROW, ONE, sets::sadd),
    d("srem", -3, WRITE, ONE, sets::srem),
    d("smembers", 2, 0, ONE, sets::smembers),
    d("sismember", 3, 0, ONE, sets::sismember),
    d("smismember", -3, 0, ONE, sets::smismember),
    d("scard", 2, 0, ONE, sets::scard),
    d("sscan", -3, 0, ONE, sets::sscan),
    d("zadd", -4, GROW, ONE, sorted::zadd),
    d("zincrby", 4, GROW, ONE, sorted::zincrby),
    d("zrem", -3, WRITE, ONE, sorted::zrem),
    d("zscore", 3, 0, ONE, sorted::zscore),
    d("zmscore", -3, 0, ONE, sorted::zmscore),
    d("zcard", 2, 0, ONE, sorted::zcard),
    d("zrank", 3, 0, ONE, sorted::zrank),
    d("zcount", 4, 0, ONE, sorted::zcount),
    d("zrange", -4, 0, ONE, sorted::zrange),
    d("zrevrange", -4, 0, ONE, sorted::zrevrange),
    d("zrangebyscore", -4, 0, ONE, sorted::zrangebyscore),
    d("zrevrangebyscore", -4, 0, ONE, sorted::zrevrangebyscore),
    d("zremrangebyscore", 4, WRITE, ONE, sorted::zremrangebyscore),
    d("zscan", -3, 0, ONE, sorted::zscan),
    d("type", 2, 0, ONE, keys::kind),
    d("exists", -2, 0, ALL, keys::exists),
    d("del", -2, WRITE, ALL, keys::del),
    d("unlink", -2, WRITE, ALL, keys::del),
    d("rename", 3, WRITE, TWO, keys::rename),
    d("renamenx", 3, WRITE, TWO, keys::renamenx),
    d("keys", 2, 0, NONE, keys::keys),
    d("scan", -2, 0, NONE, keys::scan),
    d("dbsize", 1, 0, NONE, keys::dbsize),
    d("randomkey", 1, 0, NONE, keys::randomkey),
    d("ttl", 2, 0, ONE, keys::ttl),
    d("pttl", 2, 0, ONE, keys::ttl),
];

static SERVER: &[Spec] = &[
    s("ping", -1, LOADING | SUBSCRIBER, connection::ping),
    s("echo", 2, LOADING, connection::echo),
    s("select", 2, LOADING, connection::select),
    s("hello", -1, LOADING | NO_SCRIPT | NO_AUTH, connection::hello),
    s("auth", -2, LOADING | NO_SCRIPT | NO_AUTH, connection::auth),
    s("quit", -1, LOADING | NO_SCRIPT | NO_AUTH | NOT_QUEUED | SUBSCRIBER, connection::quit),
    s("reset", 1, LOADING | NO_SCRIPT | NO_AUTH | NOT_QUEUED | SUBSCRIBER, connection::reset),
    s("client", -2, LOADING | NO_SCRIPT, clients::client),
    s("command", -1, LOADING, admin::command),
    s("info", -1, LOADING, admin::info),
    s("config", -2, LOADING | NO_SCRIPT, admin::config),
    s("flushdb", -1, WRITE, admin::flushdb),
    s("flushall", -1, WRITE, admin::flushall),
    s("time", 1, LOADING, admin::time),
    s("role", 1, LOADING | NO_SCRIPT, admin::role),
    s("cluster", -2, LOADING, admin::cluster),
    s("save", 1, NO_SCRIPT | NO_MULTI, admin::save),
    s("bgsave", -1, NO_SCRIPT, admin::bgsave),
    s("bgrewriteaof", 1, NO_SCRIPT, admin::bgrewriteaof),
    s("lastsave", 1, LOADING, admin::lastsave),
    s("debug", -2, LOADING | NO_SCRIPT, admin::debug),
    s("shutdown", -1, LOADING | NO_SCRIPT | NO_MULTI, admin::shutdown),
    s("wait", 3, NO_SCRIPT, admin::wait),
    s("waitaof", 4, NO_SCRIPT, admin::waitaof),
    s("memory", -2, 0, admin::memory),
    s("watch", -2, LOADING | NO_SCRIPT | NOT_QUEUED, transactions::watch),
    s("unwatch", 1, LOADING | NO_SCRIPT, transactions::unwatch),
    s("multi", 1, LOADING | NO_SCRIPT | NOT_QUEUED, transactions::multi),
    s("exec", 1, LOADING | NO_SCRIPT | NOT_QUEUED, transactions::exec),
    s("discard", 1, LOADING | NO_SCRIPT | NOT_QUEUED, transactions::discard),
    s("eval", -3, NO_SCRIPT, scripting::eval),
    s("evalsha", -3, NO_SCRIPT, scripting::evalsha),
    s("script", -2, NO_SCRIPT, scripting::script),
    s("subscribe", -2, LOADING | NO_SCRIPT | SUBSCRIBER, messages::subscribe),
    s("unsubscribe", -1, LOADING | NO_SCRIPT | SUBSCRIBER, messages::unsubscribe),
    s("publish", 3, LOADING, messages::publish),
];

/// Second words that commands have, and the number of arguments with both.
static SECONDS: &[(&str, &str, i32)] = &[
    ("client", "id", 2),
    ("client", "getname", 2),
    ("client", "setname", 3),
    ("client", "setinfo", 4),
    ("client", "no-evict", 3),
    ("client", "no-touch", 3),
    ("client", "tracking", -3),
    ("client", "trackinginfo", 2),
    ("client", "getredir", 2),
    ("client", "kill", -3),
    ("client", "list", -2),
    ("client", "info", 2),
    ("config", "get", -3),
    ("config", "set", -4),
    ("config", "resetstat", 2),
    ("config", "rewrite", 2),
    ("script", "load", 3),
    ("script", "exists", -3),
    ("script", "flush", -2),
    ("script", "kill", 2),
];

/// Second words that came with a version of their own.
const LATE: [&str; 2] = ["setinfo", "no-touch"];

/// What is wrong with the second word of a command, where it has one.
#[must_use]
pub fn wrong_second(spec: &Spec, args: &[Text], late: bool) -> Option<String> {
    let mut mine = SECONDS
        .iter()
        .filter(|(name, word, _)| *name == spec.name && (late || !LATE.contains(word)))
        .peekable();
    mine.peek()?;
    let second = args.get(1)?;
    match mine.find(|(_, word, _)| second.eq_ignore_ascii_case(word.as_bytes())) {
        None => unknown_sub(spec.name, second).err().map(|fail| fail.0),
        Some((name, word, arity)) => {
            let count = i32::try_from(args.len()).unwrap_or(i32::MAX);
            let right = if *arity < 0 { count >= -arity } else { count == *arity };
            (!right).then(|| format!("ERR wrong number of arguments for '{name}|{word}' command"))
        }
    }
}

/// The command of this name, in any letters.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    every().find(|spec| name.eq_ignore_ascii_case(spec.name.as_bytes()))
}

/// Every command.
pub fn every() -> impl Iterator<Item = &'static Spec> {
    DATA.iter().chain(SERVER)
}

fn unknown_sub(command: &str, sub: &[u8]) -> Reply {
    let sub = String::from_utf8_lossy(sub);
    Err(format!("ERR unknown subcommand '{sub}'. Try {} HELP.", command.to_ascii_uppercase()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_one_name() {
        let mut names: Vec<_> = every().map(|spec| spec.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(find(b"EvalSha").is_some_and(|spec| spec.takes(3) && !spec.takes(2)));
    }
}
