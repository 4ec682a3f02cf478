//! One incarnation of the client: how many effects it has had on the outside, and the effect at which it dies.
//! From then on nothing it asked for is ever answered, as when the power is cut.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An incarnation. Effects are counted over all devices.
pub struct Life {
    effects: AtomicU64,
    dies_at: Option<u64>,
    dies_in: String,
    dead: AtomicBool,
    last_words: Mutex<Option<(&'static str, &'static str)>>,
}

impl Life {
    /// An incarnation that dies at its `dies_at`th effect, or not by itself.
    #[must_use]
    pub fn new(dies_at: Option<u64>) -> Life {
        Life::in_device(dies_at, "")
    }

    /// An incarnation that dies at its `dies_at`th effect on one device; on any where the name is empty.
    #[must_use]
    pub fn in_device(dies_at: Option<u64>, dies_in: &str) -> Life {
        let (effects, dead, last_words) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None));
        Life { effects, dies_at, dies_in: dies_in.into(), dead, last_words }
    }

    /// Counts an effect about to happen. False when the client is dead, or dies here.
    pub fn effect(&self, device: &'static str, kind: &'static str) -> bool {
        if self.is_dead() {
            return false;
        }
        if !self.dies_in.is_empty() && self.dies_in != device {
            return true;
        }
        let number = self.effects.fetch_add(1, Ordering::Relaxed) + 1;
        if Some(number) == self.dies_at {
            self.dead.store(true, Ordering::Relaxed);
            *self.last_words.lock() = Some((device, kind));
            return false;
        }
        true
    }

    /// Ends the life here and now.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    /// Whether nothing is answered any more.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Effects so far, of those that are counted.
    #[must_use]
    pub fn effects(&self) -> u64 {
        self.effects.load(Ordering::Relaxed)
    }

    /// Device and kind of the effect at which the client died.
    #[must_use]
    pub fn last_words(&self) -> Option<(&'static str, &'static str)> {
        *self.last_words.lock()
    }
}

/// Waits for ever: what a dead client's request gets.
pub async fn silence<T>() -> T {
    std::future::pending().await
}
