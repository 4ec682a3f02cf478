//! Hears for a whole mount what others change, and passes it on in this order: views lose their leases, those who wait
//! for locks look again, numbers in stock go where the store may have forgotten them, and the door may take back what it told the
//! kernel. Decides nothing and never waits.

use crate::bells::Bells;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use zest_metadata::{Changed, Listener, Views};

/// What a mount listens with.
pub struct Ears {
    views: Arc<Views>,
    /// Wakes those who wait for locks.
    pub bells: Bells,
    door: OnceLock<Arc<dyn Listener>>,
    doubt: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Ears {
    /// Ears of a mount with these views.
    #[must_use]
    pub fn new(views: Arc<Views>) -> Ears {
        Ears { views, bells: Bells::default(), door: OnceLock::new(), doubt: OnceLock::new() }
    }

    /// To be called when nobody knows what became of the store. Only the first one is.
    pub fn in_doubt(&self, then: impl Fn() + Send + Sync + 'static) {
        let _first = self.doubt.set(Box::new(then));
    }

    /// From now on this listener hears, too, always after the views. Only the first one does.
    pub fn pass_on(&self, door: Arc<dyn Listener>) {
        let _first = self.door.set(door);
    }
}

impl Listener for Ears {
    fn changed(&self, what: &Changed) {
        self.views.changed(what);
        match what {
            Changed::Locks(ino) => self.bells.ring(*ino),
            Changed::Anything => {
                self.bells.ring_all();
                if let Some(doubt) = self.doubt.get() {
                    doubt();
                }
            }
            _ => {}
        }
        if let Some(door) = self.door.get() {
            door.changed(what);
        }
    }

    fn vouch(&self, until: Duration) {
        self.views.vouch(until);
        if let Some(door) = self.door.get() {
            door.vouch(until);
        }
    }
}
