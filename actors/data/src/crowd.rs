//! How many handles are read as streams at the moment, told by those that are: each counts once in a while. Pure; times
//! are given. One that is not read any more counts no longer after two such whiles, without having to say so.

use std::time::Duration;

/// How long a while is.
pub const WHILE: Duration = Duration::from_secs(5);

/// The count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd {
    /// The number of this while, counted from 1.
    number: u64,
    here: u64,
    before: u64,
}

impl Crowd {
    /// Somebody reads a stream; `seen` is his own, zero at first.
    pub fn note(&mut self, seen: &mut u64, now: Duration) {
        let number = now.as_secs() / WHILE.as_secs() + 1;
        if number > self.number {
            self.before = if number == self.number + 1 { self.here } else { 0 };
            (self.number, self.here) = (number, 0);
        }
        if *seen < self.number {
            *seen = self.number;
            self.here += 1;
        }
    }

    /// How many there are; at least one.
    #[must_use]
    pub fn streams(&self) -> u64 {
        self.here.max(self.before).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_counts_once_and_who_stopped_does_not() {
        let mut crowd = Crowd::default();
        let mut seen = [0u64; 10];
        for second in 0..20 {
            for one in &mut seen {
                crowd.note(one, Duration::from_secs(second));
            }
            assert_eq!(crowd.streams(), 10, "{second}");
        }
        for second in 20..26 {
            crowd.note(&mut seen[0], Duration::from_secs(second));
        }
        assert!(crowd.streams() <= 10);
        crowd.note(&mut seen[0], Duration::from_secs(30));
        assert_eq!(crowd.streams(), 1);
        crowd.note(&mut seen[1], Duration::from_secs(1000));
        assert_eq!(crowd.streams(), 1, "a long silence leaves nobody");
        crowd.note(&mut seen[2], Duration::from_secs(1));
        assert_eq!(crowd.streams(), 2, "time that goes back changes nothing");
    }
}
