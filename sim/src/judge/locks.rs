//! The judge of file locks over clients: two owners never have locks at the same time that exclude each other. An
//! owner surely has a lock from the answer that gave it until it asks to have it taken away. Whole-file locks and
//! locks on ranges know nothing of each other. Locks of a client that died may be anybody's.

use super::court::Violation;
use std::collections::BTreeMap;

/// Who holds a lock: client, and owner there.
pub type Owner = (usize, u64);

/// What a lock covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which file, in the world's own counting.
    pub file: usize,
    /// First and last byte; none is the whole file, which excludes other locks of whole files only.
    pub range: Option<(u64, u64)>,
    /// For one owner alone.
    pub alone: bool,
}

impl Claim {
    /// Whether two owners can't have both.
    #[must_use]
    pub fn excludes(&self, other: &Claim) -> bool {
        let meets = match (self.range, other.range) {
            (Some((a, b)), Some((c, d))) => a <= d && c <= b,
            (None, None) => true,
            _ => false,
        };
        self.file == other.file && meets && (self.alone || other.alone)
    }
}

/// Locks that are surely held; one for each owner.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    held: BTreeMap<Owner, Claim>,
}

impl Locks {
    /// A lock was given.
    ///
    /// # Errors
    /// Somebody else has one that excludes it.
    pub fn given(&mut self, owner: Owner, claim: Claim) -> Result<(), Violation> {
        let other = self.held.iter().find(|(other, held)| **other != owner && held.excludes(&claim));
        if let Some((other, held)) = other {
            let text = format!(
                "owner {} of client {} was given {claim:?}, while owner {} of client {} has {held:?}",
                owner.1, owner.0, other.1, other.0
            );
            return Err(Violation::new("locks", text));
        }
        self.held.insert(owner, claim);
        Ok(())
    }

    /// An owner asks to have its lock taken away.
    pub fn returned(&mut self, owner: Owner) {
        self.held.remove(&owner);
    }

    /// A client is no more.
    pub fn died(&mut self, client: usize) {
        self.held.retain(|(other, _), _| *other != client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(range: Option<(u64, u64)>, alone: bool) -> Claim {
        Claim { file: 0, range, alone }
    }

    #[test]
    fn locks_that_exclude_each_other_are_not_held_at_once() {
        let mut locks = Locks::default();
        locks.given((0, 1), claim(Some((0, 9)), true)).unwrap();
        assert!(locks.given((1, 1), claim(Some((9, 12)), false)).is_err());
        assert!(locks.given((0, 2), claim(Some((0, 0)), true)).is_err());
        locks.given((1, 1), claim(Some((10, 12)), true)).unwrap();
        locks.given((2, 1), claim(None, true)).unwrap();
        assert!(locks.given((2, 2), claim(None, false)).is_err());
        locks.returned((0, 1));
        locks.given((1, 2), claim(Some((0, 9)), false)).unwrap();
        locks.given((2, 3), claim(Some((5, 9)), false)).unwrap();
        locks.died(2);
        locks.given((0, 5), claim(None, true)).unwrap();
    }
}
