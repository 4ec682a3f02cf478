//! Word for a request that waits: whoever asked was called away by a signal, or is dying and will never hear the
//! answer. What a request does about it is decided where it is run.

use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;

/// How urgently somebody is called away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Call {
    /// A signal waits for him, which he may handle.
    Signal = 1,
    /// He is dying.
    Gone = 2,
}

/// The way to one waiting request.
#[derive(Default)]
pub struct Interrupt {
    level: AtomicU8,
    told: Notify,
}

impl Interrupt {
    /// Tells the request. Telling less than was told before changes nothing.
    pub fn call(&self, call: Call) {
        self.level.fetch_max(call as u8, Ordering::AcqRel);
        self.told.notify_waiters();
    }

    /// Whether this much was told.
    #[must_use]
    pub fn heard(&self, call: Call) -> bool {
        self.level.load(Ordering::Acquire) >= call as u8
    }

    /// Waits until this much was told, be it before.
    pub async fn called(&self, call: Call) {
        loop {
            // From here on no word is missed.
            let told = self.told.notified();
            if self.heard(call) {
                return;
            }
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_word_is_heard_before_and_after_and_more_counts_as_less() {
        let interrupt = Interrupt::default();
        let mut waits = Box::pin(interrupt.called(Call::Gone));
        assert!(waits.as_mut().now_or_never().is_none());
        interrupt.call(Call::Signal);
        assert!(waits.as_mut().now_or_never().is_none(), "a signal is not death");
        assert!(interrupt.heard(Call::Signal) && !interrupt.heard(Call::Gone));
        assert!(interrupt.called(Call::Signal).now_or_never().is_some());
        interrupt.call(Call::Gone);
        interrupt.call(Call::Signal);
        assert!(waits.now_or_never().is_some());
        assert!(interrupt.called(Call::Gone).now_or_never().is_some());
    }
}
