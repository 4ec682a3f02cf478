//! How large the rings of a mount are. Pure. The kernel wants a queue for each processor the machine may ever have, and
//! for each place of a queue room for the largest request, so with many processors or little memory both shrink.

use zest_types::limits;

/// Bytes before the payload of a place: its head.
pub const HEAD: usize = 4096;

/// The rings of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlan {
    /// Queues, one for each processor.
    pub queues: usize,
    /// Places of a queue at the beginning.
    pub depth: usize,
    /// Bytes of the largest payload.
    pub room: u32,
}

impl RingPlan {
    /// Rings that take no more than their share of a mount's memory; `None` where that is too little.
    #[must_use]
    pub fn of(queues: usize, memory: u64) -> Option<RingPlan> {
        let share = memory / limits::RING_SHARE / u64::try_from(queues.max(1)).ok()?;
        let mut room = limits::MAX_IO;
        loop {
            let fits = share / (u64::from(room) + HEAD as u64);
            let depth = usize::try_from(fits).unwrap_or(usize::MAX).min(limits::RING_DEPTH);
            if depth >= limits::RING_DEPTH / 4 {
                return Some(RingPlan { queues, depth, room });
            }
            if room / 2 < limits::RING_ROOM_MIN {
                let enough = depth >= limits::RING_DEPTH_MIN;
                return enough.then_some(RingPlan { queues, depth, room });
            }
            room /= 2;
        }
    }

    /// The same for this machine.
    #[must_use]
    pub fn here(memory: u64) -> Option<RingPlan> {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
        RingPlan::of(processors(&text)?, memory)
    }

    /// Bytes of all places together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.queues as u64)
            .saturating_mul(self.depth as u64)
            .saturating_mul(u64::from(self.room) + HEAD as u64)
    }
}

/// Processors of a list such as `0-3,5`. `None` if there are gaps: the kernel numbers its queues without any.
fn processors(list: &str) -> Option<usize> {
    let mut next = 0usize;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first != next || last < first {
            return None;
        }
        next = last.checked_add(1)?;
    }
    (1..=usize::from(u16::MAX)).contains(&next).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_never_take_more_than_their_share() {
        for queues in [1, 2, 3, 8, 64, 512] {
            for memory in [64u64 << 20, 200 << 20, 1 << 30, 4 << 30] {
                let Some(plan) = RingPlan::of(queues, memory) else { continue };
                assert!(plan.bytes() <= memory / limits::RING_SHARE, "{plan:?} of {memory}");
                assert!((limits::RING_DEPTH_MIN..=limits::RING_DEPTH).contains(&plan.depth));
                assert!((limits::RING_ROOM_MIN..=limits::MAX_IO).contains(&plan.room));
                assert_eq!(plan.room as usize % HEAD, 0);
            }
        }
    }

    #[test]
    fn large_requests_are_given_up_before_parallel_ones() {
        let plan = |queues, memory| RingPlan::of(queues, memory).map(|plan| (plan.depth, plan.room));
        assert_eq!(plan(2, 4 << 30), Some((32, 1 << 20)));
        assert_eq!(plan(2, 1 << 30), Some((31, 1 << 20)));
        assert_eq!(plan(64, 4 << 30), Some((15, 256 << 10)));
        assert_eq!(plan(2, 64 << 20), Some((15, 128 << 10)));
        assert_eq!(plan(64, 64 << 20), None);
    }

    #[test]
    fn processors_are_counted_where_there_is_no_gap() {
        assert_eq!(
            (processors("0\n"), processors("0-1\n"), processors("0-3,4")),
            (Some(1), Some(2), Some(5))
        );
        for bad in ["", "1-2", "0-1,3", "x", "3-1", "0-99999999999999999999"] {
            assert_eq!(processors(bad), None, "{bad}");
        }
    }
}
