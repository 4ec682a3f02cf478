//! The Redis engine on a real server: by script and by transaction, and what it does when the server is silent,
//! forgets its scripts, or goes away.

use super::agree;
use super::outside::{Sockets, world};
use super::server::Server;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use zest_engines::RedisEngine;
use zest_engines::redis::{ConnectOptions, RedisUrl};
use zest_metadata::{ChangeSet, Changed, Counter, Engine, Key, Listener, Record, Write};
use zest_types::{Attr, FileType, Ino, Name, Time};

async fn connect(server: &Server, options: ConnectOptions) -> RedisEngine {
    let url = RedisUrl::parse(&format!("redis://127.0.0.1:{}/1", server.port)).unwrap();
    RedisEngine::connect(&url, Arc::new(Sockets), &world(), options).await.unwrap()
}

async fn raw(server: &Server, words: &[&str]) -> redis::Value {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let info = redis::RedisConnectionInfo::default().set_db(1);
    let config = redis::AsyncConnectionConfig::new();
    let made = redis::aio::MultiplexedConnection::new_with_config(&info, stream, config).await.unwrap();
    let (mut connection, driver) = made;
    tokio::spawn(driver);
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(*word);
    });
    connection.send_packed_command(&command).await.unwrap()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

#[test]
fn by_script_it_means_what_apply_says() {
    let Some(server) = Server::start() else { return };
    run(async {
        let engine = connect(&server, ConnectOptions::default()).await;
        let mut not_read = 0;
        for seed in 0..8 {
            raw(&server, &["FLUSHDB"]).await;
            not_read += agree(&engine, seed, 400).await;
        }
        assert!(not_read > 100, "lists that are known are read back: {not_read}");
    });
}

#[test]
fn by_transaction_it_means_what_apply_says() {
    let Some(server) = Server::start() else { return };
    run(async {
        let engine = connect(&server, ConnectOptions { scripts: false, push: false }).await;
        for seed in 100..104 {
            raw(&server, &["FLUSHDB"]).await;
            agree(&engine, seed, 200).await;
        }
    });
}

fn count(n: i64) -> ChangeSet {
    let write = vec![Write::Add(Key::Counter(Counter::NextTrash), n)];
    ChangeSet { expect: Vec::new(), write }
}

#[test]
fn forgotten_scripts_are_sent_again() {
    let Some(server) = Server::start() else { return };
    run(async {
        let engine = connect(&server, ConnectOptions::default()).await;
        for n in 1..4 {
            raw(&server, &["SCRIPT", "FLUSH"]).await;
            let applied = engine.commit(&count(1)).await.unwrap();
            assert_eq!(applied.records, [(Key::Counter(Counter::NextTrash), Some(Record::Count(n)))]);
        }
    });
}

#[test]
fn a_killed_connection_is_made_again() {
    let Some(server) = Server::start() else { return };
    run(async {
        let engine = connect(&server, ConnectOptions::default()).await;
        engine.commit(&count(1)).await.unwrap();
        raw(&server, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        let read = engine.read(&[Key::Counter(Counter::NextTrash)]).await.unwrap();
        assert_eq!(read, [Some(Record::Count(1))]);
    });
}

#[test]
fn a_silent_server_is_noticed_named_and_waited_for() {
    let Some(server) = Server::start() else { return };
    run(async {
        let engine = connect(&server, ConnectOptions::default()).await;
        engine.commit(&count(1)).await.unwrap();
        server.signal("STOP");
        let change = count(1);
        let waiting = engine.commit(&change);
        futures::pin_mut!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(500), &mut waiting).await;
        assert!(early.is_err(), "a stopped server answered");
        assert!(engine.stalls().since.is_some(), "the stall was not noticed within 500 ms");
        server.signal("CONT");
        let applied = waiting.await.unwrap();
        assert_eq!(applied.records, [(Key::Counter(Counter::NextTrash), Some(Record::Count(2)))]);
        let begun = tokio::time::Instant::now();
        while engine.stalls().recent.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "the stall is not recorded");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let stall = &engine.stalls().recent[0];
        assert!(stall.lasted >= Duration::from_millis(200) && !stall.cause.is_empty(), "{stall:?}");
    });
}

#[derive(Default)]
struct Heard(Mutex<Vec<Changed>>);

impl Listener for Heard {
    fn changed(&self, what: &Changed) {
        self.0.lock().push(what.clone());
    }

    fn vouch(&self, _: Duration) {}
}

#[test]
fn what_others_change_is_heard_as_often_as_it_was_read_and_own_changes_are_not() {
    let Some(server) = Server::start() else { return };
    run(async {
        let one = connect(&server, ConnectOptions::default()).await;
        let two = connect(&server, ConnectOptions::default()).await;
        let heard = Arc::new(Heard::default());
        assert!(one.listen(heard.clone()), "the server does not push");
        let take = || std::mem::take(&mut *heard.0.lock());
        let entry = |name: &[u8]| {
            let record = Record::Dentry { kind: FileType::File, ino: Ino(9) };
            let write = vec![Write::Put(Key::Dentry(Ino(1), Name::new(name).unwrap()), record)];
            ChangeSet { expect: Vec::new(), write }
        };
        one.read(&[Key::Dentry(Ino(1), Name::new(b"other").unwrap())]).await.unwrap();
        for _ in 0..3 {
            one.commit(&entry(b"own")).await.unwrap();
        }
        one.read(&[Key::Setting]).await.unwrap();
        assert_eq!(take(), [], "an own change was heard");
        for _ in 0..3 {
            two.commit(&entry(b"other")).await.unwrap();
            // The push precedes the answer to whatever is asked afterwards.
            one.read(&[Key::Setting]).await.unwrap();
            assert_eq!(take(), [Changed::Entries(Ino(1))]);
            // An own change reads what it wrote: the next change of others is heard again.
            one.commit(&entry(b"own")).await.unwrap();
        }
        raw(&server, &["FLUSHDB"]).await;
        one.read(&[Key::Setting]).await.unwrap();
        assert_eq!(take(), [Changed::Anything]);
    });
}

#[test]
fn the_first_entry_of_others_in_an_own_new_directory_is_heard() {
    let Some(server) = Server::start() else { return };
    run(async {
        let one = connect(&server, ConnectOptions::default()).await;
        let two = connect(&server, ConnectOptions::default()).await;
        let heard = Arc::new(Heard::default());
        assert!(one.listen(heard.clone()), "the server does not push");
        let attr = Attr::new(FileType::Directory, 0o755, 0, 0, Ino::ROOT, Time::new(1, 0));
        let make = vec![Write::Put(Key::Attr(Ino(77)), Record::Attr(attr))];
        one.commit(&ChangeSet { expect: Vec::new(), write: make }).await.unwrap();
        let record = Record::Dentry { kind: FileType::File, ino: Ino(9) };
        let enter = vec![Write::Put(Key::Dentry(Ino(77), Name::new(b"x").unwrap()), record)];
        two.commit(&ChangeSet { expect: Vec::new(), write: enter }).await.unwrap();
        one.read(&[Key::Setting]).await.unwrap();
        assert_eq!(*heard.0.lock(), [Changed::Entries(Ino(77))]);
    });
}

#[test]
fn a_server_that_refuses_to_tell_is_not_believed_to_tell() {
    let Some(server) = Server::start() else { return };
    run(async {
        let rules = ["ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-client|tracking"];
        raw(&server, &rules).await;
        let url = format!("redis://limited:secret@127.0.0.1:{}/1", server.port);
        let url = RedisUrl::parse(&url).unwrap();
        let options = ConnectOptions::default();
        let engine = RedisEngine::connect(&url, Arc::new(Sockets), &world(), options).await.unwrap();
        assert!(!engine.pushes() && !engine.listen(Arc::new(Heard::default())));
        engine.commit(&count(1)).await.unwrap();
        let free = connect(&server, options).await;
        assert!(free.pushes());
    });
}
