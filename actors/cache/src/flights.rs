//! Which fetches run when: one per block however many ask, a bounded number at once, prefetches only where
//! nobody waits. Pure: who waits is a payload `W`.

use std::collections::{BTreeMap, VecDeque};
use zest_data::BlockId;

/// A fetch that should start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The block.
    pub block: BlockId,
    /// Bytes of it.
    pub len: u32,
    /// Key of its object.
    pub key: String,
}

struct Flight<W> {
    waiters: Vec<W>,
    /// What to start, as long as it waits for its turn.
    parked: Option<Start>,
}

/// Fetches under way and waiting.
pub struct Flights<W> {
    max: usize,
    max_prefetches: usize,
    running: usize,
    flights: BTreeMap<BlockId, Flight<W>>,
    wanted: VecDeque<BlockId>,
    ahead: VecDeque<BlockId>,
}

impl<W> Flights<W> {
    /// Nothing is fetched yet. At most `max` fetches run at once; at most `max_prefetches` more may wait.
    #[must_use]
    pub fn new(max: usize, max_prefetches: usize) -> Flights<W> {
        let (wanted, ahead) = (VecDeque::new(), VecDeque::new());
        Flights { max: max.max(1), max_prefetches, running: 0, flights: BTreeMap::new(), wanted, ahead }
    }

    /// Someone waits for a block.
    pub fn want(&mut self, what: Start, waiter: W) -> Vec<Start> {
        let block = what.block;
        let flight = self.flights.entry(block).or_insert_with(|| {
            self.wanted.push_back(block);
            Flight { waiters: Vec::new(), parked: Some(what) }
        });
        if flight.waiters.is_empty() && flight.parked.is_some() && self.ahead.contains(&block) {
            self.ahead.retain(|parked| *parked != block);
            self.wanted.push_back(block);
        }
        flight.waiters.push(waiter);
        self.starts()
    }

    /// A block will probably be wanted soon. Forgotten where too many are waiting.
    pub fn prefetch(&mut self, what: Start) -> Vec<Start> {
        if self.flights.contains_key(&what.block) || self.ahead.len() >= self.max_prefetches {
            return Vec::new();
        }
        self.ahead.push_back(what.block);
        self.flights.insert(what.block, Flight { waiters: Vec::new(), parked: Some(what) });
        self.starts()
    }

    /// A fetch has ended. Answers who waited for it, and what starts instead.
    pub fn landed(&mut self, block: BlockId) -> (Vec<W>, Vec<Start>) {
        let waiters = match self.flights.remove(&block) {
            Some(flight) => {
                self.running = self.running.saturating_sub(1);
                flight.waiters
            }
            None => Vec::new(),
        };
        (waiters, self.starts())
    }

    /// Fetches that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    fn starts(&mut self) -> Vec<Start> {
        let mut starts = Vec::new();
        while self.running < self.max {
            // Prefetches leave half of the slots to those who wait.
            let next = match self.wanted.pop_front() {
                Some(block) => Some(block),
                None if self.running < self.max.div_ceil(2) => self.ahead.pop_front(),
                None => None,
            };
            let Some(block) = next else { break };
            if let Some(start) = self.flights.get_mut(&block).and_then(|flight| flight.parked.take()) {
                self.running += 1;
                starts.push(start);
            }
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use zest_types::SliceId;

    fn start(n: u64) -> Start {
        Start { block: BlockId { slice: SliceId(n), index: 0 }, len: 1, key: n.to_string() }
    }

    #[test]
    fn one_fetch_serves_all_who_ask() {
        let mut flights = Flights::new(4, 4);
        assert_eq!(flights.want(start(1), 'a'), [start(1)]);
        assert!(flights.want(start(1), 'b').is_empty());
        assert!(flights.prefetch(start(1)).is_empty());
        let (waiters, next) = flights.landed(start(1).block);
        assert_eq!((waiters, next), (vec!['a', 'b'], vec![]));
        assert_eq!(flights.want(start(1), 'c'), [start(1)], "the next one starts anew");
    }

    #[test]
    fn who_waits_comes_before_prefetches() {
        let mut flights = Flights::new(2, 2);
        assert_eq!(flights.prefetch(start(1)), [start(1)]);
        assert!(flights.prefetch(start(2)).is_empty());
        assert!(flights.prefetch(start(3)).is_empty());
        assert!(flights.prefetch(start(4)).is_empty(), "forgotten");
        assert_eq!(flights.want(start(5), ()), [start(5)]);
        assert!(flights.want(start(3), ()).is_empty());
        assert_eq!(flights.landed(start(1).block).1, [start(3)], "wanted meanwhile, so before 2");
        assert!(flights.landed(start(5).block).1.is_empty());
        assert_eq!(flights.landed(start(3).block).1, [start(2)]);
        assert!(flights.landed(start(2).block).1.is_empty());
        assert_eq!(flights.running(), 0);
    }

    proptest! {
        #[test]
        fn everyone_is_answered_once_within_the_bound(
            steps in prop::collection::vec((0u8..3, 0u64..20, any::<prop::sample::Index>()), 1..200),
            max in 1usize..5,
        ) {
            let mut flights = Flights::new(max, 3);
            let mut running = BTreeSet::new();
            let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
            let take = |running: &mut BTreeSet<BlockId>, starts: Vec<Start>| {
                starts.into_iter().all(|start| running.insert(start.block))
            };
            let mut land = |flights: &mut Flights<usize>, running: &mut BTreeSet<BlockId>, block| {
                running.remove(&block);
                let (waiters, starts) = flights.landed(block);
                waiters.into_iter().all(|w| answered.insert(w)) && take(running, starts)
            };
            for (n, (kind, slice, pick)) in steps.into_iter().enumerate() {
                let fine = match kind {
                    0 => {
                        asked.insert(n);
                        take(&mut running, flights.want(start(slice), n))
                    }
                    1 => take(&mut running, flights.prefetch(start(slice))),
                    _ if running.is_empty() => true,
                    _ => {
                        let block = *pick.get(&running.iter().copied().collect::<Vec<_>>());
                        land(&mut flights, &mut running, block)
                    }
                };
                prop_assert!(fine, "a block was fetched twice at once, or someone answered twice");
                prop_assert!(running.len() <= max && flights.running() == running.len());
            }
            while let Some(block) = running.first().copied() {
                prop_assert!(land(&mut flights, &mut running, block));
            }
            prop_assert_eq!(asked, answered);
        }
    }
}
