//! A real and a simulated server, told the same.

use crate::real::{Link, RealServer, words};
use std::collections::BTreeMap;
use zest_sim::redis::resp::{Parsed, reply};
use zest_sim::redis::{Args, ClientId, Frame, Server, Version};

/// Number of connections; the third tracks.
pub const LINKS: usize = 4;
const TRACKING: usize = 2;

/// Both servers with connections to both.
pub struct Pair {
    real: Vec<Link>,
    sim: Server,
    ids: Vec<ClientId>,
    log: Vec<String>,
}

fn version(link: &mut Link) -> Version {
    let Frame::Bulk(info) = link.ask(&words("INFO server")) else { panic!("INFO is no text") };
    let info = String::from_utf8_lossy(&info).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("redis_version:")).expect("a version");
    let mut parts = line.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    Version(next(), next(), next())
}

impl Pair {
    /// Both servers, empty.
    pub fn new(server: &RealServer) -> Pair {
        let mut real: Vec<Link> = (0..LINKS).map(|_| server.connect()).collect();
        for args in ["FLUSHALL", "SCRIPT FLUSH"] {
            real[0].ask(&words(args));
        }
        let mut sim = Server::new(version(&mut real[0]));
        let ids: Vec<ClientId> = (0..LINKS).map(|_| sim.connect()).collect();
        for link in [1, TRACKING] {
            real[link].ask(&words("HELLO 3"));
            sim.execute(ids[link], &words("HELLO 3"));
        }
        let mut pair = Pair { real, sim, ids, log: Vec::new() };
        pair.same("set-up", TRACKING, &words("CLIENT TRACKING ON BCAST PREFIX s PREFIX h NOLOOP"));
        pair.same("set-up", 1, &words("CLIENT TRACKING ON NOLOOP"));
        pair
    }

    /// Tells both the same and compares: replies, and what is pushed to anybody.
    pub fn same(&mut self, place: &str, link: usize, args: &Args) {
        let shown: Vec<String> = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        self.log.push(format!("{link}: {}", shown.join(" ")));
        let replies = self.sim.execute(self.ids[link], args);
        let mut sim: Vec<Vec<Frame>> = vec![Vec::new(); LINKS];
        let mut pushed: Vec<Vec<Frame>> = vec![Vec::new(); LINKS];
        for frame in replies {
            sim[link].push(self.as_received(link, &frame));
        }
        for (id, frame) in self.sim.take_pushes() {
            let to = self.ids.iter().position(|known| *known == id).expect("a known connection");
            pushed[to].push(self.as_received(to, &frame));
        }
        drop((self.sim.take_effects(), self.sim.take_wishes()));
        self.real[link].send(args);
        let mut real = Vec::new();
        let mut real_pushed: Vec<Vec<Frame>> = vec![Vec::new(); LINKS];
        while real.len() < sim[link].len() {
            match self.real[link].receive() {
                frame if is_news(&frame) => real_pushed[link].push(frame),
                frame => real.push(frame),
            }
        }
        let tail = self.log.iter().rev().take(30).rev().cloned().collect::<Vec<_>>().join("\n");
        for (simulated, real) in sim[link].iter().zip(&real) {
            let (simulated, real) = (normal(args, simulated), normal(args, real));
            assert_eq!(simulated, real, "{place}; left is simulated, right is real, after\n{tail}");
        }
        self.compare_pushes(place, &tail, pushed, real_pushed);
    }

    /// A question that changes nothing flushes what was pushed before it.
    fn compare_pushes(
        &mut self,
        place: &str,
        tail: &str,
        mut sim: Vec<Vec<Frame>>,
        mut real: Vec<Vec<Frame>>,
    ) {
        for link in [1, TRACKING] {
            self.real[link].send(&words("ECHO flushed"));
            loop {
                match self.real[link].receive() {
                    // In a transaction the question itself is queued.
                    Frame::Bulk(text) if text == b"flushed" => break,
                    Frame::Simple(text) if text == "QUEUED" => break,
                    frame => real[link].push(frame),
                }
            }
            let queued = self.sim.execute(self.ids[link], &words("ECHO flushed"));
            drop(queued);
            let (simulated, real) =
                (news(std::mem::take(&mut sim[link])), news(std::mem::take(&mut real[link])));
            if simulated != real && std::env::var_os("KEEP_GOING").is_some() {
                println!("MISMATCH {} | {:?} | {:?}", self.log.last().unwrap(), simulated, real);
                continue;
            }
            assert_eq!(simulated, real, "{place}; pushed to connection {link} after\n{tail}");
        }
    }

    fn as_received(&self, link: usize, frame: &Frame) -> Frame {
        let mut bytes = Vec::new();
        frame.write(self.sim.protocol(self.ids[link]), &mut bytes);
        match reply(&bytes) {
            Parsed::Whole(frame, used) if used == bytes.len() => frame,
            other => panic!("a simulated reply can't be read: {other:?}"),
        }
    }

    /// All keys hold the same on both.
    pub fn same_records(&mut self, place: &str) {
        for args in ["UNSUBSCRIBE", "RESET"] {
            self.real[3].ask(&words(args));
            self.sim.execute(self.ids[3], &words(args));
        }
        let keys: Vec<Vec<u8>> = self.sim.databases[0].keys().cloned().collect();
        self.same(place, 3, &words("DBSIZE"));
        for key in keys {
            let read: &[&str] = match self.sim.databases[0].get(&key).map(|value| value.kind()) {
                Some("string") => &["GET"],
                Some("hash") => &["HGETALL"],
                Some("list") => &["LRANGE", "0", "-1"],
                Some("set") => &["SMEMBERS"],
                _ => &["ZRANGE", "0", "-1", "WITHSCORES"],
            };
            let mut args: Args = read.iter().map(|word| word.as_bytes().to_vec()).collect();
            args.insert(1, key);
            self.same(place, 3, &args);
        }
    }
}

/// A push that is no reply to a command.
fn is_news(frame: &Frame) -> bool {
    let Frame::Push(parts) = frame else { return false };
    let Some(Frame::Bulk(kind)) = parts.first() else { return false };
    kind == b"invalidate" || kind == b"message"
}

/// Keys named by pushes, and how often; the order among them is the server's affair.
fn news(pushes: Vec<Frame>) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for push in pushes {
        let Frame::Push(parts) = &push else { panic!("not a push: {push:?}") };
        match (parts.first(), parts.get(1)) {
            (Some(Frame::Bulk(kind)), Some(Frame::Array(keys))) if kind == b"invalidate" => {
                keys.iter().for_each(|key| *all.entry(format!("{key:?}")).or_insert(0) += 1);
            }
            _ => *all.entry(format!("{push:?}")).or_insert(0) += 1,
        }
    }
    all
}

fn sorted(list: &[Frame], step: usize) -> Frame {
    let mut texts: Vec<String> = list.chunks(step).map(|part| format!("{part:?}")).collect();
    texts.sort();
    Frame::Array(texts.into_iter().map(Frame::Simple).collect())
}

fn first_word(text: &str) -> String {
    text.split(' ').next().unwrap_or_default().into()
}

/// What two servers must agree on: not the order of what has none, and of a script's error only its code.
fn normal(args: &Args, frame: &Frame) -> Frame {
    let name = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
    let scripted = ["eval", "evalsha", "script", "exec"].contains(&name.as_str());
    match (name.as_str(), frame) {
        ("hrandfield", Frame::Array(list)) => Frame::count(list.len()),
        ("hrandfield", Frame::Bulk(_)) => Frame::bulk("one"),
        ("smembers" | "hkeys" | "hvals" | "keys", Frame::Array(list) | Frame::Set(list)) => sorted(list, 1),
        ("hgetall", Frame::Array(list)) => sorted(list, 2),
        ("hgetall", Frame::Map(pairs)) => {
            let pairs: Vec<Frame> =
                pairs.iter().map(|(a, b)| Frame::Array(vec![a.clone(), b.clone()])).collect();
            sorted(&pairs, 1)
        }
        ("hscan" | "zscan", Frame::Array(parts)) => match &parts[..] {
            [cursor, Frame::Array(list)] => Frame::Array(vec![cursor.clone(), sorted(list, 2)]),
            _ => frame.clone(),
        },
        ("sscan" | "scan", Frame::Array(parts)) => match &parts[..] {
            [cursor, Frame::Array(list)] => Frame::Array(vec![cursor.clone(), sorted(list, 1)]),
            _ => frame.clone(),
        },
        // Bytes that are no text are shown as each likes.
        (_, Frame::Error(text)) if text.starts_with("ERR unknown command") => {
            Frame::Error(text.split(", with args").next().unwrap_or_default().into())
        }
        (_, Frame::Error(text)) if scripted => Frame::Error(first_word(text)),
        ("exec", Frame::Array(list)) => Frame::Array(list.iter().map(loose).collect()),
        _ => frame.clone(),
    }
}

/// A reply inside EXEC, of which the command is not at hand: lists are taken as sets.
fn loose(frame: &Frame) -> Frame {
    match frame {
        Frame::Error(text) => Frame::Error(first_word(text)),
        Frame::Array(list) | Frame::Set(list) => sorted(&list.iter().map(loose).collect::<Vec<_>>(), 1),
        Frame::Map(pairs) => {
            let pairs: Vec<Frame> =
                pairs.iter().map(|(a, b)| Frame::Array(vec![loose(a), loose(b)])).collect();
            sorted(&pairs, 1)
        }
        other => other.clone(),
    }
}
