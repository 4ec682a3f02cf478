//! One incarnation of the client: how many effects it has had on the outside, and the effect at which it dies.
//! From then on nothing it asked for is ever answered, as when the power is cut.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An incarnation. Effects are counted over all devices.
pub struct Life {
    effects: AtomicU64,
    dies_at: Option<u64>,
    dead: AtomicBool,
    last_words: Mutex<Option<(&'static str, &'static str)>>,
}

impl Life {
    /// An incarnation that dies at its `dies_at`th effect, or not by itself.
    #[must_use]
    pub fn new(dies_at: Option<u64>) -> Life {
        Life {
            effects: AtomicU64::new(0),
            dies_at,
            dead: AtomicBool::new(false),
            last_words: Mutex::new(None),
        }
    }

    /// Counts an effect about to happen. False when the client is dead, or dies here.
    pub fn effect(&self, device: &'static str, kind: &'static str) -> bool {
        if self.is_dead() {
            return false;
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

    /// Effects so far.
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
