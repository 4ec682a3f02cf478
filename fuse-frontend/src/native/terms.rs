//! What this mount lets the kernel believe, for the codec's answers: the term of one answer, as every door has it.

use crate::door::Term;
use std::time::Duration;
use zest_codec::Terms;
use zest_types::{Attr, Ino, Name};

/// The terms of one answer.
pub(super) struct AnswerTerms {
    pub term: Term,
    /// The kernel may keep listings of directories.
    pub dir_cache: bool,
    /// Locks are kept in the volume.
    pub locks: bool,
}

impl Terms for AnswerTerms {
    fn valid(&self, ino: Ino, attr: &Attr) -> (Duration, Duration) {
        self.term.valid(ino, attr)
    }

    fn valid_in(&self, dir: Ino, name: &Name, ino: Ino, attr: &Attr) -> (Duration, Duration) {
        self.term.valid_as(Some((dir, name)), ino, attr)
    }

    fn node(&self, ino: Ino) -> Ino {
        Ino(self.term.root.outward(ino).0)
    }

    fn negative(&self, _: Ino) -> Duration {
        self.term.nobody().unwrap_or(Duration::ZERO)
    }

    fn keep_dir(&self, ino: Ino) -> bool {
        // The trash changes behind the kernel's back.
        self.dir_cache && !ino.is_trash()
    }

    fn close_drops_locks(&self) -> bool {
        self.locks
    }
}
