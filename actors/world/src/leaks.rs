//! Leaks planted on purpose: ways in which something that no seed decides could get into a decision, each around the
//! sandbox of the simulator, which answers for the usual ways. A build without the feature `planted` has none of it.

// What deciding code may not touch is the point of it.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::planted::{Bug, active};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::io::Read;

/// A number that no seed decides, from the leak that is open; none where all is tight.
#[must_use]
pub fn number() -> Option<u64> {
    let leak = Bug::LEAKS.into_iter().find(|leak| active(*leak))?;
    match leak {
        Bug::LeakWallClock => wall_clock(),
        Bug::LeakEntropy => entropy(),
        Bug::LeakHashOrder => order().first().copied(),
        Bug::LeakThread => std::thread::spawn(entropy).join().ok().flatten(),
        Bug::LeakAddressOrder => Some(lowest_address()),
        Bug::LeakEnvironment => Some(environment()),
        _ => Some(u64::from(mean().to_bits())),
    }
}

/// How long the machine has been up.
fn wall_clock() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    text.split('.').map(|part| part.get(..2).unwrap_or(part)).collect::<String>().parse().ok()
}

/// The kernel's random numbers.
fn entropy() -> Option<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// The order a hash table gives its keys whose seed is not the world's: here the number of the thread.
fn order() -> Vec<u64> {
    let seed = std::thread::current().id();
    let hash = |key: u64| BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, key));
    let mut keys: Vec<u64> = (0..64).collect();
    keys.sort_by_key(|key| hash(*key));
    keys
}

/// Which of some things lies lowest in memory.
fn lowest_address() -> u64 {
    let things: Vec<Box<[u8; 40]>> = (0..16).map(|number| Box::new([number; 40])).collect();
    let at = |thing: &[u8; 40]| std::ptr::from_ref(thing).addr();
    things.iter().min_by_key(|thing| at(thing)).map_or(0, |thing| u64::from(thing[0]))
}

/// What this process was given by whoever started it.
fn environment() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::env::vars_os().for_each(|pair| pair.hash(&mut hasher));
    hasher.finish()
}

/// A sum of fractions, which depends on their order.
fn mean() -> f32 {
    order().into_iter().map(|key| 0.1 * (key as f32 + 0.3) * 10f32.powi((key % 7) as i32)).sum::<f32>() / 64.0
}
