//! Whoever works on the way back into a kernel: tasks in place of a door's threads. Each lets time pass before it does
//! what it took, as a thread does that waits for a processor.

use super::files::Files;
use crate::devices::{SimChance, SimClock};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use zest_types::{Ino, Name};
use zest_vfs::belief::{self, Backchannel, Post};
use zest_world::Clock;

/// How often it is looked whether the store still answers.
const TICK: Duration = Duration::from_millis(250);
/// How late a task may be, in microseconds.
const LATE: u64 = 4_000;
/// How many grant locks.
const LOCKS: usize = 2;

/// A kernel that is told to forget.
struct Told(Arc<Mutex<Files>>);

impl belief::Kernel for Told {
    fn forget_attr(&self, ino: Ino) {
        self.0.lock().forget_attr(ino);
    }

    fn forget_pages(&self, ino: Ino, _: u64, _: u64) {
        let mut files = self.0.lock();
        files.drop_pages(ino);
        files.forget_attr(ino);
    }

    fn forget_name(&self, _: Ino, _: &Name) {}
}

/// Starts the tasks; they end with their world.
pub fn staff(back: &Arc<Backchannel>, files: &Arc<Mutex<Files>>, clock: &Arc<SimClock>, seed: u64) {
    let bells = Arc::new([Notify::new(), Notify::new()]);
    let rings = bells.clone();
    back.open(move |post| bell_of(&rings, post).notify_waiters());
    let posts = [Post::Attrs, Post::Names].into_iter().chain([Post::Locks; LOCKS]);
    for (number, post) in posts.enumerate() {
        let chance = SimChance::new(seed.wrapping_add(number as u64), "kernel posts");
        tokio::task::spawn_local(man(
            back.clone(),
            Told(files.clone()),
            bells.clone(),
            post,
            clock.clone(),
            chance,
        ));
    }
}

fn bell_of(bells: &[Notify; 2], post: Post) -> &Notify {
    let [back, locks] = bells;
    if post == Post::Locks { locks } else { back }
}

async fn man(
    back: Arc<Backchannel>,
    kernel: Told,
    bells: Arc<[Notify; 2]>,
    post: Post,
    clock: Arc<SimClock>,
    chance: SimChance,
) {
    while !back.is_over(post) {
        let rung = bell_of(&bells, post).notified();
        while let Some(work) = back.next(post) {
            clock.sleep(Duration::from_micros(chance.below(LATE))).await;
            back.work_on(&kernel, work);
        }
        let _ticked = tokio::time::timeout(TICK, rung).await;
        if post == Post::Attrs {
            back.look();
        }
    }
}
