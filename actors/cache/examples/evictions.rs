//! Compares ways to evict on patterns of access: hits in a hundred, for a cache of a part of the files. Every figure is
//! the same on every machine. `cargo run --release -p zest-cache --example evictions`

use std::collections::HashMap;
use zest_cache::evict::{Kind, Usage};

const FILES: u64 = 20_000;
const READS: u64 = 600_000;

/// Numbers that look drawn by lot.
struct Lot(u64);

impl Lot {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) % end.max(1)
    }

    fn part(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1u64 << 53) as f64
    }

    /// Few files often, many seldom.
    fn skewed(&mut self, count: u64) -> u64 {
        ((count as f64).powf(self.part()) as u64).min(count - 1)
    }
}

#[derive(Default)]
struct Book(HashMap<u64, (u64, u8)>);

impl Usage for Book {
    fn used(&self, key: u64) -> u64 {
        self.0.get(&key).map_or(0, |(used, _)| *used)
    }
    fn take_hits(&mut self, key: u64) -> u8 {
        self.0.get_mut(&key).map_or(0, |(_, hits)| std::mem::take(hits))
    }
}

/// Hits in a hundred.
fn run(kind: Kind, room: u64, pattern: &[u64]) -> f64 {
    let (mut policy, mut book, mut lot, mut hits) = (kind.begin(), Book::default(), Lot(3), 0u64);
    for (now, file) in (1u64..).zip(pattern) {
        if let Some((used, count)) = book.0.get_mut(file) {
            (*used, *count) = (now, 1);
            hits += 1;
            continue;
        }
        if book.0.len() as u64 >= room {
            let Some(gone) = policy.victim(&mut book, &mut |end| lot.below(end)) else { continue };
            book.0.remove(&gone);
        }
        policy.insert(*file, now);
        book.0.insert(*file, (now, 0));
    }
    hits as f64 * 100.0 / pattern.len() as f64
}

fn patterns() -> Vec<(&'static str, Vec<u64>)> {
    let mut lot = Lot(1);
    let skewed: Vec<u64> = (0..READS).map(|_| lot.skewed(FILES)).collect();
    let backup = (0..READS).map(|n| if n % 4 == 0 { FILES + n } else { lot.skewed(FILES) }).collect();
    let round = (0..READS).map(|n| n % FILES).collect();
    let shift = (0..READS).map(|n| (n / 60_000 * 2_000 + lot.skewed(FILES)) % FILES).collect();
    let mut epochs = Vec::new();
    let mut order: Vec<u64> = (0..FILES).collect();
    while epochs.len() < READS as usize {
        for at in (1..order.len()).rev() {
            order.swap(at, lot.below(at as u64 + 1) as usize);
        }
        epochs.extend_from_slice(&order);
    }
    vec![
        ("few files often, many seldom", skewed),
        ("the same, with a backup reading everything once beside it", backup),
        ("the same, and what is wanted changes", shift),
        ("training: all files in each epoch, shuffled", epochs),
        ("one round after the other, in order", round),
    ]
}

fn main() {
    println!("| Pattern | Room | {} |", Kind::ALL.map(|(name, _)| name).join(" | "));
    println!("|---|---|{}", "---|".repeat(Kind::ALL.len()));
    for (name, pattern) in patterns() {
        for part in [5, 25, 75] {
            let room = FILES * part / 100;
            let hits = Kind::ALL.map(|(_, kind)| format!("{:.1}", run(kind, room, &pattern)));
            println!("| {name} | {part} % | {} |", hits.join(" | "));
        }
    }
}
