//! Which fetches run when: one for the same bytes of a block however many ask, a bounded number and a bounded sum of
//! bytes at once, prefetches only where nobody waits. Pure: who waits is a payload `W`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use zest_data::BlockId;

/// A fetch that should start now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The block.
    pub block: BlockId,
    /// Bytes of the whole block.
    pub len: u32,
    /// Key of its object.
    pub key: String,
    /// The bytes to fetch, within the block.
    pub span: Range<u32>,
}

/// Which fetch: a block and the bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flying {
    block: BlockId,
    start: u32,
    end: u32,
}

impl Start {
    /// A whole block.
    #[must_use]
    pub fn whole(block: BlockId, len: u32, key: String) -> Start {
        Start { block, len, key, span: 0..len }
    }

    /// Which fetch this is.
    #[must_use]
    pub fn name(&self) -> Flying {
        Flying { block: self.block, start: self.span.start, end: self.span.end }
    }
}

impl Flying {
    fn bytes(&self) -> u64 {
        u64::from(self.end.saturating_sub(self.start))
    }
}

struct Flight<W> {
    waiters: Vec<W>,
    /// What to start, as long as it waits for its turn.
    parked: Option<Start>,
}

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Fetches that run at once.
    pub running: usize,
    /// Bytes they fetch; a single fetch may be larger.
    pub bytes: u64,
    /// Prefetches that wait for their turn.
    pub prefetches: usize,
}

/// Fetches under way and waiting.
pub struct Flights<W> {
    bounds: Bounds,
    running: usize,
    bytes: u64,
    flights: BTreeMap<Flying, Flight<W>>,
    wanted: VecDeque<Flying>,
    ahead: VecDeque<Flying>,
}

impl<W> Flights<W> {
    /// Nothing is fetched yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Flights<W> {
        let bounds = Bounds { running: bounds.running.max(1), ..bounds };
        let (wanted, ahead) = (VecDeque::new(), VecDeque::new());
        Flights { bounds, running: 0, bytes: 0, flights: BTreeMap::new(), wanted, ahead }
    }

    /// A fetch, under way or waiting, that brings these bytes.
    #[must_use]
    pub fn covering(&self, block: BlockId, range: &Range<u32>) -> Option<Flying> {
        let first = Flying { block, start: 0, end: 0 };
        let last = Flying { block, start: range.start, end: u32::MAX };
        self.flights.range(first..=last).map(|(name, _)| *name).find(|name| name.end >= range.end)
    }

    /// Someone waits for a fetch that is there already; see [`Flights::covering`]. `W` comes back if it is not.
    pub fn join(&mut self, name: Flying, waiter: W) -> Result<Vec<Start>, W> {
        let Some(flight) = self.flights.get_mut(&name) else { return Err(waiter) };
        if flight.waiters.is_empty() && flight.parked.is_some() && self.ahead.contains(&name) {
            self.ahead.retain(|parked| *parked != name);
            self.wanted.push_back(name);
        }
        flight.waiters.push(waiter);
        Ok(self.starts())
    }

    /// Someone waits for these bytes of a block.
    pub fn want(&mut self, what: Start, waiter: W) -> Vec<Start> {
        let there = self.covering(what.block, &what.span).unwrap_or(what.name());
        match self.join(there, waiter) {
            Ok(starts) => starts,
            Err(waiter) => {
                let name = what.name();
                self.wanted.push_back(name);
                self.flights.insert(name, Flight { waiters: vec![waiter], parked: Some(what) });
                self.starts()
            }
        }
    }

    /// A block will probably be wanted soon. `None` where too many are waiting: then it is forgotten.
    pub fn prefetch(&mut self, what: Start) -> Option<Vec<Start>> {
        if self.covering(what.block, &what.span).is_some() {
            return Some(Vec::new());
        }
        if self.ahead.len() >= self.bounds.prefetches {
            return None;
        }
        let name = what.name();
        self.ahead.push_back(name);
        self.flights.insert(name, Flight { waiters: Vec::new(), parked: Some(what) });
        Some(self.starts())
    }

    /// A fetch has ended. Answers who waited for it, and what starts instead.
    pub fn landed(&mut self, name: Flying) -> (Vec<W>, Vec<Start>) {
        let waiters = match self.flights.remove(&name) {
            Some(flight) => {
                self.running = self.running.saturating_sub(1);
                self.bytes = self.bytes.saturating_sub(name.bytes());
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

    /// Bytes they fetch.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn starts(&mut self) -> Vec<Start> {
        let mut starts = Vec::new();
        loop {
            // Prefetches leave half of the slots, and of the bytes, to those who wait.
            let next = match self.wanted.front() {
                Some(name) if self.fits(name, 1) => self.wanted.pop_front(),
                Some(_) => None,
                None => match self.ahead.front() {
                    Some(name) if self.fits(name, 2) => self.ahead.pop_front(),
                    _ => None,
                },
            };
            let Some(name) = next else { break };
            if let Some(start) = self.flights.get_mut(&name).and_then(|flight| flight.parked.take()) {
                self.running += 1;
                self.bytes += name.bytes();
                starts.push(start);
            }
        }
        starts
    }

    /// Whether one more may run beside the others, within one in `share` of the bounds.
    fn fits(&self, name: &Flying, share: u64) -> bool {
        let slots = self.bounds.running.div_ceil(usize::try_from(share).unwrap_or(1));
        self.running < slots && (self.running == 0 || self.bytes + name.bytes() <= self.bounds.bytes / share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use zest_types::SliceId;

    fn start(n: u64) -> Start {
        Start::whole(BlockId { slice: SliceId(n), index: 0 }, 1, n.to_string())
    }

    fn flights<W>(running: usize, prefetches: usize) -> Flights<W> {
        Flights::new(Bounds { running, bytes: 1 << 30, prefetches })
    }

    fn part(n: u64, span: Range<u32>) -> Start {
        Start { block: start(n).block, len: 100, key: n.to_string(), span }
    }

    #[test]
    fn a_part_joins_whatever_brings_it() {
        let mut flights = flights(4, 4);
        assert_eq!(flights.want(part(1, 10..20), 'a').len(), 1);
        assert!(flights.want(part(1, 12..20), 'b').is_empty());
        assert_eq!(flights.want(part(1, 12..21), 'c').len(), 1, "one byte more is another fetch");
        assert_eq!(flights.want(part(1, 0..100), 'd').len(), 1, "so is the whole block");
        assert!(flights.want(part(1, 50..60), 'e').is_empty());
        assert!(flights.want(part(2, 50..60), 'f').len() == 1);
        assert!(flights.prefetch(part(1, 0..100)).unwrap().is_empty());
        assert_eq!(flights.landed(part(1, 10..20).name()).0, ['a', 'b']);
        assert_eq!(flights.landed(part(1, 0..100).name()).0, ['d', 'e']);
        assert_eq!(flights.landed(part(1, 12..21).name()).0, ['c']);
        assert_eq!((flights.running(), flights.bytes()), (1, 10));
    }

    #[test]
    fn bytes_under_way_are_bounded_and_what_is_larger_flies_alone() {
        let mut flights = Flights::new(Bounds { running: 9, bytes: 150, prefetches: 9 });
        assert_eq!(flights.want(part(1, 0..100), ()).len(), 1);
        assert!(flights.want(part(2, 0..100), ()).is_empty());
        assert!(flights.want(part(3, 0..10), ()).is_empty(), "nobody overtakes");
        assert!(flights.prefetch(part(4, 0..1)).unwrap().is_empty());
        let started = flights.landed(part(1, 0..100).name()).1;
        assert_eq!(started.len(), 2);
        assert_eq!(flights.bytes(), 110);
        assert!(flights.landed(part(3, 0..10).name()).1.is_empty(), "half is for those who wait");
        assert_eq!(flights.landed(part(2, 0..100).name()).1.len(), 1);
        assert!(flights.want(part(5, 0..500), ()).is_empty());
        assert_eq!(flights.landed(part(4, 0..1).name()).1.len(), 1, "larger than all, but alone");
        flights.landed(part(5, 0..500).name());
        assert_eq!((flights.running(), flights.bytes()), (0, 0));
    }

    #[test]
    fn one_fetch_serves_all_who_ask() {
        let mut flights = flights(4, 4);
        assert_eq!(flights.want(start(1), 'a'), [start(1)]);
        assert!(flights.want(start(1), 'b').is_empty());
        assert!(flights.prefetch(start(1)).unwrap().is_empty());
        let (waiters, next) = flights.landed(start(1).name());
        assert_eq!((waiters, next), (vec!['a', 'b'], vec![]));
        assert_eq!(flights.want(start(1), 'c'), [start(1)], "the next one starts anew");
    }

    #[test]
    fn who_waits_comes_before_prefetches() {
        let mut flights = flights(2, 2);
        assert_eq!(flights.prefetch(start(1)).unwrap(), [start(1)]);
        assert!(flights.prefetch(start(2)).unwrap().is_empty());
        assert!(flights.prefetch(start(3)).unwrap().is_empty());
        assert!(flights.prefetch(start(4)).is_none(), "forgotten");
        assert_eq!(flights.want(start(5), ()), [start(5)]);
        assert!(flights.want(start(3), ()).is_empty());
        assert_eq!(flights.landed(start(1).name()).1, [start(3)], "wanted meanwhile, so before 2");
        assert!(flights.landed(start(5).name()).1.is_empty());
        assert_eq!(flights.landed(start(3).name()).1, [start(2)]);
        assert!(flights.landed(start(2).name()).1.is_empty());
        assert_eq!(flights.running(), 0);
    }

    proptest! {
        #[test]
        fn everyone_is_answered_once_within_the_bound(
            steps in prop::collection::vec((0u8..3, 0u64..20, any::<prop::sample::Index>()), 1..200),
            max in 1usize..5,
        ) {
            let mut flights = flights::<usize>(max, 3);
            let mut running = BTreeSet::new();
            let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
            let take = |running: &mut BTreeSet<Flying>, starts: Vec<Start>| {
                starts.into_iter().all(|start| running.insert(start.name()))
            };
            let mut land = |flights: &mut Flights<usize>, running: &mut BTreeSet<Flying>, block| {
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
                    1 => take(&mut running, flights.prefetch(start(slice)).unwrap_or_default()),
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
