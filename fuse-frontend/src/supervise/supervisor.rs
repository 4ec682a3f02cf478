//! The supervisor: it has nothing to do but to hold what a worker had, and to start the next one. It looks at no
//! request and opens no volume, so that little can end it.

use super::keep::Keep;
use super::note::Note;
use super::pace::Pace;
use super::request::{Asked, listen};
use super::start::Launch;
use super::wire::{Kind, Socket, Word};
use crate::mount_point::leave;
use crate::native::is_cut;
use anyhow::{Context, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How a program ends after a panic.
const PANICKED: i32 = 101;

/// What is heard of.
pub(super) enum Event {
    /// A signal to end.
    Signal(i32),
    /// A word of the worker with this number.
    Said(u32, Word),
    /// The worker is gone.
    Gone(io::Result<ExitStatus>),
    /// Somebody asks for another program.
    Asked(Box<Asked>),
}

/// The mount, as far as a supervisor has it.
struct Held {
    note: Note,
    fds: Vec<OwnedFd>,
}

/// The worker of the moment.
struct Worker {
    number: u32,
    pidfd: OwnedFd,
    socket: Arc<Socket>,
    since: Instant,
    /// It has the mount.
    serves: bool,
    /// It is ending the mount.
    ending: bool,
    /// It was told to end the mount.
    signalled: bool,
    /// It has written everything and leaves the mount to the next one.
    handed_over: bool,
}

/// Another program that was asked for, and the one there was before.
struct Change {
    asked: Box<Asked>,
    before: Option<Launch>,
}

/// See the module.
pub(super) struct Supervisor {
    launch: Launch,
    log: Option<File>,
    keep: Keep,
    held: Option<Held>,
    pace: Pace,
    begun: Instant,
    workers: u32,
    change: Option<Change>,
    events: Sender<Event>,
    heard: Receiver<Event>,
    listening: bool,
    /// The mount could be used once.
    was_ready: bool,
}

impl Supervisor {
    pub(super) fn begin(launch: Launch, log: Option<File>) -> anyhow::Result<Supervisor> {
        let (events, heard) = mpsc::channel();
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let tell = events.clone();
        std::thread::Builder::new().name("zest-signals".into()).spawn(move || {
            for signal in signals.forever() {
                let _ = tell.send(Event::Signal(signal));
            }
        })?;
        Ok(Supervisor {
            launch,
            log,
            keep: Keep::new()?,
            held: None,
            pace: Pace::default(),
            begun: Instant::now(),
            workers: 0,
            change: None,
            events,
            heard,
            listening: false,
            was_ready: false,
        })
    }

    pub(super) fn run(mut self) -> anyhow::Result<ExitCode> {
        let mut worker = self.start().context("the process that serves the mount can't be started")?;
        loop {
            match self.heard.recv()? {
                Event::Signal(signal) => {
                    worker.signalled = true;
                    pass_on(&worker, signal);
                }
                Event::Said(number, word) if number == worker.number => self.said(&mut worker, word),
                Event::Said(..) => {}
                Event::Asked(asked) => self.asked(&worker, asked),
                Event::Gone(status) => match self.gone(&worker, status?)? {
                    Some(code) => return Ok(code),
                    None => worker = self.start_again()?,
                },
            }
        }
    }

    fn start(&mut self) -> io::Result<Worker> {
        let point = self.held.as_ref().map(|held| held.note.point.as_path());
        let (mut child, socket) = self.launch.start(point)?;
        self.workers += 1;
        let number = self.workers;
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        let mut fds = self.keep.fds().to_vec();
        let told = match &self.held {
            Some(held) => {
                fds.extend(held.fds.iter().map(AsFd::as_fd));
                socket.say(Kind::GoOn, &serde_json::to_vec(&held.note)?, &fds)
            }
            None => socket.say(Kind::Begin, b"", &fds),
        };
        // One that ended at once is heard of below.
        drop(told);
        let socket = Arc::new(socket);
        let (ears, events) = (Arc::clone(&socket), self.events.clone());
        std::thread::Builder::new().name("zest-worker".into()).spawn(move || {
            while let Ok(Some(word)) = ears.hear() {
                let _ = events.send(Event::Said(number, word));
            }
            let _ = events.send(Event::Gone(child.wait()));
        })?;
        let since = Instant::now();
        Ok(Worker {
            number,
            pidfd,
            socket,
            since,
            serves: false,
            ending: false,
            signalled: false,
            handed_over: false,
        })
    }

    fn said(&mut self, worker: &mut Worker, word: Word) {
        match word.kind {
            Kind::Serving => match serde_json::from_slice::<Note>(&word.bytes) {
                Ok(note) => {
                    worker.serves = true;
                    if !std::mem::replace(&mut self.listening, true) {
                        listen(&note.device, self.events.clone());
                    }
                    self.held = Some(Held { note, fds: word.fds });
                }
                Err(error) => tracing::error!("the worker's note can't be read: {error}"),
            },
            Kind::Ready => self.ready(worker),
            Kind::Ending => {
                worker.ending = true;
                // Whoever waits for the worker's end shall find the volume free.
                if let Some(held) = &mut self.held {
                    held.fds.truncate(held.note.devices);
                }
            }
            Kind::HandedOver => worker.handed_over = true,
            Kind::Refused => {
                if let Some(change) = self.change.take() {
                    change.asked.refuse(&String::from_utf8_lossy(&word.bytes));
                }
            }
            Kind::Begin | Kind::GoOn | Kind::HandOver => {}
        }
    }

    /// The mount can be used.
    fn ready(&mut self, worker: &Worker) {
        self.was_ready = true;
        if let Some(log) = self.log.take()
            && let Err(error) = settle_in_background(&log)
        {
            tracing::warn!("the terminal is not let go of: {error}");
        }
        if let Some(change) = self.change.take_if(|change| change.before.is_some()) {
            tracing::info!("another program serves the mount now");
            change.asked.done();
        } else if worker.number > 1 {
            let after = worker.since.elapsed().as_millis();
            tracing::warn!("the mount goes on with another process, {after} ms after that was started");
        }
    }

    /// Somebody wants another program to go on with the mount.
    fn asked(&mut self, worker: &Worker, asked: Box<Asked>) {
        let Some(held) = self.held.as_ref().filter(|_| worker.serves && !worker.ending) else {
            return asked.refuse("the mount begins or ends just now");
        };
        if self.change.is_some() {
            return asked.refuse("another program is taking it over already");
        }
        if let Some(why) = held.note.fixed.against(asked.fixed()) {
            return asked.refuse(&format!("{why} needs a new mount"));
        }
        if let Err(error) = worker.socket.say(Kind::HandOver, b"", &[]) {
            return asked.refuse(&format!("the process that serves it does not listen: {error}"));
        }
        self.change = Some(Change { asked, before: None });
    }

    /// What follows from a worker's end: an exit status, or another worker.
    fn gone(&mut self, worker: &Worker, status: ExitStatus) -> anyhow::Result<Option<ExitCode>> {
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        let crashed = status.signal().is_some() || status.code() == Some(PANICKED);
        let Some(held) = &self.held else { return Ok(Some(exit_code(code))) };
        if worker.handed_over {
            if let Some(change) = &mut self.change {
                let next = change.asked.launch();
                change.before = Some(std::mem::replace(&mut self.launch, next));
            }
            return Ok(None);
        }
        let by_itself = worker.serves && !crashed;
        if by_itself || worker.ending || held.fds.first().is_none_or(is_cut) {
            if crashed {
                bail!(
                    "the process that served {} died ({status}) at its end: what no fsync confirmed may be missing",
                    held.note.point.display()
                );
            }
            return Ok(Some(exit_code(code)));
        }
        tracing::error!("the process that served {} ended: {status}", held.note.point.display());
        self.go_back();
        if worker.signalled {
            // It did not serve yet, or it would have ended the mount itself.
            return self.give_up("it was told to end");
        }
        if !self.was_ready {
            return self.give_up("it died before the mount could be used");
        }
        let served = if worker.serves { worker.since.elapsed() } else { Duration::ZERO };
        match self.pace.died(self.begun.elapsed(), served) {
            Some(pause) => self.rest(pause),
            None => self.give_up("it died too often"),
        }
    }

    /// Another program that was asked for can't serve: the one before shall.
    fn go_back(&mut self) {
        let Some(change) = self.change.take() else { return };
        if let Some(before) = change.before {
            self.launch = before;
        }
        change
            .asked
            .refuse("the program could not go on with the mount, and the one before does: see the log");
    }

    /// A pause; a signal in it ends the mount.
    fn rest(&mut self, pause: Duration) -> anyhow::Result<Option<ExitCode>> {
        let end = Instant::now() + pause;
        loop {
            match self.heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Signal(signal)) => return self.give_up(&format!("signal {signal} came")),
                Ok(Event::Asked(asked)) => asked.refuse("the mount begins just now"),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(error @ RecvTimeoutError::Disconnected) => return Err(error.into()),
            }
        }
    }

    fn start_again(&mut self) -> anyhow::Result<Worker> {
        loop {
            let error = match self.start() {
                Ok(worker) => return Ok(worker),
                Err(error) => error,
            };
            tracing::error!("the process that serves the mount can't be started again: {error}");
            self.go_back();
            match self.pace.died(self.begun.elapsed(), Duration::ZERO) {
                Some(pause) => drop(self.rest(pause)?),
                None => drop(self.give_up("no process can be started")?),
            }
        }
    }

    fn give_up(&self, why: &str) -> anyhow::Result<Option<ExitCode>> {
        if let Some(held) = &self.held {
            let point = held.note.point.display();
            if let Err(error) = leave(&held.note.point, true) {
                tracing::error!("{error}");
            }
            bail!(
                "{point} is unmounted, since nobody serves it any more ({why}): see the log, and mount it again"
            );
        }
        bail!("the mount is given up: {why}")
    }
}

fn exit_code(code: Option<u8>) -> ExitCode {
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

fn pass_on(worker: &Worker, signal: i32) {
    use rustix::process::{Signal, pidfd_send_signal};
    let signal = match signal {
        SIGINT => Signal::INT,
        SIGHUP => Signal::HUP,
        _ => Signal::TERM,
    };
    // One that is gone is heard of.
    let _ = pidfd_send_signal(&worker.pidfd, signal);
}

/// Lets go of the terminal and of the current directory.
fn settle_in_background(log: &File) -> io::Result<()> {
    crate::background::detach();
    std::env::set_current_dir("/")?;
    rustix::stdio::dup2_stdout(log)?;
    rustix::stdio::dup2_stderr(log)?;
    Ok(())
}
