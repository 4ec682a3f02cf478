//! Which staged block goes up next: the oldest first, and of one file no younger one begins while an older one
//! waits, also when the older one has failed and rests. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zest_data::BlockId;
use zest_types::Ino;
use zest_world::planted::{Bug, active};

/// Place of a block in the order of staging.
pub type Number = u64;

#[derive(Debug, Default)]
struct Line {
    waiting: BTreeMap<Number, BlockId>,
    /// Nothing of this file begins before this time.
    rests_until: Option<Duration>,
}

/// Staged blocks that wait for their upload.
#[derive(Debug, Default)]
pub struct Order {
    lines: BTreeMap<Ino, Line>,
    /// The oldest of each file that does not rest.
    fronts: BTreeSet<(Number, Ino)>,
    resting: BTreeSet<(Duration, Ino)>,
    waiting: usize,
}

impl Order {
    /// A block waits from now on, or again. Numbers are as old as their blocks.
    pub fn add(&mut self, ino: Ino, number: Number, block: BlockId) {
        let line = self.lines.entry(ino).or_default();
        let front = line.waiting.keys().next().copied();
        if line.waiting.insert(number, block).is_none() {
            self.waiting += 1;
        }
        if line.rests_until.is_none() && front.is_none_or(|front| number < front) {
            self.fronts.extend(Some((number, ino)));
            if let Some(front) = front {
                self.fronts.remove(&(front, ino));
            }
        }
    }

    /// A block waits no more, for whatever reason.
    pub fn remove(&mut self, ino: Ino, number: Number) {
        let Some(line) = self.lines.get_mut(&ino) else { return };
        if line.waiting.remove(&number).is_none() {
            return;
        }
        self.waiting -= 1;
        self.fronts.remove(&(number, ino));
        let front = line.waiting.keys().next().copied();
        match (front, line.rests_until) {
            (Some(front), None) => {
                self.fronts.insert((front, ino));
            }
            (Some(_), Some(_)) => {}
            (None, rests) => {
                if let Some(until) = rests {
                    self.resting.remove(&(until, ino));
                }
                self.lines.remove(&ino);
            }
        }
    }

    /// Nothing of this file begins before `until`.
    pub fn rest(&mut self, ino: Ino, until: Duration) {
        let Some(line) = self.lines.get_mut(&ino) else { return };
        if let Some(before) = line.rests_until.replace(until) {
            self.resting.remove(&(before, ino));
        }
        self.resting.insert((until, ino));
        if let Some(front) = line.waiting.keys().next() {
            self.fronts.remove(&(*front, ino));
        }
    }

    /// Those whose rest is over wait again.
    pub fn wake(&mut self, now: Duration) {
        while let Some((until, ino)) = self.resting.first().copied().filter(|(until, _)| *until <= now) {
            self.resting.remove(&(until, ino));
            if let Some(line) = self.lines.get_mut(&ino) {
                line.rests_until = None;
                self.fronts.extend(line.waiting.keys().next().map(|front| (*front, ino)));
            }
        }
    }

    /// The oldest block that may begin; it stays until it is removed.
    #[must_use]
    pub fn oldest(&self) -> Option<(Ino, Number, BlockId)> {
        let (number, ino) = *self.fronts.first()?;
        self.of(ino, number)
    }

    /// The oldest block of a file, if it may begin.
    #[must_use]
    pub fn oldest_of(&self, ino: Ino) -> Option<(Ino, Number, BlockId)> {
        let line = self.lines.get(&ino).filter(|line| line.rests_until.is_none())?;
        self.of(ino, *line.waiting.keys().next()?)
    }

    fn of(&self, ino: Ino, number: Number) -> Option<(Ino, Number, BlockId)> {
        let waiting = &self.lines.get(&ino)?.waiting;
        if active(Bug::YoungOvertakesOld) {
            return waiting.iter().next_back().map(|(number, block)| (ino, *number, *block));
        }
        waiting.get(&number).map(|block| (ino, number, *block))
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zest_types::SliceId;

    fn block(number: u64) -> BlockId {
        BlockId { slice: SliceId(number), index: 0 }
    }

    #[test]
    fn an_older_one_that_rests_holds_its_file_and_no_other() {
        let mut order = Order::default();
        (1..=4).for_each(|n| order.add(Ino(n % 2), n, block(n)));
        assert_eq!(order.oldest().map(|found| found.1), Some(1));
        order.remove(Ino(1), 1);
        order.add(Ino(1), 1, block(1));
        order.rest(Ino(1), Duration::from_secs(5));
        assert_eq!(order.oldest().map(|found| found.1), Some(2));
        order.remove(Ino(0), 2);
        order.remove(Ino(0), 4);
        assert_eq!((order.oldest(), order.len()), (None, 2));
        order.wake(Duration::from_secs(4));
        assert_eq!(order.oldest_of(Ino(1)), None);
        order.wake(Duration::from_secs(5));
        assert_eq!(order.oldest().map(|found| found.1), Some(1));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u64),
        Start,
        StartOf(u64),
        Fail(prop::sample::Index),
        Done(prop::sample::Index),
        Drop(prop::sample::Index),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..4).prop_map(Step::Add),
            3 => Just(Step::Start),
            1 => (0u64..4).prop_map(Step::StartOf),
            2 => any::<prop::sample::Index>().prop_map(Step::Fail),
            2 => any::<prop::sample::Index>().prop_map(Step::Done),
            1 => any::<prop::sample::Index>().prop_map(Step::Drop),
            2 => (1u64..6).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #[test]
        fn no_younger_one_begins_while_an_older_one_of_its_file_waits(
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let mut order = Order::default();
            let (mut waiting, mut going) = (BTreeMap::<u64, Ino>::new(), Vec::<(u64, Ino)>::new());
            let mut rests: BTreeMap<Ino, u64> = BTreeMap::new();
            let (mut last, mut now) = (0, 0);
            for step in steps {
                match step {
                    Step::Add(ino) => {
                        last += 1;
                        order.add(Ino(ino), last, block(last));
                        waiting.insert(last, Ino(ino));
                    }
                    Step::Start | Step::StartOf(_) => {
                        let awake = |ino: &Ino| rests.get(ino).is_none_or(|until| *until <= now);
                        let (found, wanted) = match step {
                            Step::StartOf(ino) => (order.oldest_of(Ino(ino)), Some(Ino(ino))),
                            _ => (order.oldest(), None),
                        };
                        let right = waiting.iter().find(|(_, ino)| awake(ino) && wanted.is_none_or(|w| w == **ino));
                        prop_assert_eq!(found.map(|(ino, n, _)| (n, ino)), right.map(|(n, ino)| (*n, *ino)));
                        if let Some((ino, number, _)) = found {
                            order.remove(ino, number);
                            waiting.remove(&number);
                            going.push((number, ino));
                        }
                    }
                    Step::Fail(which) if !going.is_empty() => {
                        let (number, ino) = going.swap_remove(which.index(going.len()));
                        order.add(ino, number, block(number));
                        order.rest(ino, Duration::from_secs(now + 3));
                        waiting.insert(number, ino);
                        rests.insert(ino, now + 3);
                    }
                    Step::Done(which) if !going.is_empty() => {
                        going.swap_remove(which.index(going.len()));
                    }
                    Step::Drop(which) if !waiting.is_empty() => {
                        let (&number, &ino) = waiting.iter().nth(which.index(waiting.len())).unwrap();
                        order.remove(ino, number);
                        waiting.remove(&number);
                        if !waiting.values().any(|other| *other == ino) {
                            rests.remove(&ino);
                        }
                    }
                    Step::Wait(time) => {
                        now += time;
                        order.wake(Duration::from_secs(now));
                    }
                    _ => {}
                }
                prop_assert_eq!(order.len(), waiting.len());
                prop_assert_eq!(order.is_empty(), waiting.is_empty());
            }
        }
    }
}
