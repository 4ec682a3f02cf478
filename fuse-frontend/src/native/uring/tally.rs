//! How many places of a queue there are, and where they are. Pure. It decides when a queue needs more of them, and when
//! the kernel has to be reminded of requests it has put aside.
//!
//! A request without a free place waits in the kernel until another one is answered, and a place whose request waits
//! for long is not free. So there are always some more places than requests that wait. But places that are added take
//! nothing from those the kernel has put aside: only an answer does. And what is aside can't be seen: not even all
//! requests that have a place are shown at once. So whenever places were added, something may be aside, until an answer
//! after that has left its place empty. Where nothing is left to be answered, a request that we cause ourselves is.

/// The places of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    depth: usize,
    most: usize,
    total: usize,
    inside: usize,
    /// The kernel may have put requests aside.
    aside: bool,
    /// Places were added since the last call.
    fresh: bool,
}

impl Tally {
    /// None yet. `depth` of them shall be more than requests wait, and there may be `most`.
    pub fn new(depth: usize, most: usize) -> Tally {
        Tally { depth, most, total: 0, inside: 0, aside: false, fresh: false }
    }

    /// Places there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// More than in the beginning.
    pub fn grown(&self) -> bool {
        self.total > self.depth
    }

    /// Places were added.
    pub fn added(&mut self, places: usize) {
        self.fresh |= self.total > 0 && places > 0;
        self.aside |= self.fresh;
        self.total += places;
    }

    /// The kernel does not take a place any more; there will be no further ones, either.
    pub fn lost(&mut self) {
        self.total = self.total.saturating_sub(1);
        self.enough();
    }

    /// There can be no more places than there are.
    pub fn enough(&mut self) {
        self.most = self.total;
    }

    /// A request came.
    pub fn came(&mut self) {
        self.inside += 1;
    }

    /// A request is answered, and its place free.
    pub fn went(&mut self) {
        self.inside = self.inside.saturating_sub(1);
    }

    /// All that came with one call is counted. `idle`: a place that was given back to the kernel stayed empty, so
    /// nothing had been put aside then.
    pub fn settled(&mut self, idle: bool) {
        let fresh = std::mem::take(&mut self.fresh);
        let empty = idle && !fresh;
        self.aside = (self.aside && !empty) || self.inside >= self.total;
    }

    /// How many places to add now.
    pub fn wanted(&self) -> usize {
        let free = self.total.saturating_sub(self.inside);
        if free * 2 >= self.depth { 0 } else { (self.depth - free).min(self.most.saturating_sub(self.total)) }
    }

    /// Whether a request of our own has to make the kernel look at what it put aside. `answers`: some are on their way,
    /// and do the same.
    pub fn remind(&self, answers: bool) -> bool {
        self.aside && !answers && self.inside < self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The kernel's side: free places, places whose requests it has not shown yet, requests put aside.
    struct Kernel {
        free: usize,
        hidden: usize,
        aside: usize,
    }

    /// Requests shown with one call.
    const SHOWN: usize = 20;

    impl Kernel {
        fn request(&mut self) {
            if self.free > 0 {
                self.free -= 1;
                self.hidden += 1;
            } else {
                self.aside += 1;
            }
        }

        fn show(&mut self) -> usize {
            let shown = self.hidden.min(SHOWN);
            self.hidden -= shown;
            shown
        }

        /// Whether the place got the next request.
        fn answered(&mut self) -> bool {
            let next = self.aside > 0;
            if next {
                self.aside -= 1
            } else {
                self.free += 1
            }
            next
        }
    }

    /// Serves until nothing moves any more; every request waits, but those of our own.
    fn until_still(kernel: &mut Kernel, tally: &mut Tally) {
        let mut ours = 0usize;
        for _ in 0..10_000 {
            // What was shown last is handled: a reminder is answered, the rest waits.
            let answers = ours;
            let next = (0..answers).filter(|_| kernel.answered()).count();
            (0..answers).for_each(|_| tally.went());
            ours = 0;
            let more = tally.wanted();
            tally.added(more);
            kernel.free += more;
            let remind = tally.remind(answers > 0);
            let took_place = remind && kernel.free > 0;
            if took_place {
                kernel.free -= 1;
                ours = 1;
            }
            let shown = kernel.show() + next + ours;
            (0..shown).for_each(|_| tally.came());
            tally.settled(next < answers);
            if shown + answers + more == 0 {
                return;
            }
        }
        panic!("it goes on for ever");
    }

    proptest! {
        /// However many requests come at once, and wait, none is left aside as long as there may be more places.
        #[test]
        fn nothing_stays_aside(depth in 1usize..40, bursts in prop::collection::vec(1usize..200, 1..6)) {
            let mut tally = Tally::new(depth, 4096);
            let mut kernel = Kernel { free: depth, hidden: 0, aside: 0 };
            tally.added(depth);
            for burst in bursts {
                (0..burst).for_each(|_| kernel.request());
                until_still(&mut kernel, &mut tally);
                prop_assert_eq!((kernel.aside, kernel.hidden), (0, 0));
                prop_assert!(kernel.free > 0 && tally.total() <= 4096);
            }
        }
    }

    #[test]
    fn places_end_and_nobody_is_reminded_for_nothing() {
        let mut tally = Tally::new(4, 6);
        tally.added(4);
        (0..3).for_each(|_| tally.came());
        tally.settled(false);
        assert_eq!((tally.wanted(), tally.remind(false)), (2, false));
        tally.added(2);
        assert!(tally.grown());
        (0..3).for_each(|_| tally.came());
        tally.settled(false);
        assert_eq!((tally.wanted(), tally.remind(false)), (0, false), "there is no place for a reminder");
        tally.went();
        assert_eq!((tally.remind(true), tally.remind(false)), (false, true));
        tally.settled(true);
        assert!(!tally.remind(false), "nothing was aside");
        let mut grows = Tally::new(4, 6);
        grows.added(4);
        assert!(!grows.remind(false), "the first ones");
        (0..3).for_each(|_| grows.came());
        grows.added(grows.wanted());
        grows.went();
        grows.settled(true);
        assert!(grows.remind(false), "an answer that came before the new places says nothing of later");
        tally.lost();
        assert_eq!((tally.total(), tally.wanted()), (5, 0));
    }
}
