//! Which entries stay when room is short: a pure data structure after the S3-FIFO idea. New entries pass a small
//! queue; those asked for again move to the main queue, the others leave and are remembered for a while by name
//! only; a name that comes back goes to the main queue at once. So one pass over many blocks does not wash out
//! what is used again and again. Nothing moves on a hit, which makes hits cheap.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Share of the capacity the small queue has: one in this many bytes.
const SMALL_SHARE: u64 = 10;
/// Hits beyond this count no more.
const FREQ_MAX: u8 = 3;

/// Hashes numbers by multiplication: keys come from this program, order is never looked at.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(29) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// See [`Mix`].
pub type MixState = BuildHasherDefault<Mix>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Small,
    Main,
}

struct Entry<V> {
    value: V,
    weight: u64,
    hits: u8,
    place: Place,
    /// Which of the queue items of this key is the living one.
    stamp: u64,
}

/// Entries with weights, at most `capacity` together.
pub struct Policy<K, V> {
    capacity: u64,
    weight: u64,
    small_weight: u64,
    next_stamp: u64,
    entries: HashMap<K, Entry<V>, MixState>,
    small: VecDeque<(K, u64)>,
    main: VecDeque<(K, u64)>,
    /// Names that left the small queue, with the stamp they had.
    ghosts: HashMap<K, u64, MixState>,
    ghost_order: VecDeque<(K, u64)>,
}

impl<K: Copy + Eq + Hash, V> Policy<K, V> {
    /// No entries yet.
    #[must_use]
    pub fn new(capacity: u64) -> Policy<K, V> {
        Policy {
            capacity,
            weight: 0,
            small_weight: 0,
            next_stamp: 0,
            entries: HashMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: HashMap::default(),
            ghost_order: VecDeque::new(),
        }
    }

    /// The value of this key; counts as a hit.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        entry.hits = (entry.hits + 1).min(FREQ_MAX);
        Some(&entry.value)
    }

    /// Whether this key is here; no hit.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Adds or replaces an entry. Answers the values that had to go: the caller drops them where it likes; among
    /// them is `value` itself when it is heavier than the capacity.
    pub fn insert(&mut self, key: K, value: V, weight: u64) -> Vec<V> {
        self.insert_with(key, value, weight, 0)
    }

    /// The same for an entry that somebody is about to ask for: it does not leave as one that nobody wanted.
    pub fn insert_awaited(&mut self, key: K, value: V, weight: u64) -> Vec<V> {
        self.insert_with(key, value, weight, 1)
    }

    fn insert_with(&mut self, key: K, value: V, weight: u64, hits: u8) -> Vec<V> {
        let mut gone: Vec<V> = self.remove(&key).into_iter().collect();
        if weight > self.capacity {
            gone.push(value);
            return gone;
        }
        while self.weight + weight > self.capacity {
            match self.evict() {
                Some(value) => gone.push(value),
                None => break,
            }
        }
        let place = if self.ghosts.remove(&key).is_some() { Place::Main } else { Place::Small };
        self.next_stamp += 1;
        let stamp = self.next_stamp;
        self.entries.insert(key, Entry { value, weight, hits, place, stamp });
        self.weight += weight;
        match place {
            Place::Small => {
                self.small_weight += weight;
                self.small.push_back((key, stamp));
            }
            Place::Main => self.main.push_back((key, stamp)),
        }
        gone
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.weight -= entry.weight;
        if entry.place == Place::Small {
            self.small_weight -= entry.weight;
        }
        self.sweep();
        self.forget_names();
        Some(entry.value)
    }

    /// Weight of all entries.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn evict(&mut self) -> Option<V> {
        if self.small_weight * SMALL_SHARE > self.capacity || self.small_weight == self.weight {
            self.evict_small().or_else(|| self.evict_main())
        } else {
            self.evict_main().or_else(|| self.evict_small())
        }
    }

    /// The oldest of the small queue that nobody asked for again; the others move on.
    fn evict_small(&mut self) -> Option<V> {
        while let Some((key, stamp)) = self.small.pop_front() {
            let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.stamp == stamp) else {
                continue;
            };
            if entry.hits > 0 {
                (entry.hits, entry.place) = (0, Place::Main);
                self.small_weight -= entry.weight;
                self.main.push_back((key, stamp));
                continue;
            }
            self.remember(key, stamp);
            return self.remove(&key);
        }
        None
    }

    /// The oldest of the main queue without hits; the others go round with one hit less.
    fn evict_main(&mut self) -> Option<V> {
        while let Some((key, stamp)) = self.main.pop_front() {
            let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.stamp == stamp) else {
                continue;
            };
            if entry.hits > 0 {
                entry.hits -= 1;
                self.main.push_back((key, stamp));
                continue;
            }
            return self.remove(&key);
        }
        None
    }

    /// Keeps the name of an entry that leaves; as many names as there are entries.
    fn remember(&mut self, key: K, stamp: u64) {
        self.ghosts.insert(key, stamp);
        self.ghost_order.push_back((key, stamp));
        self.forget_names();
    }

    /// Lets the oldest names go that are more than there are entries.
    fn forget_names(&mut self) {
        while self.ghost_order.len() > self.entries.len().max(16) {
            let Some((old, stamp)) = self.ghost_order.pop_front() else { break };
            if self.ghosts.get(&old) == Some(&stamp) {
                self.ghosts.remove(&old);
            }
        }
    }

    /// Drops queue items of removed entries when there are more of them than of others.
    fn sweep(&mut self) {
        if self.small.len() + self.main.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            let lives = |(key, stamp): &(K, u64)| entries.get(key).is_some_and(|entry| entry.stamp == *stamp);
            self.small.retain(lives);
            self.main.retain(lives);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_scan_does_not_wash_out_what_is_used() {
        let mut policy = Policy::new(100);
        for key in 0..20u64 {
            policy.insert(key, key, 1);
        }
        for round in 0..50u64 {
            for key in 0..20 {
                assert!(policy.get(&key).is_some(), "round {round}");
            }
            for key in 0..100 {
                policy.insert(1000 + round * 100 + key, 0, 1);
            }
        }
    }

    #[test]
    fn what_is_awaited_outlives_many_that_pass() {
        let mut policy = Policy::new(100);
        for key in 0..100u64 {
            policy.insert(key, (), 1);
            policy.get(&key);
        }
        for key in 1000..1040u64 {
            policy.insert_awaited(key, (), 1);
        }
        assert!((1000..1040u64).all(|key| policy.contains(&key)), "four times the small queue");
    }

    #[test]
    fn a_name_that_comes_back_goes_to_the_main_queue() {
        let mut policy = Policy::new(10);
        for key in 0..11u64 {
            policy.insert(key, (), 1);
        }
        assert!(!policy.contains(&0));
        policy.insert(0, (), 1);
        for key in 100..108u64 {
            policy.insert(key, (), 1);
        }
        assert!(policy.contains(&0));
    }

    #[test]
    fn names_go_with_the_entries_they_are_counted_against() {
        let mut policy = Policy::new(40);
        for key in 0..100u64 {
            policy.insert(key, (), 1);
        }
        assert!(policy.len() == 40 && policy.ghost_order.len() > 20);
        for key in 80..100 {
            policy.remove(&key);
        }
        assert_eq!((policy.len(), policy.ghost_order.len()), (20, 20));
    }

    #[test]
    fn what_is_too_heavy_comes_back_at_once() {
        let mut policy = Policy::new(10);
        policy.insert(1u64, "a", 5);
        assert_eq!(policy.insert(1, "b", 11), ["a", "b"]);
        assert!(policy.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u64),
        Get(u64),
        Remove(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u64..60, 1u64..30).prop_map(|(key, weight)| Step::Insert(key, weight)),
            3 => (0u64..60).prop_map(Step::Get),
            1 => (0u64..60).prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn bounds_hold_and_values_are_right(steps in prop::collection::vec(step(), 1..400), capacity in 0u64..200) {
            let mut policy = Policy::new(capacity);
            let mut model: HashMap<u64, (u64, u64)> = HashMap::new();
            for (n, step) in steps.into_iter().enumerate() {
                let n = n as u64;
                match step {
                    Step::Insert(key, weight) => {
                        let gone = policy.insert(key, n, weight);
                        model.insert(key, (n, weight));
                        model.retain(|_, (value, _)| !gone.contains(value));
                        prop_assert_eq!(policy.contains(&key), weight <= capacity);
                    }
                    Step::Get(key) => {
                        prop_assert_eq!(policy.get(&key).copied(), model.get(&key).map(|(value, _)| *value));
                    }
                    Step::Remove(key) => {
                        prop_assert_eq!(policy.remove(&key), model.remove(&key).map(|(value, _)| value));
                        prop_assert!(!policy.contains(&key));
                    }
                }
                prop_assert!(policy.weight() <= capacity);
                prop_assert_eq!(policy.weight(), model.values().map(|(_, weight)| weight).sum::<u64>());
                prop_assert_eq!(policy.len(), model.len());
                let small = policy.entries.values().filter(|entry| entry.place == Place::Small);
                prop_assert_eq!(policy.small_weight, small.map(|entry| entry.weight).sum::<u64>());
                prop_assert!(policy.small.len() + policy.main.len() <= 2 * policy.len() + 18);
                prop_assert!(policy.ghosts.len() <= policy.ghost_order.len());
                prop_assert!(policy.ghost_order.len() <= policy.len().max(16) + 1);
            }
        }
    }
}
