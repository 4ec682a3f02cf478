//! The simulated server and a real one are told the same, in random order, over two protocols and four connections,
//! and every reply must be the same. Skipped aloud where no `redis-server` is installed.

#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod draw;
mod pair;
#[path = "../real/mod.rs"]
mod real;

use pair::Pair;
use real::{RealServer, words};
use zest_sim::devices::SimChance;

/// Random sequences, and commands in each.
const SEQUENCES: u64 = 40;
const COMMANDS: usize = 400;

fn scale() -> u64 {
    std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn random_commands_are_answered_as_a_real_server_answers_them() {
    let Some(server) = RealServer::start() else { return };
    for seed in 0..SEQUENCES * scale() {
        let chance = SimChance::new(seed, "conformance");
        let mut pair = Pair::new(&server);
        for _ in 0..COMMANDS {
            let link = chance.below(4) as usize;
            let args = draw::command(&chance);
            pair.same(&format!("seed {seed}"), link, &args);
        }
        pair.same_records(&format!("seed {seed}"));
    }
}

/// Transactions over two connections, with others' writes between WATCH and EXEC.
#[test]
fn races_are_lost_and_won_as_on_a_real_server() {
    let Some(server) = RealServer::start() else { return };
    for seed in 0..SEQUENCES * scale() {
        let chance = SimChance::new(seed, "races");
        let mut pair = Pair::new(&server);
        for _ in 0..60 {
            for args in draw::transaction(&chance) {
                let link = if args.first().is_some_and(|word| word == b"OTHER") { 1 } else { 0 };
                let args = if link == 1 { args[1..].to_vec() } else { args };
                pair.same(&format!("races, seed {seed}"), link, &args);
            }
        }
        pair.same_records(&format!("races, seed {seed}"));
    }
}

/// Each line is told to the connection before the colon: 0 and 3 speak the old protocol, 1 and 2 the new one, and
/// 2 tracks.
#[test]
fn conversations_go_as_with_a_real_server() {
    let Some(server) = RealServer::start() else { return };
    let text = include_str!("conversations.txt");
    for talk in text.split("\n\n").filter(|talk| !talk.trim().is_empty()) {
        let mut pair = Pair::new(&server);
        for line in talk.lines().filter(|line| !line.starts_with('#')) {
            let (link, command) = line.split_once(": ").unwrap();
            pair.same("conversations", link.parse().unwrap(), &words(command));
        }
        pair.same_records(talk);
    }
}
