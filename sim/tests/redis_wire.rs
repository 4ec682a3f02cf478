//! The production client library speaks with the simulated server over simulated TCP: plain commands, reconnects after
//! everything that can end a connection, stalls, and the same twice.

#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(clippy::disallowed_methods)]

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use zest_engines::redis::{ConnectOptions, RedisEngine, RedisUrl};
use zest_metadata::{ChangeSet, Counter, Engine, Key, Record, Write};
use zest_sim::devices::Tape;
use zest_sim::devices::{SimChance, SimClock};
use zest_sim::redis::dial::SimDial;
use zest_sim::redis::machine::store::End;
use zest_sim::redis::machine::{Machine, Mishap, Mishaps, Model, serve};
use zest_sim::universe::universe;
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, Dial, ObjectError, Objects, Offload, Target, World};

async fn connect() -> Result<MultiplexedConnection, RedisError> {
    let target = Target::Tcp { host: "redis".into(), port: 6379, tls: None };
    let stream = SimDial::default().dial(&target).await?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let info = RedisConnectionInfo::default().set_skip_set_lib_name();
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    tokio::task::spawn_local(driver);
    Ok(connection)
}

async fn patiently() -> MultiplexedConnection {
    for _ in 0..1000 {
        if let Ok(connection) = connect().await {
            return connection;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server does not come back");
}

type Host = Rc<RefCell<Option<Rc<Machine>>>>;

/// A world with one server and one client; what the client returns, and the digest of the server's tape.
fn world<F, W>(
    seed: u64,
    model: Model,
    rates: &[(Mishap, u32)],
    client: F,
) -> (String, u64, BTreeMap<Mishap, u64>)
where
    F: FnOnce(Host) -> W + Send + 'static,
    W: Future<Output = String> + 'static,
{
    let rates: BTreeMap<Mishap, u32> = rates.iter().copied().collect();
    universe(seed, move || {
        let mut builder = turmoil::Builder::new();
        builder
            .rng_seed(seed)
            .tick_duration(Duration::from_millis(1))
            .simulation_duration(Duration::from_secs(3600));
        let mut sim = builder.build();
        let host: Host = Rc::default();
        let (mishaps, tape) = (Rc::new(Mishaps::new(rates, seed)), Arc::new(Tape::new(false)));
        let (seat, troubles, listening) = (host.clone(), mishaps.clone(), tape.clone());
        sim.host("redis", move || {
            let (seat, model, troubles, tape) =
                (seat.clone(), model.clone(), troubles.clone(), listening.clone());
            async move {
                tape.starts(Duration::ZERO);
                let machine = Machine::new(model, troubles, tape);
                *seat.borrow_mut() = Some(machine.clone());
                serve(machine).await?;
                Ok(())
            }
        });
        let said = Rc::new(RefCell::new(String::new()));
        let hear = said.clone();
        sim.client("client", async move {
            let text = client(host).await;
            *hear.borrow_mut() = text;
            Ok(())
        });
        while !sim.step().unwrap() {
            madsim::time::advance(Duration::from_millis(1));
        }
        (said.take(), tape.digest(), mishaps.fired())
    })
    .unwrap()
}

async fn get(connection: &mut MultiplexedConnection, key: &str) -> Option<i64> {
    redis::cmd("GET").arg(key).query_async(connection).await.unwrap()
}

#[test]
fn the_client_library_is_at_home() {
    let (said, ..) = world(1, Model::default(), &[], |_| async {
        let mut one = patiently().await;
        let mut other = patiently().await;
        redis::cmd("SET").arg("a").arg(41).exec_async(&mut one).await.unwrap();
        let script = redis::Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        let sum: i64 = script.key("a").arg(1).invoke_async(&mut other).await.unwrap();
        let mut pipe = redis::pipe();
        pipe.atomic().hset("h", "f", "v").ignore().hgetall("h");
        let (map,): (BTreeMap<String, String>,) = pipe.query_async(&mut one).await.unwrap();
        redis::cmd("WATCH").arg("a").exec_async(&mut one).await.unwrap();
        redis::cmd("SET").arg("a").arg(7).exec_async(&mut other).await.unwrap();
        let lost: Option<(i64,)> = redis::pipe().atomic().incr("a", 1).query_async(&mut one).await.unwrap();
        let wrong = redis::cmd("LPUSH").arg("a").arg("x").exec_async(&mut one).await.unwrap_err();
        format!("{sum} {map:?} {lost:?} {:?} {wrong}", get(&mut one, "a").await)
    });
    assert!(said.starts_with("42 {\"f\": \"v\"} None Some(7)"), "{said}");
    assert!(said.contains("WRONGTYPE"), "{said}");
}

/// Counts up to `goal`, again and again after errors; says how often it had to connect.
async fn count_to(goal: i64) -> String {
    let (mut connects, mut connection) = (1, patiently().await);
    let (mut value, mut errors) = (0, 0);
    while value < goal {
        match redis::cmd("INCR").arg("n").query_async::<i64>(&mut connection).await {
            Ok(now) => {
                assert!(now > value, "{now} after {value}");
                value = now;
            }
            Err(error) => {
                errors += 1;
                if error.is_io_error() || error.is_connection_dropped() {
                    connection = patiently().await;
                    connects += 1;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    format!("{connects} connections, {errors} errors")
}

#[test]
fn every_mishap_strikes_and_nothing_answered_is_lost_where_the_log_is_kept() {
    let mut all = BTreeMap::new();
    for seed in 0..5 {
        let rates = [
            (Mishap::ForkStall, 200),
            (Mishap::FailedSave, 500),
            (Mishap::Restart, 60),
            (Mishap::Frozen, 60),
            (Mishap::ReadOnly, 60),
            (Mishap::OutOfMemory, 60),
            (Mishap::SyncPause, 200),
            (Mishap::KilledConnection, 4),
            (Mishap::LostCommand, 4),
            (Mishap::LostReply, 4),
            (Mishap::SlowCommand, 10),
        ];
        let config =
            [("appendonly", "yes"), ("save", "3600 1")].map(|(name, value)| (name.into(), value.into()));
        let model = || Model { gib: 10, config: config.to_vec(), ..Model::default() };
        let run = || world(seed, model(), &rates, |_| count_to(1_500));
        let (said, digest, fired) = run();
        assert_eq!((said, digest, fired.clone()), run(), "seed {seed} is not the same twice");
        fired.into_iter().for_each(|(mishap, times)| *all.entry(mishap).or_insert(0) += times);
    }
    println!("{all:?}");
    let counted = Mishap::ALL.into_iter().filter(|mishap| {
        ![Mishap::PowerCut, Mishap::Evicted, Mishap::FailOver, Mishap::LostTail].contains(mishap)
    });
    for mishap in counted {
        assert!(all.contains_key(&mishap), "{} never happened", mishap.name());
    }
}

#[test]
fn a_fork_stalls_the_longer_the_more_memory_there_is() {
    let wait = |gib| {
        let model = Model { gib, ..Model::default() };
        let (said, _, fired) = world(3, model, &[], |_| async {
            let mut one = patiently().await;
            let mut other = patiently().await;
            redis::cmd("SET").arg("a").arg(1).exec_async(&mut one).await.unwrap();
            redis::cmd("BGSAVE").exec_async(&mut other).await.unwrap();
            let begun = tokio::time::Instant::now();
            get(&mut one, "a").await;
            let waited = begun.elapsed().as_millis();
            let info: String = redis::cmd("INFO").arg("everything").query_async(&mut one).await.unwrap();
            assert!(info.contains("rdb_bgsave_in_progress:1"), "{info}");
            waited.to_string()
        });
        assert_eq!(fired.contains_key(&Mishap::ForkStall), gib >= 4);
        said.parse::<u64>().unwrap()
    };
    let (small, large) = (wait(1), wait(40));
    assert!(small < 40 && large > 500, "{small} ms with 1 GiB, {large} ms with 40");
}

#[test]
fn what_a_power_cut_leaves_follows_the_settings() {
    let left = |fsync: &str| {
        let config = [("appendonly", "yes"), ("appendfsync", fsync), ("save", "")];
        let config = config.map(|(name, value)| (name.into(), value.into())).to_vec();
        let (said, ..) = world(5, Model { config, ..Model::default() }, &[], |host| async move {
            let mut connection = patiently().await;
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            redis::cmd("SET").arg("early").arg(1).exec_async(&mut connection).await.unwrap();
            let waited: Vec<i64> =
                redis::cmd("WAITAOF").arg(1).arg(0).arg(5_000).query_async(&mut connection).await.unwrap();
            redis::cmd("SET").arg("late").arg(1).exec_async(&mut connection).await.unwrap();
            let machine = host.borrow().clone().unwrap();
            machine.kill(End::Power(0), Duration::from_millis(300));
            let mut again = patiently().await;
            let mut found = loop {
                match redis::cmd("MGET")
                    .arg("early")
                    .arg("late")
                    .query_async::<Vec<Option<i64>>>(&mut again)
                    .await
                {
                    Ok(found) => break found,
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        again = patiently().await;
                    }
                }
            };
            format!("{waited:?} {:?} {:?}", found.remove(0), found.remove(0))
        });
        said
    };
    assert_eq!(left("always"), "[1, 0] Some(1) Some(1)");
    assert_eq!(left("everysec"), "[1, 0] Some(1) None");
}

#[test]
fn a_replica_that_is_behind_loses_the_tail_and_one_that_is_not_does_not() {
    let run = |lag| {
        let model = Model { replica_lag: Some(Duration::from_millis(lag)), ..Model::default() };
        world(6, model, &[], |host| async move {
            let mut connection = patiently().await;
            redis::cmd("SET").arg("a").arg(1).exec_async(&mut connection).await.unwrap();
            tokio::time::sleep(Duration::from_secs(2)).await;
            redis::cmd("SET").arg("b").arg(1).exec_async(&mut connection).await.unwrap();
            host.borrow().clone().unwrap().fail_over();
            let broken = redis::cmd("PING").exec_async(&mut connection).await.is_err();
            let mut again = patiently().await;
            format!("{broken} {:?} {:?}", get(&mut again, "a").await, get(&mut again, "b").await)
        })
    };
    let (said, _, fired) = run(500);
    assert_eq!(said, "true Some(1) None");
    assert_eq!(fired.get(&Mishap::LostTail), Some(&1));
    let (said, _, fired) = run(0);
    assert_eq!(said, "true Some(1) Some(1)");
    assert!(!fired.contains_key(&Mishap::LostTail));
}

#[test]
fn memory_runs_out_as_the_policy_says() {
    let run = |policy: &str| {
        let policy = policy.to_owned();
        world(7, Model { gib: 0, ..Model::default() }, &[], |_| async move {
            let mut connection = patiently().await;
            for (name, value) in [("maxmemory-policy", policy.as_str()), ("maxmemory", "1100kb")] {
                redis::cmd("CONFIG")
                    .arg("SET")
                    .arg(name)
                    .arg(value)
                    .exec_async(&mut connection)
                    .await
                    .unwrap();
            }
            let mut refused = 0;
            for n in 0..200 {
                let text = "x".repeat(1000);
                if let Err(error) =
                    redis::cmd("SET").arg(format!("k{n}")).arg(text).exec_async(&mut connection).await
                {
                    assert!(error.to_string().contains("OOM"), "{error}");
                    refused += 1;
                }
            }
            let size: i64 = redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap();
            format!("{} {}", refused > 0, size < 100)
        })
    };
    let (said, _, fired) = run("noeviction");
    assert_eq!(said, "true true");
    assert!(fired.contains_key(&Mishap::OutOfMemory) && !fired.contains_key(&Mishap::Evicted));
    let (said, _, fired) = run("allkeys-lru");
    assert_eq!(said, "false true");
    assert!(fired.contains_key(&Mishap::Evicted));
}

/// An engine needs neither objects nor offloading.
struct Nothing;

impl Objects for Nothing {
    fn put(&self, key: &str, _: bytes::Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        let error = ObjectError::NotFound(key.into());
        Box::pin(async { Err(error) })
    }
    fn get(
        &self,
        key: &str,
        _: Option<std::ops::Range<u64>>,
    ) -> BoxFuture<'static, Result<bytes::Bytes, ObjectError>> {
        let error = ObjectError::NotFound(key.into());
        Box::pin(async { Err(error) })
    }
    fn delete(&self, _: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        Box::pin(async { Ok(()) })
    }
    fn list(&self, _: &str, _: &str, _: usize) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl Offload for Nothing {
    fn run(&self, _: &'static str, job: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        job();
        Box::pin(async {})
    }
}

fn bare_world() -> World {
    World {
        clock: Arc::new(SimClock::new(Duration::ZERO)),
        chance: Arc::new(SimChance::new(7, "engine")),
        offload: Arc::new(Nothing),
        objects: Arc::new(Nothing),
        trace: Arc::new(zest_world::trace::Silent),
    }
}

/// The product's engine, connected.
async fn engine() -> RedisEngine {
    let world = bare_world();
    let url = RedisUrl::parse("redis://redis:6379/0").unwrap();
    let dial = Arc::new(SimDial::default());
    for _ in 0..1000 {
        if let Ok(engine) = RedisEngine::connect(&url, dial.clone(), &world, ConnectOptions::default()).await
        {
            return engine;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the engine does not connect");
}

/// Takes numbers; the first that is still free.
async fn take(engine: &RedisEngine, counter: Counter, batch: i64) -> i64 {
    let key = Key::Counter(counter);
    let changes = ChangeSet { expect: Vec::new(), write: vec![Write::Add(key, batch)] };
    match &engine.commit(&changes).await.unwrap().records[..] {
        [(_, Some(Record::Count(free)))] => *free,
        other => panic!("{other:?}"),
    }
}

#[test]
fn numbers_given_out_before_a_lost_tail_are_given_to_nobody_else() {
    let model = Model { replica_lag: Some(Duration::from_secs(5)), ..Model::default() };
    let (said, _, fired) = world(11, model, &[], |host| async move {
        let engine = engine().await;
        for counter in [Counter::NextSlice, Counter::NextInode, Counter::NextSession] {
            take(&engine, counter, 100).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        // What the replica is not told any more.
        let slices = take(&engine, Counter::NextSlice, 4096).await;
        let inodes = take(&engine, Counter::NextInode, 1024).await;
        let sessions = take(&engine, Counter::NextSession, 1).await;
        let machine = host.borrow().clone().unwrap();
        machine.fail_over();
        engine.read(&[Key::Setting]).await.unwrap();
        // Another program, which knows nothing of all that.
        let mut other = patiently().await;
        let mut verdicts = Vec::new();
        for (counter, ours) in [("nextchunk", slices), ("nextinode", inodes), ("nextsession", sessions)] {
            let theirs: i64 = redis::cmd("INCR").arg(counter).query_async(&mut other).await.unwrap();
            verdicts.push(theirs >= ours);
        }
        // What comes next is above all that, too, and a connection to the same process raises nothing.
        let next = take(&engine, Counter::NextSlice, 1).await;
        machine.cut_off();
        engine.read(&[Key::Setting]).await.unwrap();
        let after = take(&engine, Counter::NextSlice, 1).await;
        format!("{verdicts:?} {} {}", next > slices, after - next)
    });
    assert_eq!(said, "[true, true, true] true 1");
    assert!(fired.contains_key(&Mishap::LostTail));
}

#[test]
fn an_answer_lost_while_connecting_is_asked_for_again_and_says_nothing_of_the_server() {
    let rates = [(Mishap::LostReply, 20), (Mishap::KilledConnection, 20)];
    let (said, _, fired) = world(12, Model::default(), &rates, |_| async {
        // The server has to be there first.
        drop(patiently().await);
        let world = bare_world();
        let url = RedisUrl::parse("redis://redis:6379/0").unwrap();
        let dial = Arc::new(SimDial::default());
        let (mut right, mut wrong) = (0, Vec::new());
        for _ in 0..60 {
            match RedisEngine::connect(&url, dial.clone(), &world, ConnectOptions::default()).await {
                Ok(engine) if engine.pushes() => right += 1,
                Ok(_) => wrong.push("believed to tell nothing".to_owned()),
                Err(error) => wrong.push(error.to_string()),
            }
        }
        format!("{right} {wrong:?}")
    });
    assert_eq!(said, "60 []");
    assert!(fired.values().sum::<u64>() >= 5, "{fired:?}");
}
