//! Where reader threads wait while another process takes over: who reads a request then leaves it to the kernel, which
//! gives it to the next one. Costs a reader two stores to memory of its own for each request.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether requests are served.
#[derive(Default)]
pub struct Parking {
    closed: AtomicBool,
    busy: Mutex<Vec<Arc<AtomicBool>>>,
    wake: Condvar,
}

/// A reader thread's place.
pub(super) struct Place {
    parking: Arc<Parking>,
    busy: Arc<AtomicBool>,
}

/// A request being served.
pub(super) struct Inside<'a>(&'a AtomicBool);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Parking {
    /// A place for one more reader.
    pub(super) fn place(self: &Arc<Parking>) -> Place {
        let busy = Arc::<AtomicBool>::default();
        self.busy.lock().push(Arc::clone(&busy));
        Place { parking: Arc::clone(self), busy }
    }

    /// From now on no request is begun.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Requests are served again.
    pub fn open(&self) {
        let _list = self.busy.lock();
        self.closed.store(false, Ordering::SeqCst);
        self.wake.notify_all();
    }

    /// Whether no reader serves a request just now.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.busy.lock().iter().all(|busy| !busy.load(Ordering::SeqCst))
    }
}

impl Place {
    /// To be called with each request that was read; `None`: it is not to be served.
    pub fn enter(&self) -> Option<Inside<'_>> {
        // Said first, asked then: whoever closes and then looks sees it, or it is seen here that it is closed.
        self.busy.store(true, Ordering::SeqCst);
        let inside = Inside(&self.busy);
        (!self.parking.closed.load(Ordering::SeqCst)).then_some(inside)
    }

    /// Waits until requests are served again.
    pub fn wait(&self) {
        let mut list = self.parking.busy.lock();
        while self.parking.closed.load(Ordering::SeqCst) {
            self.parking.wake.wait(&mut list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_it_is_closed_waits() {
        let parking = Arc::new(Parking::default());
        let place = parking.place();
        let inside = place.enter().unwrap();
        parking.close();
        assert!(!parking.is_quiet(), "one was begun before");
        drop(inside);
        assert!(parking.is_quiet() && place.enter().is_none() && parking.is_quiet());
        let waits = std::thread::spawn(move || {
            place.wait();
            place.enter().is_some()
        });
        parking.open();
        assert!(waits.join().unwrap());
    }
}
