//! A word with the process that serves a mount. It listens under names that only live as long as it does (abstract
//! sockets): one for the mount, one for the volume's directory. `wait` is answered when everything is flushed and
//! the mount is over, `who` and `status` at once. Any user of the machine may ask, also for a
//! `clone`, which copies within the mount with the rights of whoever asks; nothing else changes anything. `info`,
//! which names what the volume's directories hold, is answered to root and to the mount's owner only.

use parking_lot::Mutex;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a question may take to arrive, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long one may wait for the end before it counts as slow.
const LONG: Duration = Duration::from_secs(5);
/// How many may wait for the end at once.
const WAITERS: usize = 64;
/// How many may ask about nodes at once.
const LOOKING: usize = 8;
/// Bytes of a question: a name may be in it, two letters for each byte.
const QUESTION: u64 = 1024;
/// What the answer to `wait` begins with when all went well.
const DONE: &str = "done";

/// Name of the process that serves the mount on this device (`major:minor`).
#[must_use]
pub fn mount_name(device: &str) -> String {
    format!("zest/mount/{device}")
}

/// Name of the process that uses the volume with this directory of records.
pub fn volume_name(meta: &Path) -> io::Result<String> {
    let meta = std::fs::metadata(meta)?;
    Ok(format!("zest/volume/{}:{}", meta.dev(), meta.ino()))
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// What a process can say about itself.
pub trait Serving: Send + Sync + 'static {
    /// One line: who serves what where.
    fn who(&self) -> String;
    /// What `zest status` prints.
    fn status(&self) -> String;
    /// How the metadata server answered this mount, as JSON with the volume's UUID.
    fn health(&self) -> String;
    /// What `zest info` prints of a node, as JSON; the question is its number and letters. May take long.
    fn info(&self, question: &str) -> String;
    /// What `zest clone` prints, as JSON, after it was done for this user and group. May take long.
    fn copy(&self, question: &str, asker: (u32, u32)) -> String;
    /// What waits on a local disk, as JSON; empty where nothing does.
    fn staged(&self) -> String;
    /// Has everything stored, of a node where its number is not 0; then JSON. May take long.
    fn flush(&self, question: &str) -> String;
    /// Does with the cached blocks of a file what `zest warmup` asks, and answers as JSON. May take long.
    fn warm(&self, question: &str) -> String;
}

/// Answers while the process serves.
pub struct Listener {
    waiting: Arc<Mutex<Vec<UnixStream>>>,
    /// Names, until they are given back.
    names: Mutex<Vec<String>>,
    closing: Arc<AtomicBool>,
}

/// Takes a name. The process that had the same device, or the volume, before may be just about to give it back.
pub(crate) fn bind(name: &str) -> io::Result<UnixListener> {
    let address = address(name)?;
    let end = Instant::now() + PATIENCE;
    loop {
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            outcome => return outcome,
        }
    }
}

impl Listener {
    /// Listens under these names. A name that is taken is left out: then nobody can wait for this process there.
    #[must_use]
    pub fn start(names: &[String], serving: Arc<dyn Serving>) -> Listener {
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let closing = Arc::new(AtomicBool::new(false));
        for name in names {
            let started = bind(name).and_then(|socket| {
                let (waiting, serving) = (Arc::clone(&waiting), Arc::clone(&serving));
                let closing = Arc::clone(&closing);
                std::thread::Builder::new().name("zest-control".into()).spawn(move || {
                    for stream in socket.incoming().flatten() {
                        if closing.load(Ordering::Acquire) {
                            return;
                        }
                        // A stranger's mistake is his own.
                        let _ = answer(stream, &waiting, &serving);
                    }
                })
            });
            if let Err(error) = started {
                tracing::warn!("zest umount can't wait for this process: {name}: {error}");
            }
        }
        Listener { waiting, names: Mutex::new(names.to_vec()), closing }
    }

    /// Gives the names back: others may need them while this process still writes. Those who wait go on waiting.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        for name in self.names.lock().drain(..) {
            // Wakes the thread that listens there.
            let _ = address(&name).and_then(|address| UnixStream::connect_addr(&address));
        }
    }

    /// Tells all who wait that it is over, and how it went. They wait on until this process is gone, and with it
    /// everything it held.
    pub fn finish(&self, outcome: &Result<(), String>) {
        let text = match outcome {
            Ok(()) => DONE.to_owned(),
            Err(why) => why.clone(),
        };
        for mut stream in self.waiting.lock().iter() {
            let _ = writeln!(stream, "{text}");
        }
    }
}

/// Answers aside, since a large directory takes long and others must not wait for it.
fn aside(mut stream: UnixStream, answer: impl FnOnce() -> String + Send + 'static) -> io::Result<()> {
    static BUSY: AtomicUsize = AtomicUsize::new(0);
    if BUSY.fetch_add(1, Ordering::AcqRel) >= LOOKING {
        BUSY.fetch_sub(1, Ordering::AcqRel);
        return writeln!(stream, "{{\"error\":\"too many ask at once: try again\"}}");
    }
    let started = std::thread::Builder::new().name("zest-info".into()).spawn(move || {
        let _ = writeln!(stream, "{}", answer());
        BUSY.fetch_sub(1, Ordering::AcqRel);
    });
    started.map(drop).inspect_err(|_| {
        BUSY.fetch_sub(1, Ordering::AcqRel);
    })
}

/// Whether root or the owner of this process asks.
pub(crate) fn trusted(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|asker| may_look(asker.uid, rustix::process::geteuid()))
}

fn may_look(asker: rustix::process::Uid, owner: rustix::process::Uid) -> bool {
    asker.is_root() || asker == owner
}

fn answer(
    stream: UnixStream,
    waiting: &Mutex<Vec<UnixStream>>,
    serving: &Arc<dyn Serving>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new((&stream).take(QUESTION)).read_line(&mut question)?;
    match question.trim_end() {
        "who" => writeln!(&stream, "{}", serving.who()),
        "status" => writeln!(&stream, "{}", serving.status()),
        "health" => writeln!(&stream, "{}", serving.health()),
        "staged" => writeln!(&stream, "{}", serving.staged()),
        "wait" => {
            let mut waiting = waiting.lock();
            if waiting.len() < WAITERS {
                writeln!(&stream, "waiting")?;
                waiting.push(stream);
            }
            Ok(())
        }
        other => {
            let Some((what, question)) = other.split_once(' ') else { return Ok(()) };
            let (serving, question) = (Arc::clone(serving), question.to_owned());
            match what {
                "info" if !trusted(&stream) => {
                    writeln!(
                        &stream,
                        "{{\"error\":\"only root and the owner of the mount may ask for this\"}}"
                    )
                }
                "info" => aside(stream, move || serving.info(&question)),
                "flush" => aside(stream, move || serving.flush(&question)),
                "clone" => {
                    let asker = rustix::net::sockopt::socket_peercred(&stream)?;
                    let asker = (asker.uid.as_raw(), asker.gid.as_raw());
                    aside(stream, move || serving.copy(&question, asker))
                }
                "warmup" if !trusted(&stream) => {
                    writeln!(
                        &stream,
                        "{{\"error\":\"only root and the owner of the mount may ask for this\"}}"
                    )
                }
                "warmup" => aside(stream, move || serving.warm(&question)),
                _ => Ok(()),
            }
        }
    }
}

fn connect(name: &str, question: &str) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address(name)?)?;
    writeln!(&stream, "{question}")?;
    Ok(stream)
}

/// Asks `who` or `status`; `None` when nobody is there.
#[must_use]
pub fn ask(name: &str, question: &str) -> Option<String> {
    ask_within(name, question, Some(ANSWER))
}

/// Asks what may take long.
#[must_use]
pub fn ask_patiently(name: &str, question: &str) -> Option<String> {
    ask_within(name, question, None)
}

fn ask_within(name: &str, question: &str, limit: Option<Duration>) -> Option<String> {
    let mut stream = connect(name, question).ok()?;
    stream.set_read_timeout(limit).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Waiting for a process to finish.
pub struct Wait(BufReader<UnixStream>);

impl Wait {
    /// Begins to wait; `None` when nobody is there. Must come before whatever makes the process end.
    #[must_use]
    pub fn begin(name: &str) -> Option<Wait> {
        let mut stream = BufReader::new(connect(name, "wait").ok()?);
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        (line.trim_end() == "waiting").then_some(Wait(stream))
    }

    /// Waits for the end; calls `slow` once if that takes long. The error says how it went wrong.
    pub fn end(mut self, slow: impl FnOnce()) -> Result<(), String> {
        let mut text = String::new();
        let mut read =
            self.0.get_ref().set_read_timeout(Some(LONG)).and_then(|()| self.0.read_to_string(&mut text));
        if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            slow();
            read = self.0.get_ref().set_read_timeout(None).and_then(|()| self.0.read_to_string(&mut text));
        }
        match read {
            Ok(_) if text.trim_end() == DONE => Ok(()),
            Ok(0) | Err(_) => Err("the process that served it ended without a word: see its log".into()),
            Ok(_) => Err(text.trim_end().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Me;

    impl Serving for Me {
        fn who(&self) -> String {
            "me".into()
        }

        fn status(&self) -> String {
            "{}".into()
        }

        fn health(&self) -> String {
            "well".into()
        }

        fn info(&self, question: &str) -> String {
            format!("about {question}")
        }

        fn copy(&self, question: &str, (uid, _): (u32, u32)) -> String {
            format!("{question} for {}", uid == rustix::process::getuid().as_raw())
        }

        fn staged(&self) -> String {
            String::new()
        }

        fn flush(&self, question: &str) -> String {
            format!("flushed {question}")
        }

        fn warm(&self, question: &str) -> String {
            format!("warm {question}")
        }
    }

    #[test]
    fn questions_are_answered_and_the_end_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let name = volume_name(temp.path()).unwrap();
        assert_eq!(ask(&name, "who"), None);
        let listener = Listener::start(std::slice::from_ref(&name), Arc::new(Me));
        assert_eq!(ask(&name, "who").as_deref(), Some("me"));
        assert_eq!(ask(&name, "status").as_deref(), Some("{}"));
        assert_eq!(ask(&name, "health").as_deref(), Some("well"));
        assert_eq!(
            ask_patiently(&name, "info 18446744073709551615 rs").as_deref(),
            Some("about 18446744073709551615 rs")
        );
        assert_eq!(ask_patiently(&name, "clone 1 2").as_deref(), Some("1 2 for true"));
        assert_eq!(ask_patiently(&name, "warmup 7 f").as_deref(), Some("warm 7 f"));
        assert_eq!(ask(&name, "nonsense"), None);
        assert_eq!(ask(&name, "nonsense 1"), None);
        let wait = Wait::begin(&name).unwrap();
        listener.close();
        until_free(&name);
        listener.finish(&Ok(()));
        drop(listener);
        wait.end(|| ()).unwrap();
        let listener = Listener::start(std::slice::from_ref(&name), Arc::new(Me));
        let wait = Wait::begin(&name).unwrap();
        listener.finish(&Err("the disk is full".into()));
        listener.close();
        until_free(&name);
        drop(listener);
        assert_eq!(wait.end(|| ()).unwrap_err(), "the disk is full");
    }

    #[test]
    fn strangers_are_not_told_what_directories_hold() {
        let user = rustix::process::Uid::from_raw;
        assert!(may_look(user(0), user(7)) && may_look(user(7), user(7)));
        assert!(!may_look(user(8), user(7)) && !may_look(user(7), user(0)));
    }

    fn until_free(name: &str) {
        while ask(name, "who").is_some() {
            std::thread::yield_now();
        }
    }
}
