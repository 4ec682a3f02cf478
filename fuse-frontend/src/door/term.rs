//! The term of one answer, in the words of a door: with the directory that is its root.

use super::Ttl;
use super::convert::Root;
use std::ops::Deref;
use zest_vfs::belief::{self, About, Lasting};

/// The term of one answer.
pub(crate) struct Term {
    pub(crate) root: Root,
    of: belief::Term,
}

impl Term {
    /// To be made before the request is served, and kept until the kernel has the answer.
    pub(crate) fn new(root: Root, ttl: Ttl, lasting: Option<&Lasting>, about: About) -> Term {
        Term { root, of: belief::Term::new(ttl, lasting, about) }
    }
}

impl Deref for Term {
    type Target = belief::Term;

    fn deref(&self) -> &belief::Term {
        &self.of
    }
}
