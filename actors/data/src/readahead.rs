//! How far to read ahead for one open file: pure policy. Reads that follow each other are a stream; ahead of it is
//! fetched what the reader consumes in the time that the store needs for a block, twice over. A reader that waits for
//! us consumes as fast as we let him, so his window grows until he does not wait; one that is slower than the store keeps
//! a small one. Reads that jump about close it. Knows offsets and times only, not what is cached.

use std::ops::Range;
use std::time::Duration;

/// The window as long as nobody knows how long a block takes.
const UNKNOWN: u64 = 2;
/// Windows that are filled in the time of one block: one is on its way while another is consumed.
const TWICE: u128 = 2;

/// What a decision depends on besides the reads.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Now.
    pub now: Duration,
    /// What the store needs for a block; zero as long as nobody knows.
    pub block_time: Duration,
    /// Blocks that may be ahead.
    pub most: u64,
}

/// What one handle's reads looked like so far.
#[derive(Clone, Debug, Default)]
pub struct Readahead {
    /// Where the next read begins if the stream goes on.
    next: u64,
    /// Reads in a row that followed each other.
    run: u32,
    /// Window in blocks; 0 means the reads look random.
    window: u64,
    /// First byte not asked for yet.
    asked: u64,
    /// Where the reader was when his pace was last looked at.
    mark: (Duration, u64),
    /// Bytes he consumes in a second; 0 as long as nobody knows.
    pace: u64,
}

impl Readahead {
    /// A read of `[offset, offset + len)` was asked. Answers which blocks of the file (numbers of `block_size`
    /// windows) are worth fetching now, besides those of the read itself; never one twice in a stream, and never
    /// further ahead than the conditions allow.
    ///
    /// The kernel splits a stream over threads, so reads may come a little out of order: one that begins within
    /// the window, or one block before its place, still belongs to the stream.
    pub fn observe(
        &mut self,
        offset: u64,
        len: u64,
        file_len: u64,
        block_size: u32,
        conditions: &Conditions,
    ) -> Range<u64> {
        let block = u64::from(block_size.max(1));
        let end = offset.saturating_add(len);
        let slack = self.window.max(1).saturating_mul(block);
        let follows = offset <= self.next.saturating_add(slack) && offset.saturating_add(block) >= self.next;
        if !follows {
            *self = Readahead {
                next: end,
                run: 1,
                asked: end,
                mark: (conditions.now, end),
                ..Readahead::default()
            };
            return 0..0;
        }
        if self.run == 0 {
            self.mark = (conditions.now, self.next);
        }
        self.next = self.next.max(end);
        self.run = self.run.saturating_add(1);
        // One read alone, even at the file's start, is no stream: many programs look at a file's head only.
        if self.run < 2 {
            return 0..0;
        }
        self.look_at_pace(block, conditions);
        // What is not allowed any more shrinks at once, and what was asked before was asked.
        self.window = self.window.clamp(1, conditions.most.max(1)).min(conditions.most);
        let want_end = self.next.saturating_add(self.window.saturating_mul(block)).min(file_len);
        let first = self.asked.max(self.next).div_ceil(block);
        let last = want_end.div_ceil(block);
        if first >= last {
            return 0..0;
        }
        self.asked = last.saturating_mul(block);
        first..last
    }

    /// With every block that was consumed: how fast that was, and what window follows.
    fn look_at_pace(&mut self, block: u64, conditions: &Conditions) {
        let consumed = self.next.saturating_sub(self.mark.1);
        if consumed < block {
            return;
        }
        let took = conditions.now.saturating_sub(self.mark.0).as_nanos().max(1);
        let pace = u64::try_from(u128::from(consumed) * 1_000_000_000 / took).unwrap_or(u64::MAX);
        // A reader may stop for a moment, but he does not run faster than he can.
        self.pace = if pace > self.pace { pace } else { self.pace - (self.pace - pace) / 4 };
        self.mark = (conditions.now, self.next);
        let wanted = match conditions.block_time.as_nanos() {
            0 => UNKNOWN,
            time => {
                let bytes = (u128::from(self.pace) * time).saturating_mul(TWICE) / 1_000_000_000;
                u64::try_from(bytes / u128::from(block)).unwrap_or(u64::MAX).saturating_add(1)
            }
        };
        // By steps, so that a single odd time does no harm.
        self.window = wanted.clamp(self.window / 2, self.window.saturating_mul(2).saturating_add(1));
    }

    /// Whether the reads follow each other, so that the rest of a block will be wanted.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.run > 1
    }

    /// Where the stream goes on.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Blocks the window has now.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const BS: u32 = 4 << 20;
    const LONG: u64 = 1 << 40;
    const MOST: u64 = 32;
    const STEP: u64 = 128 << 10;

    fn at(millis: u64) -> Conditions {
        Conditions { now: Duration::from_millis(millis), block_time: Duration::from_millis(20), most: MOST }
    }

    #[test]
    fn a_stream_asks_for_every_block_once_and_stays_within_the_window() {
        let mut ahead = Readahead::default();
        let mut asked = Vec::new();
        for n in 0..2000u64 {
            let wanted = ahead.observe(n * STEP, STEP, LONG, BS, &at(n / 50));
            for block in wanted {
                assert!(block * u64::from(BS) < (n + 1) * STEP + (MOST + 1) * u64::from(BS));
                asked.push(block);
            }
        }
        assert_eq!(asked, (1..1 + asked.len() as u64).collect::<Vec<_>>());
        assert_eq!(ahead.window(), MOST, "he reads faster than anything");
    }

    #[test]
    fn nothing_is_read_ahead_where_nothing_may_be() {
        let mut ahead = Readahead::default();
        for n in 0..100u64 {
            assert!(ahead.observe(n << 20, 1 << 20, LONG, BS, &Conditions { most: 0, ..at(n) }).is_empty());
        }
        assert!(ahead.is_stream(), "but it is seen what it is");
    }

    #[test]
    fn random_reads_ask_for_nothing() {
        let mut ahead = Readahead::default();
        for n in 1..100u64 {
            let offset = (n * 7_919) % 97 * (1 << 30);
            assert!(ahead.observe(offset, 4096, LONG, BS, &at(n)).is_empty(), "{n}");
        }
    }

    #[test]
    fn the_end_of_the_file_bounds_the_window() {
        let mut ahead = Readahead::default();
        let len = u64::from(BS) * 2 + 1;
        let asked: Vec<u64> =
            (0..20).flat_map(|n| ahead.observe(n << 19, 1 << 19, len, BS, &at(n))).collect();
        assert_eq!(asked, [1, 2]);
    }

    #[test]
    fn a_stream_out_of_order_is_still_one() {
        let mut ahead = Readahead::default();
        let order = [1u64, 0, 3, 2, 5, 4, 7, 6, 9, 8];
        let read = |n: &u64| ahead.observe(n * STEP, STEP, LONG, BS, &at(*n));
        let asked: u64 = order.iter().map(read).map(|r| r.end - r.start).sum();
        assert!(asked >= 1);
        assert!(ahead.window() >= 1);
    }

    #[test]
    fn huge_offsets_break_nothing() {
        let mut ahead = Readahead::default();
        let endless = Conditions { now: Duration::MAX, block_time: Duration::MAX, most: u64::MAX };
        ahead.observe(u64::MAX - 3, 10, u64::MAX, BS, &at(0));
        ahead.observe(u64::MAX - 3, 10, u64::MAX, 0, &endless);
        ahead.observe(0, u64::MAX, u64::MAX, BS, &endless);
        ahead.observe(u64::MAX / 2, u64::MAX, u64::MAX, BS, &endless);
    }

    /// A reader of `pace` bytes a second, if he need not wait, over a store that brings any number of blocks in
    /// `delay`. Answers how fast he was once he had begun, and the largest window then. Where the window is too small he
    /// waits once for each window, so that he is watched for many of them.
    fn reading(pace: u64, delay: Duration, most: u64) -> (u64, u64) {
        let block = u64::from(BS);
        let (mut ahead, mut now) = (Readahead::default(), Duration::ZERO);
        let mut there: BTreeMap<u64, Duration> = BTreeMap::new();
        let (half, watched) = (100 + most, 100 + 10 * most.min(200));
        let blocks = half + watched;
        let (mut begun, mut window, mut block_time) = (Duration::ZERO, 0, Duration::ZERO);
        for n in 0..blocks * block / STEP {
            let conditions = Conditions { now, block_time, most };
            for wanted in ahead.observe(n * STEP, STEP, LONG, BS, &conditions) {
                assert!(there.insert(wanted, now + delay).is_none(), "never twice");
            }
            let ready = *there.entry(n * STEP / block).or_insert(now + delay);
            if ready > now {
                (now, block_time) = (ready, delay);
            }
            now += Duration::from_nanos(STEP * 1_000_000_000 / pace);
            if n == half * block / STEP {
                begun = now;
            }
            if n >= half * block / STEP {
                window = window.max(ahead.window());
            }
        }
        let seconds = (now - begun).as_secs_f64();
        (((blocks - half) as f64 * block as f64 / seconds) as u64, window)
    }

    #[test]
    fn a_slow_store_gets_a_large_window_and_a_slow_reader_a_small_one() {
        let mib = |n: u64| n << 20;
        let (speed, window) = reading(mib(400), Duration::from_millis(200), 256);
        assert!(speed > mib(380) && window <= 64, "{speed} {window}: 20 blocks come in the time of one");
        let (speed, window) = reading(mib(10), Duration::from_millis(50), 256);
        assert!(speed > mib(9) && window <= 3, "{speed} {window}");
    }

    proptest! {
        #[test]
        fn a_reader_does_not_wait_for_long(
            pace in 1u64..2000, delay in 1u64..400, most in 1u64..200,
        ) {
            let (pace, delay) = (pace << 20, Duration::from_millis(delay));
            let (speed, window) = reading(pace, delay, most);
            // What the store gives with that many blocks on their way; the reader's own time comes on top of it.
            let store = most as f64 * f64::from(BS) / delay.as_secs_f64();
            let ideal = (pace as f64).min(store);
            prop_assert!(speed as f64 >= ideal * 0.8, "{} of {}", speed, ideal);
            let needed = pace as f64 * delay.as_secs_f64() / f64::from(BS);
            prop_assert!(window <= most && window as f64 <= needed * 2.5 + 3.0, "{} of {}", window, needed);
        }

        #[test]
        fn nothing_twice_nothing_too_far_nothing_behind_the_end(
            reads in prop::collection::vec((0u64..40, 1u64..3, 0u64..50, 0u64..40), 1..200),
            len in 0u64..200,
        ) {
            let file_len = len << 20;
            let (mut ahead, mut now) = (Readahead::default(), 0);
            let mut stream: Vec<u64> = Vec::new();
            for (place, mib, pause, most) in reads {
                now += pause;
                let before = ahead.is_stream();
                let conditions = Conditions { most, ..at(now) };
                let wanted = ahead.observe(place << 20, mib << 20, file_len, BS, &conditions);
                if before && !ahead.is_stream() {
                    stream.clear();
                }
                let block = u64::from(BS);
                for number in wanted {
                    prop_assert!(number * block < file_len);
                    prop_assert!(number * block < ahead.position() + most * block);
                    prop_assert!(!stream.contains(&number), "{} twice", number);
                    stream.push(number);
                }
            }
        }
    }
}
