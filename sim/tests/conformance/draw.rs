//! Random commands: few keys, mostly of the right type, arguments that are right, at the edge, or wrong.

use zest_sim::devices::SimChance;
use zest_sim::redis::Args;

/// Scripts, with the number of keys each is given.
pub const SCRIPTS: &[&str] = &[
    "return ARGV[1]",
    "return {KEYS[1], ARGV[1], 3, 3.7, true, false, 'x'}",
    "return {1, 2, nil, 4}",
    "return redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.pcall('INCR', KEYS[1])",
    "return redis.call('INCR', KEYS[1])",
    "local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0",
    "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return redis.call('HLEN', KEYS[1])",
    "return {err='MINE went wrong'}",
    "return redis.error_reply('OWN words')",
    "return redis.error_reply('single')",
    "return redis.status_reply('FINE')",
    "error('boom')",
    "error({err='THROWN as a table'})",
    "return redis.sha1hex(ARGV[1])",
    "return struct.pack('>I8', 4096) .. struct.pack('<hB', -2, 255) .. struct.pack('>i4', -5)",
    "return {struct.unpack('>I2BI4', struct.pack('>I2BI4', 513, 7, 70000))}",
    "return struct.pack('Bc0s', #ARGV[1] % 256, ARGV[1], 'z')",
    "return {bit.band(0xFF0F, 0x0FFF), bit.bor(1, 2), bit.bxor(5, 1), bit.lshift(1, 31), bit.rshift(-1, 28), bit.bnot(0)}",
    "return bit.tohex(ARGV[3]) .. bit.tohex(-1, 4) .. bit.tohex(255, -2)",
    "return nosuchglobal",
    "newglobal = 1",
    "return redis.call('NOSUCH')",
    "return redis.call('GET')",
    "return redis.call('MULTI')",
    "return redis.call()",
    "return redis.call('SET', KEYS[1], 10.5)",
    "return redis.call('SET', KEYS[1], 2^53)",
    "return redis.call('SET', KEYS[1], -7)",
    "return tostring(redis.call('ZSCORE', KEYS[1], ARGV[1])) .. type(redis.call('ZSCORE', KEYS[1], ARGV[1]))",
    "redis.call('SELECT', 3) redis.call('SET', KEYS[1], ARGV[1]) return redis.call('DEL', KEYS[1])",
    "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('LRANGE', KEYS[1], 0, -1)",
    "local r = redis.pcall('HSET', KEYS[1], 'a') return r.err and 1 or 0",
    "return tonumber(ARGV[3])",
    "return 10 / 3",
    "return -3.9",
    "return string.format('%d %s', 3, 'x') .. table.concat({'a', 'b'}, ',')",
    "local ok, e = pcall(redis.call, 'HSET', KEYS[1]) return type(e) == 'table' and 'table' or type(e)",
    "if then",
];

fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn pick(chance: &SimChance, list: &[&str]) -> Vec<u8> {
    text(list[chance.below(list.len() as u64) as usize])
}

fn key(chance: &SimChance, kind: char) -> Vec<u8> {
    let kind = if chance.permille(60) { *chance.pick(&['s', 'h', 'l', 't', 'z']) } else { kind };
    format!("{kind}{}", chance.below(3)).into_bytes()
}

fn value(chance: &SimChance) -> Vec<u8> {
    match chance.below(8) {
        0 => Vec::new(),
        1 => vec![0, 255, b'\r', b'\n', 128],
        2 => b"9223372036854775807".to_vec(),
        3 => b"-1".to_vec(),
        4 => b" 12".to_vec(),
        5 => b"3.5".to_vec(),
        _ => chance.below(40).to_string().into_bytes(),
    }
}

fn field(chance: &SimChance) -> Vec<u8> {
    format!("f{}", chance.below(5)).into_bytes()
}

fn integer(chance: &SimChance) -> Vec<u8> {
    match chance.below(12) {
        0 => b"x".to_vec(),
        1 => b"-9223372036854775808".to_vec(),
        2 => b"0".to_vec(),
        3 => b"007".to_vec(),
        _ => (chance.below(14) as i64 - 6).to_string().into_bytes(),
    }
}

fn score(chance: &SimChance) -> Vec<u8> {
    pick(chance, &["1", "2", "2", "3.5", "-1", "inf", "-inf", "nan", "x", "0", "1e3", "5"])
}

fn bound(chance: &SimChance) -> Vec<u8> {
    pick(chance, &["-inf", "+inf", "(1", "2", "(2", "3.5", "0", "x", "(x", "5"])
}

fn any_case(chance: &SimChance, name: &str) -> Vec<u8> {
    if chance.permille(200) { text(name) } else { text(&name.to_ascii_uppercase()) }
}

fn times<F: Fn(&SimChance) -> Vec<u8>>(chance: &SimChance, most: u64, one: F) -> Vec<Vec<u8>> {
    (0..=chance.below(most)).map(|_| one(chance)).collect()
}

fn maybe(chance: &SimChance, list: &[&str]) -> Vec<Vec<u8>> {
    if chance.permille(500) { vec![pick(chance, list)] } else { Vec::new() }
}

/// A random command.
pub fn command(chance: &SimChance) -> Args {
    let (name, args) = match chance.below(12) {
        0 | 1 => strings(chance),
        2 | 3 => hashes(chance),
        4 => lists(chance),
        5 => sets(chance),
        6 | 7 => sorted(chance),
        8 => keys(chance),
        9 | 10 => scripts(chance),
        _ => transactions(chance),
    };
    let mut args = [vec![any_case(chance, name)], args].concat();
    if chance.permille(15) {
        args.pop(); // too few
    }
    if chance.permille(10) {
        args.push(value(chance)); // too many
    }
    if args.is_empty() { vec![text("PING")] } else { args }
}

type Drawn = (&'static str, Args);

fn strings(c: &SimChance) -> Drawn {
    let k = key(c, 's');
    match c.below(16) {
        0 => ("get", vec![k]),
        1 | 2 => {
            ("set", [vec![k, value(c)], maybe(c, &["NX", "XX", "GET", "nx", "KEEPTTL", "what"])].concat())
        }
        3 => ("set", [vec![k, value(c)], vec![text("GET")], maybe(c, &["NX", "XX"])].concat()),
        4 => ("setnx", vec![k, value(c)]),
        5 => ("getset", vec![k, value(c)]),
        6 => ("mget", times(c, 3, |c| key(c, 's'))),
        7 => ("mset", times(c, 2, |_| Vec::new()).iter().flat_map(|_| [key(c, 's'), value(c)]).collect()),
        8 => ("incr", vec![k]),
        9 => ("decr", vec![k]),
        10 => ("incrby", vec![k, integer(c)]),
        11 => ("decrby", vec![k, integer(c)]),
        12 => ("append", vec![k, value(c)]),
        13 => ("strlen", vec![k]),
        14 => ("getrange", vec![k, integer(c), integer(c)]),
        _ => ("setrange", vec![k, integer(c), value(c)]),
    }
}

fn hashes(c: &SimChance) -> Drawn {
    let k = key(c, 'h');
    match c.below(14) {
        0 => ("hget", vec![k, field(c)]),
        1 | 2 => (
            "hset",
            [vec![k, field(c), value(c)], if c.permille(200) { vec![field(c), value(c)] } else { vec![] }]
                .concat(),
        ),
        3 => ("hsetnx", vec![k, field(c), value(c)]),
        4 => ("hmget", [vec![k], times(c, 3, field)].concat()),
        5 => ("hdel", [vec![k], times(c, 3, field)].concat()),
        6 => ("hexists", vec![k, field(c)]),
        7 => ("hlen", vec![k]),
        8 => ("hkeys", vec![k]),
        9 => ("hvals", vec![k]),
        10 => ("hgetall", vec![k]),
        11 => ("hincrby", vec![k, field(c), integer(c)]),
        12 => (
            "hscan",
            [
                vec![k, pick(c, &["0", "0", "0", "x"])],
                if c.permille(300) { vec![text("MATCH"), text("f[12]*")] } else { vec![] },
            ]
            .concat(),
        ),
        _ => ("hrandfield", vec![k, pick(c, &["99", "0", "x", "99"])]),
    }
}

fn lists(c: &SimChance) -> Drawn {
    let k = key(c, 'l');
    match c.below(14) {
        0 | 1 => ("lpush", [vec![k], times(c, 2, value)].concat()),
        2 | 3 => ("rpush", [vec![k], times(c, 2, value)].concat()),
        4 => ("lpushx", vec![k, value(c)]),
        5 => ("rpushx", vec![k, value(c)]),
        6 => ("lpop", [vec![k], if c.permille(400) { vec![integer(c)] } else { vec![] }].concat()),
        7 => ("rpop", [vec![k], if c.permille(400) { vec![integer(c)] } else { vec![] }].concat()),
        8 => ("lrange", vec![k, integer(c), integer(c)]),
        9 => ("llen", vec![k]),
        10 => ("lindex", vec![k, integer(c)]),
        11 => ("ltrim", vec![k, integer(c), integer(c)]),
        12 => ("lset", vec![k, integer(c), value(c)]),
        _ => ("lrem", vec![k, integer(c), value(c)]),
    }
}

fn sets(c: &SimChance) -> Drawn {
    let k = key(c, 't');
    match c.below(8) {
        0 | 1 => ("sadd", [vec![k], times(c, 3, field)].concat()),
        2 => ("srem", [vec![k], times(c, 2, field)].concat()),
        3 => ("smembers", vec![k]),
        4 => ("sismember", vec![k, field(c)]),
        5 => ("scard", vec![k]),
        6 => ("smismember", [vec![k], times(c, 2, field)].concat()),
        _ => ("sscan", vec![k, text("0"), text("COUNT"), pick(c, &["1000", "1000", "0", "-5", "x"])]),
    }
}

fn window(c: &SimChance) -> Args {
    if c.permille(300) { vec![text("LIMIT"), integer(c), integer(c)] } else { Vec::new() }
}

fn sorted(c: &SimChance) -> Drawn {
    let k = key(c, 'z');
    match c.below(15) {
        0..=2 => {
            let options =
                [maybe(c, &["NX", "XX"]), maybe(c, &["GT", "LT"]), maybe(c, &["CH", "INCR"])].concat();
            let pairs: Args = times(c, 2, |_| Vec::new()).iter().flat_map(|_| [score(c), field(c)]).collect();
            ("zadd", [vec![k], options, pairs].concat())
        }
        3 => ("zincrby", vec![k, pick(c, &["1", "-2.5", "x"]), field(c)]),
        4 => ("zrem", [vec![k], times(c, 2, field)].concat()),
        5 => ("zscore", vec![k, field(c)]),
        6 => ("zmscore", [vec![k], times(c, 2, field)].concat()),
        7 => ("zcard", vec![k]),
        8 => ("zcount", vec![k, bound(c), bound(c)]),
        9 => ("zrange", [vec![k, integer(c), integer(c)], maybe(c, &["WITHSCORES", "REV", "what"])].concat()),
        10 => {
            let mut args = vec![k, bound(c), bound(c), text("BYSCORE")];
            args.extend([maybe(c, &["REV", "WITHSCORES"]), window(c)].concat());
            ("zrange", args)
        }
        11 => ("zrangebyscore", [vec![k, bound(c), bound(c)], maybe(c, &["WITHSCORES"]), window(c)].concat()),
        12 => {
            ("zrevrangebyscore", [vec![k, bound(c), bound(c)], maybe(c, &["WITHSCORES"]), window(c)].concat())
        }
        13 => ("zremrangebyscore", vec![k, bound(c), bound(c)]),
        _ => ("zscan", vec![k, text("0")]),
    }
}

fn any_key(c: &SimChance) -> Vec<u8> {
    key(c, *c.pick(&['s', 'h', 'l', 't', 'z']))
}

fn keys(c: &SimChance) -> Drawn {
    match c.below(14) {
        0 => ("type", vec![any_key(c)]),
        1 => ("exists", times(c, 3, any_key)),
        2 => ("del", times(c, 1, any_key)),
        3 => ("unlink", times(c, 1, any_key)),
        4 => ("rename", vec![any_key(c), any_key(c)]),
        5 => ("renamenx", vec![any_key(c), any_key(c)]),
        6 => ("keys", vec![pick(c, &["*", "s*", "?1", "[hz]*", "x", "[^s]*"])]),
        7 => ("scan", vec![text("0"), text("COUNT"), text("1000")]),
        8 => ("scan", vec![text("0"), text("COUNT"), text("1000"), text("TYPE"), text("hash")]),
        9 => ("dbsize", Vec::new()),
        10 => ("ttl", vec![any_key(c)]),
        11 => ("select", vec![pick(c, &["0", "0", "0", "0", "1", "16", "x"])]),
        12 if c.permille(200) => (*c.pick(&["flushdb", "flushall"]), Vec::new()),
        12 => ("ping", maybe(c, &["hello"])),
        _ => (*c.pick(&["echo", "nosuchcommand"]), vec![value(c)]),
    }
}

fn scripts(c: &SimChance) -> Drawn {
    let body = pick(c, SCRIPTS);
    let rest =
        |c: &SimChance| vec![text("1"), any_key(c), value(c), field(c), pick(c, &["12", "-1", "4294967295"])];
    match c.below(8) {
        0 => ("script", vec![text("LOAD"), body]),
        1 => ("evalsha", [vec![sha1(&body)], rest(c)].concat()),
        2 => ("script", vec![text("EXISTS"), sha1(&body)]),
        3 if c.permille(100) => ("script", vec![text("FLUSH")]),
        4 if c.permille(300) => ("eval", vec![body, pick(c, &["3", "-1", "x"]), any_key(c)]),
        _ => ("eval", [vec![body], rest(c)].concat()),
    }
}

/// Its own digest, by way of the server's own script library being what is tested.
fn sha1(body: &[u8]) -> Vec<u8> {
    sha1_smol::Sha1::from(body).digest().to_string().into_bytes()
}

fn transactions(c: &SimChance) -> Drawn {
    match c.below(9) {
        0 | 1 => ("multi", Vec::new()),
        2..=4 => ("exec", Vec::new()),
        5 => ("discard", Vec::new()),
        6 | 7 => ("watch", times(c, 2, any_key)),
        _ => ("unwatch", Vec::new()),
    }
}

/// A whole transaction with others' commands in it, each of which begins with OTHER.
pub fn transaction(c: &SimChance) -> Vec<Args> {
    let mut all = vec![[vec![text("WATCH")], times(c, 2, any_key)].concat()];
    let other = |all: &mut Vec<Args>| {
        if c.permille(500) {
            let (name, args) = match c.below(4) {
                0 => strings(c),
                1 => hashes(c),
                2 => sorted(c),
                _ => lists(c),
            };
            all.push([vec![text("OTHER"), text(name)], args].concat());
        }
    };
    all.push(vec![text("GET"), key(c, 's')]);
    other(&mut all);
    all.push(vec![text("MULTI")]);
    for _ in 0..c.below(4) {
        let (name, args) = if c.permille(500) { strings(c) } else { hashes(c) };
        all.push([vec![text(name)], args].concat());
        other(&mut all);
    }
    all.push(vec![text(if c.permille(900) { "EXEC" } else { "DISCARD" })]);
    all
}
