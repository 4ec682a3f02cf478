//! Wakes those who wait for locks: one bell for each file somebody waits for, rung when its locks change, here or
//! elsewhere. Promises that whoever took a bell before it rang hears it. Knows no lock.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;
use zest_types::Ino;

/// The bells of a mount.
#[derive(Default)]
pub struct Bells(Mutex<BTreeMap<Ino, Weak<Notify>>>);

impl Bells {
    /// The bell of a file.
    #[must_use]
    pub fn of(&self, ino: Ino) -> Arc<Notify> {
        let mut bells = self.0.lock();
        if let Some(bell) = bells.get(&ino).and_then(Weak::upgrade) {
            return bell;
        }
        // As many as there are waiters, and those are bounded.
        bells.retain(|_, bell| bell.strong_count() > 0);
        let bell = Arc::new(Notify::new());
        bells.insert(ino, Arc::downgrade(&bell));
        bell
    }

    /// Locks of this file changed.
    pub fn ring(&self, ino: Ino) {
        let bell = self.0.lock().get(&ino).and_then(Weak::upgrade);
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    /// Any lock may have changed.
    pub fn ring_all(&self) {
        let all: Vec<Arc<Notify>> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|bell| bell.notify_waiters());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn who_took_a_bell_before_it_rang_hears_it() {
        let bells = Bells::default();
        let (seven, eight) = (bells.of(Ino(7)), bells.of(Ino(8)));
        let (first, other) = (seven.notified(), eight.notified());
        bells.ring(Ino(7));
        assert!(first.now_or_never().is_some() && other.now_or_never().is_none());
        let (late, other) = (seven.notified(), eight.notified());
        assert!(late.now_or_never().is_none(), "a ring is heard by those who waited already");
        bells.ring_all();
        assert!(other.now_or_never().is_some());
    }

    #[test]
    fn bells_nobody_waits_for_go() {
        let bells = Bells::default();
        for ino in 0..100 {
            drop(bells.of(Ino(ino)));
        }
        let kept = bells.of(Ino(1000));
        assert_eq!(bells.0.lock().len(), 1);
        assert!(Arc::ptr_eq(&kept, &bells.of(Ino(1000))));
    }
}
