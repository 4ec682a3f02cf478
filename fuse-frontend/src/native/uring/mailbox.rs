//! Answers on their way to the thread of a queue, from whichever thread has them. Nobody waits for a lock here, and the
//! thread is woken only if it sleeps. There are never more than the queue has places, since each waits for one answer.

use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use zest_codec::Answer;

/// The mailbox of one queue.
pub struct Mailbox {
    answers: SegQueue<(u32, Answer)>,
    asleep: AtomicBool,
    over: AtomicBool,
    bell: OwnedFd,
}

impl Mailbox {
    /// An empty one, whose owner is awake.
    pub fn new() -> io::Result<Mailbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (asleep, over) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Mailbox { answers: SegQueue::new(), asleep, over, bell })
    }

    /// Puts the answer for a place into it.
    pub fn put(&self, place: u32, answer: Answer) {
        self.answers.push((place, answer));
        // Either this sees that the owner sleeps, or he sees the answer before he does.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Takes the next one.
    pub fn take(&self) -> Option<(u32, Answer)> {
        self.answers.pop()
    }

    /// Whether there is one.
    pub fn holds_some(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The owner is about to sleep until the bell rings; false if there is something to do.
    pub fn sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let nothing = self.answers.is_empty() && !self.is_over();
        if !nothing {
            self.awake();
        }
        nothing
    }

    /// The owner is awake.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// The session is over.
    pub fn close(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Whether it is.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// What becomes readable when the bell rings.
    pub fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// The bell may ring again as if it never had.
    pub fn hush(&self) {
        let mut count = [0; 8];
        let _rang = rustix::io::read(&self.bell, &mut count);
    }

    fn ring(&self) {
        // It can only fail when it rang that often that it is heard anyway.
        let _full = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use zest_codec::refuse;

    fn rang(mailbox: &Mailbox) -> bool {
        let mut count = [0; 8];
        rustix::io::read(&mailbox.bell, &mut count).is_ok()
    }

    #[test]
    fn the_bell_rings_once_for_who_sleeps_and_never_for_who_is_awake() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.put(1, refuse(2, 5));
        assert!(!rang(&mailbox) && !mailbox.sleep(), "there is an answer");
        assert_eq!(mailbox.take(), Some((1, refuse(2, 5))));
        assert!(mailbox.sleep());
        mailbox.put(1, refuse(4, 5));
        mailbox.put(2, refuse(6, 5));
        assert!(rang(&mailbox) && !rang(&mailbox));
        mailbox.close();
        assert!(rang(&mailbox) && mailbox.is_over());
    }

    #[test]
    fn no_answer_is_slept_through() {
        const EACH: u32 = 20_000;
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let mailbox = Arc::clone(&mailbox);
                std::thread::spawn(move || (0..EACH).for_each(|n| mailbox.put(n, refuse(2, 5))))
            })
            .collect();
        let (mut taken, end) = (0, Instant::now() + Duration::from_secs(60));
        while taken < 3 * EACH {
            if mailbox.sleep() {
                while !rang(&mailbox) {
                    assert!(Instant::now() < end, "asleep with {taken} answers taken");
                    std::thread::yield_now();
                }
            }
            mailbox.awake();
            while mailbox.take().is_some() {
                taken += 1;
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!mailbox.holds_some());
    }
}
