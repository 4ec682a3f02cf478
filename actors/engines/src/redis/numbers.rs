//! Numbers that must not be given twice. A server that was restarted, or replaced by its replica, may have lost its last
//! changes, and with them that numbers were given out: the same inode or slice number would be given to somebody else,
//! and his blocks written over ours. So before anything else is said to another process than before, the counters are
//! raised above all that was given here, and by more than others can have got meanwhile. Pure but for its locks.

use super::place::{counter_name, offset};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use zest_metadata::{Counter, Key, Record};
use zest_types::limits;

const COUNTERS: [(Counter, i64); 3] = [
    (Counter::NextInode, limits::LOST_NUMBERS),
    (Counter::NextSlice, limits::LOST_NUMBERS),
    (Counter::NextSession, limits::LOST_SESSIONS),
];
/// As many clients may have got as many numbers as we did.
const CLIENTS: i64 = 16;

/// What was given out here, and by which process.
#[derive(Default)]
pub(crate) struct Numbers {
    process: Mutex<Option<String>>,
    /// The highest value seen of each counter, as it is stored.
    highest: [AtomicI64; COUNTERS.len()],
}

/// A counter to be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raise {
    pub(crate) name: &'static str,
    /// By this, whatever it is.
    pub(crate) by: i64,
    highest: i64,
}

impl Raise {
    /// What is missing when the counter stands here after it was raised; 0: nothing.
    pub(crate) fn missing(&self, stands: i64) -> i64 {
        let lost = self.highest.saturating_sub(stands.saturating_sub(self.by)).max(0);
        let others = lost.saturating_mul(CLIENTS).max(self.by);
        self.highest.saturating_add(others).saturating_sub(stands).max(0)
    }

    /// How many numbers the server forgot of those that were given here, when the counter stands here after it was
    /// raised.
    pub(crate) fn lost(&self, stands: i64) -> i64 {
        self.highest.saturating_sub(stands.saturating_sub(self.by)).max(0)
    }
}

impl Numbers {
    /// Notes what counters stand at.
    pub(crate) fn note(&self, found: &[(Key, Option<Record>)]) {
        for (key, record) in found {
            let (Key::Counter(counter), Some(Record::Count(value))) = (key, record) else { continue };
            if let Some(at) = COUNTERS.iter().position(|(known, _)| known == counter)
                && let Some(highest) = self.highest.get(at)
            {
                highest.fetch_max(value.saturating_sub(offset(key)), Ordering::AcqRel);
            }
        }
    }

    /// The counters to be raised before this process is used: none of those from which nothing was taken.
    pub(crate) fn raises(&self, process: Option<&str>) -> Vec<Raise> {
        let before = self.process.lock();
        // One that does not say who it is may be any.
        if before.is_none() || (process.is_some() && before.as_deref() == process) {
            return Vec::new();
        }
        let all = COUNTERS.iter().zip(&self.highest).map(|((counter, by), highest)| Raise {
            name: counter_name(*counter),
            by: *by,
            highest: highest.load(Ordering::Acquire),
        });
        all.filter(|raise| raise.highest > 0).collect()
    }

    /// This process is the one that is used from now on.
    pub(crate) fn settle(&self, process: Option<&str>) {
        *self.process.lock() = Some(process.unwrap_or_default().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(numbers: &Numbers, counter: Counter, value: i64) {
        numbers.note(&[(Key::Counter(counter), Some(Record::Count(value)))]);
    }

    #[test]
    fn only_another_process_is_mistrusted_and_only_where_numbers_were_taken() {
        let numbers = Numbers::default();
        assert!(numbers.raises(Some("a")).is_empty());
        numbers.settle(Some("a"));
        taken(&numbers, Counter::NextSlice, 4097);
        taken(&numbers, Counter::NextSlice, 1);
        taken(&numbers, Counter::UsedSpace, 1 << 40);
        assert!(numbers.raises(Some("a")).is_empty());
        let raise = Raise { name: "nextchunk", by: limits::LOST_NUMBERS, highest: 4096 };
        assert_eq!((numbers.raises(Some("b")), numbers.raises(None)), (vec![raise], vec![raise]));
        numbers.settle(Some("b"));
        assert!(numbers.raises(Some("b")).is_empty());
    }

    #[test]
    fn what_was_lost_is_left_out_for_everybody() {
        let raise = Raise { name: "nextinode", by: 1000, highest: 5000 };
        // Nothing was lost.
        assert_eq!((raise.missing(6000), raise.lost(6000)), (0, 0));
        assert_eq!((raise.missing(9000), raise.lost(9000)), (0, 0));
        // It stood at 4990: ten of ours are gone, and perhaps of others.
        assert_eq!((raise.missing(5990), raise.lost(5990)), (10, 10));
        // It stood at 2000.
        assert_eq!(raise.missing(3000), 5000 + 3000 * CLIENTS - 3000);
    }
}
