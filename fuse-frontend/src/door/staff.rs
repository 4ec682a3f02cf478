//! Who works on the way back into the kernel: a thread for each post, four for locks.

use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use zest_vfs::belief::{Backchannel, Kernel, Post};

/// How often it is looked whether the store still answers, and whether something is due.
const TICK: Duration = Duration::from_millis(250);

const THREADS: [(&str, Post); 6] = [
    ("zest-attrs", Post::Attrs),
    ("zest-names", Post::Names),
    ("zest-locks-1", Post::Locks),
    ("zest-locks-2", Post::Locks),
    ("zest-locks-3", Post::Locks),
    ("zest-locks-4", Post::Locks),
];

/// Wakes threads; a ring between looking for work and falling asleep is heard.
#[derive(Default)]
struct Bell {
    rung: Mutex<u64>,
    wake: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock() += 1;
        self.wake.notify_all();
    }

    fn rung(&self) -> u64 {
        *self.rung.lock()
    }

    /// Waits until it rings again, or for a tick.
    fn wait(&self, heard: u64) {
        let mut rung = self.rung.lock();
        if *rung == heard {
            self.wake.wait_for(&mut rung, TICK);
        }
    }
}

/// Starts the threads.
///
/// # Errors
/// What the system says; none runs then.
pub fn staff(back: &Arc<Backchannel>, kernel: impl Kernel) -> io::Result<()> {
    let kernel = Arc::new(kernel);
    let bells = Arc::new([Bell::default(), Bell::default()]);
    let rings = Arc::clone(&bells);
    back.open(move |post| bell_of(&rings, post).ring());
    for (name, post) in THREADS {
        let (back, kernel, bells) = (Arc::clone(back), Arc::clone(&kernel), Arc::clone(&bells));
        let thread = std::thread::Builder::new().name(name.into());
        let run = {
            let back = Arc::clone(&back);
            move || run(&back, &*kernel, bell_of(&bells, post), post)
        };
        if let Err(error) = thread.spawn(run) {
            back.close();
            return Err(error);
        }
    }
    Ok(())
}

/// Locks have a bell of their own: nobody else is woken for them.
fn bell_of(bells: &[Bell; 2], post: Post) -> &Bell {
    let [back, locks] = bells;
    if post == Post::Locks { locks } else { back }
}

fn run(back: &Backchannel, kernel: &impl Kernel, bell: &Bell, post: Post) {
    loop {
        let heard = bell.rung();
        while let Some(work) = back.next(post) {
            back.work_on(kernel, work);
        }
        if back.is_over(post) {
            return;
        }
        bell.wait(heard);
        if post == Post::Attrs {
            back.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use zest_data::Budget;
    use zest_host::RealClock;
    use zest_metadata::{Changed, Listener};
    use zest_types::request::LockKind;
    use zest_types::{Ino, Name, Request, Response, limits};
    use zest_vfs::files::Files;
    use zest_world::Clock;

    struct Fake(mpsc::Sender<String>);

    impl Kernel for Fake {
        fn forget_attr(&self, ino: Ino) {
            let _ = self.0.send(format!("attr {ino}"));
        }
        fn forget_pages(&self, ino: Ino, offset: u64, len: u64) {
            let _ = self.0.send(format!("pages {ino} {offset} {len}"));
        }
        fn forget_name(&self, dir: Ino, name: &Name) {
            let _ = self.0.send(format!("name {dir} {name:?}"));
        }
    }

    struct Rig {
        way: Arc<Backchannel>,
        files: Arc<Files>,
        clock: Arc<dyn Clock>,
        events: mpsc::Sender<String>,
        heard: mpsc::Receiver<String>,
    }

    fn rig() -> Rig {
        let (events, heard) = mpsc::channel();
        let files = Arc::new(Files::new(64 << 10, Budget::new(limits::WRITE_BUDGET_MIN)));
        let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
        let way = Backchannel::new(Arc::clone(&files), Arc::clone(&clock), Duration::from_secs(48));
        Rig { way: Arc::new(way), files, clock, events, heard }
    }

    /// Somebody gets a lock on a file.
    fn granted(way: &Arc<Backchannel>, ino: Ino, answer: impl FnOnce() + Send + 'static) {
        let request = Request::Flock { ino, owner: 1, kind: LockKind::Write, wait: true };
        way.hold(&request).answer(Ok(Response::Done), move |_| answer());
    }

    #[test]
    fn a_lock_is_granted_after_the_kernel_forgot() {
        let Rig { way, events, heard, .. } = rig();
        let answer = |text: &str| {
            let (events, text) = (events.clone(), text.to_owned());
            move || drop(events.send(text))
        };
        granted(&way, Ino(1), answer("at once: there is no thread"));
        assert_eq!(heard.try_recv().unwrap(), "at once: there is no thread");
        staff(&way, Fake(events.clone())).unwrap();
        granted(&way, Ino(7), answer("granted"));
        assert_eq!([heard.recv().unwrap(), heard.recv().unwrap()], ["pages 7 0 0", "granted"]);
        way.close();
        granted(&way, Ino(8), answer("at once"));
        assert_eq!(heard.recv().unwrap(), "at once");
    }

    #[test]
    fn nothing_is_taken_back_of_a_file_after_its_lock_was_granted() {
        for round in 0..200 {
            let Rig { way, files, clock, events, heard } = rig();
            let _open = files.open(Ino(7)).unwrap();
            staff(&way, Fake(events.clone())).unwrap();
            way.vouch(Duration::MAX);
            assert!(way.told.attr(way.told.heard(), Ino(7), clock.mono()));
            for change in [Changed::Attr(Ino(7)), Changed::Chunk(Ino(7), 0), Changed::Attr(Ino(8))] {
                way.changed(&change);
            }
            let answer = events.clone();
            granted(&way, Ino(7), move || drop(answer.send("granted".into())));
            let before: Vec<String> = heard.iter().take_while(|event| event != "granted").collect();
            assert!(before.contains(&"pages 7 0 0".into()), "round {round}: {before:?}");
            granted(&way, Ino(7), move || drop(events.send("right as it is".into())));
            assert_eq!(heard.recv().unwrap(), "right as it is", "round {round}");
            way.close();
        }
    }

    #[test]
    fn what_others_change_is_taken_back_and_everything_when_the_store_is_silent() {
        let Rig { way, clock, events, heard, .. } = rig();
        staff(&way, Fake(events)).unwrap();
        way.vouch(Duration::MAX);
        let now = clock.mono();
        assert!(way.told.attr(way.told.heard(), Ino(7), now));
        way.changed(&Changed::Attr(Ino(7)));
        assert_eq!(heard.recv().unwrap(), "attr 7");
        assert!(way.told.attr(way.told.heard(), Ino(8), now));
        way.vouch(now);
        // "attr 7" may come once more: it may have been on its way.
        let silent = heard.iter().find(|event| event != "attr 7");
        assert_eq!(silent.as_deref(), Some("attr 8"));
        way.close();
    }
}
