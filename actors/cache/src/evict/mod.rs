//! Which cache file goes when room is short: pure data structures that know keys and their order. How often and when
//! a file was used they ask for, so that a use costs its reader two stores and no lock.

mod lru;
mod random;
mod s3fifo;

pub use lru::Lru;
pub use random::TwoRandom;
pub use s3fifo::S3Fifo;

use std::str::FromStr;

/// How files were used.
pub trait Usage {
    /// When a file was used last, in any unit that grows.
    fn used(&self, key: u64) -> u64;
    /// How often it was used since this was asked last.
    fn take_hits(&mut self, key: u64) -> u8;
}

/// Decides what goes.
pub trait Eviction: Send {
    /// A new file, used now.
    fn insert(&mut self, key: u64, used: u64);
    /// A file that is gone.
    fn remove(&mut self, key: u64);
    /// The file that goes next, taken out; `draw` gives a number below its argument. `None` where nothing may go.
    fn victim(&mut self, usage: &mut dyn Usage, draw: &mut dyn FnMut(u64) -> u64) -> Option<u64>;
    /// Files it knows.
    fn len(&self) -> usize;
    /// Whether it knows none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A way to decide, by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing goes: what does not fit is not kept.
    None,
    /// Of two files drawn by lot the one that was used longer ago.
    TwoRandom,
    /// The file that was used longest ago.
    Lru,
    /// New files pass a short queue; those used again stay.
    #[default]
    S3Fifo,
}

impl Kind {
    /// Every way, with its name.
    pub const ALL: [(&'static str, Kind); 4] =
        [("none", Kind::None), ("2-random", Kind::TwoRandom), ("lru", Kind::Lru), ("s3-fifo", Kind::S3Fifo)];

    /// Begins without files.
    #[must_use]
    pub fn begin(self) -> Box<dyn Eviction> {
        match self {
            Kind::None => Box::new(Nothing::default()),
            Kind::TwoRandom => Box::new(TwoRandom::default()),
            Kind::Lru => Box::new(Lru::default()),
            Kind::S3Fifo => Box::new(S3Fifo::default()),
        }
    }
}

/// There is no way of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no way to evict: none, 2-random, lru and s3-fifo are")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Kind, UnknownKind> {
        let found = Kind::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, kind)| kind).ok_or_else(|| UnknownKind(text.into()))
    }
}

/// Never lets a file go.
#[derive(Default)]
struct Nothing(std::collections::BTreeSet<u64>);

impl Eviction for Nothing {
    fn insert(&mut self, key: u64, _used: u64) {
        self.0.insert(key);
    }
    fn remove(&mut self, key: u64) {
        self.0.remove(&key);
    }
    fn victim(&mut self, _usage: &mut dyn Usage, _draw: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
        None
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct Book(BTreeMap<u64, (u64, u8)>);

    impl Usage for Book {
        fn used(&self, key: u64) -> u64 {
            self.0.get(&key).map_or(0, |(used, _)| *used)
        }
        fn take_hits(&mut self, key: u64) -> u8 {
            self.0.get_mut(&key).map_or(0, |(_, hits)| std::mem::take(hits))
        }
    }

    #[test]
    fn names_are_those_of_juicefs_and_one_more() {
        for (name, kind) in Kind::ALL {
            assert_eq!(name.parse::<Kind>(), Ok(kind));
        }
        assert!("LRU".parse::<Kind>().unwrap_err().to_string().contains("s3-fifo"));
    }

    #[test]
    fn lru_lets_the_longest_unused_go_and_two_random_never_the_youngest() {
        for kind in [Kind::Lru, Kind::TwoRandom] {
            let (mut policy, mut book) = (kind.begin(), Book::default());
            for key in 0..10 {
                policy.insert(key, key);
                book.0.insert(key, (key, 0));
            }
            book.0.insert(0, (100, 0));
            let mut state = 7u64;
            let mut draw = |end: u64| {
                state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
                (state >> 33) % end
            };
            let gone: Vec<u64> = (0..9).filter_map(|_| policy.victim(&mut book, &mut draw)).collect();
            assert!(!gone.contains(&0), "{kind:?}");
            if kind == Kind::Lru {
                assert_eq!(gone, (1..10).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn s3_fifo_keeps_what_is_used_again_through_a_scan() {
        let (mut policy, mut book) = (Kind::S3Fifo.begin(), Book::default());
        let add = |policy: &mut Box<dyn Eviction>, book: &mut Book, key| {
            if policy.len() >= 100 {
                let gone = policy.victim(book, &mut |_| 0).unwrap();
                book.0.remove(&gone);
            }
            policy.insert(key, 0);
            book.0.insert(key, (0, 0));
        };
        (0..20).for_each(|key| add(&mut policy, &mut book, key));
        for round in 0..40 {
            for key in 0..20 {
                let hot = book.0.get_mut(&key);
                assert!(hot.is_some(), "round {round}: {key} is gone");
                hot.unwrap().1 = 1;
            }
            (0..50).for_each(|key| add(&mut policy, &mut book, 1000 + round * 100 + key));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Remove(u64),
        Use(u64),
        Victim(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..40).prop_map(Step::Insert),
            1 => (0u64..40).prop_map(Step::Remove),
            4 => (0u64..40).prop_map(Step::Use),
            3 => any::<u64>().prop_map(Step::Victim),
        ]
    }

    proptest! {
        #[test]
        fn each_file_goes_once_and_none_is_forgotten(steps in prop::collection::vec(step(), 1..300), which in 0usize..4) {
            let (mut policy, mut book) = (Kind::ALL[which].1.begin(), Book::default());
            for (now, step) in (1u64..).zip(steps) {
                match step {
                    Step::Insert(key) => {
                        if let std::collections::btree_map::Entry::Vacant(free) = book.0.entry(key) {
                            policy.insert(key, now);
                            free.insert((now, 0));
                        }
                    }
                    Step::Remove(key) => {
                        book.0.remove(&key);
                        policy.remove(key);
                    }
                    Step::Use(key) => {
                        if let Some((used, hits)) = book.0.get_mut(&key) {
                            (*used, *hits) = (now, hits.saturating_add(1));
                        }
                    }
                    Step::Victim(chance) => {
                        let oldest = book.0.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
                        let gone = policy.victim(&mut book, &mut |end| chance % end);
                        match Kind::ALL[which].1 {
                            Kind::None => prop_assert_eq!(gone, None),
                            Kind::Lru => prop_assert_eq!(gone, oldest),
                            _ => prop_assert_eq!(gone.is_some(), oldest.is_some()),
                        }
                        if let Some(key) = gone {
                            prop_assert!(book.0.remove(&key).is_some(), "{} was not there", key);
                        }
                    }
                }
                prop_assert_eq!(policy.len(), book.0.len());
            }
        }
    }
}
