//! Asking a supervisor to go on with another program, as `zest mount` over a mount does: over a socket with a name that
//! lives as long as the supervisor. Root and the owner of the mount may ask; whoever else asks is refused.

use super::note::Fixed;
use super::start::Launch;
use super::supervisor::Event;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;
use zest_types::limits;

/// How long a question may take to arrive.
const PATIENCE: Duration = Duration::from_secs(2);
const DONE: &str = "done";

#[derive(Serialize, Deserialize)]
struct Question {
    fixed: Fixed,
    program: PathBuf,
    arguments: Vec<OsString>,
    password: Option<OsString>,
    directory: PathBuf,
}

/// A question that was heard, with the way back.
pub(super) struct Asked {
    question: Question,
    program: File,
    stream: UnixStream,
}

impl Asked {
    pub fn fixed(&self) -> &Fixed {
        &self.question.fixed
    }

    /// How to start what is asked for.
    pub fn launch(&self) -> Launch {
        Launch {
            program: self.program.try_clone().ok(),
            arguments: self.question.arguments.clone(),
            password: self.question.password.clone(),
            directory: self.question.directory.clone(),
        }
    }

    /// Whoever asked may be gone by now.
    pub fn refuse(&self, why: &str) {
        let _ = writeln!(&self.stream, "{why}");
    }

    pub fn done(&self) {
        let _ = writeln!(&self.stream, "{DONE}");
    }
}

fn name(device: &str) -> String {
    format!("zest/supervisor/{device}")
}

/// Listens for questions about the mount with this device.
pub(super) fn listen(device: &str, events: Sender<Event>) {
    let cannot = |error: &io::Error| tracing::warn!("no other program can take over this mount: {error}");
    let name = name(device);
    let answer = move || {
        let socket = match crate::control::bind(&name) {
            Ok(socket) => socket,
            Err(error) => return cannot(&error),
        };
        for stream in socket.incoming().flatten() {
            // A stranger's mistake is his own.
            if let Ok(Some(asked)) = hear(stream)
                && events.send(Event::Asked(Box::new(asked))).is_err()
            {
                return;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("zest-questions".into()).spawn(answer) {
        cannot(&error);
    }
}

fn hear(stream: UnixStream) -> io::Result<Option<Asked>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if !crate::control::trusted(&stream) {
        writeln!(&stream, "only root and the owner of the mount may ask for this")?;
        return Ok(None);
    }
    let mut line = String::new();
    BufReader::new((&stream).take(limits::UPGRADE_BYTES)).read_line(&mut line)?;
    let question: Question = serde_json::from_str(&line)?;
    match File::open(&question.program) {
        Ok(program) => Ok(Some(Asked { question, program, stream })),
        Err(error) => {
            writeln!(&stream, "{} can't be opened: {error}", question.program.display())?;
            Ok(None)
        }
    }
}

/// Why a mount was not taken over.
#[derive(Debug)]
pub enum Refusal {
    /// It has no supervisor.
    Nobody,
    /// As said.
    Because(String),
}

/// Asks the supervisor of the mount with this device to go on with this program and these arguments. Comes back when
/// that was done, or refused.
pub fn upgrade(device: &str, fixed: Fixed, given: &[OsString]) -> Result<(), Refusal> {
    let failed = |error: io::Error| Refusal::Because(error.to_string());
    let stream = SocketAddr::from_abstract_name(name(device));
    let stream = stream.and_then(|address| UnixStream::connect_addr(&address));
    let Ok(mut stream) = stream else { return Err(Refusal::Nobody) };
    // Anybody may have taken the name, and a password is not for anybody.
    if !crate::control::trusted(&stream) {
        return Err(Refusal::Because("its supervisor belongs to somebody else".into()));
    }
    let (arguments, password) = crate::secret::for_child(given);
    let question = Question {
        fixed,
        program: std::env::current_exe().map_err(failed)?,
        arguments,
        password,
        directory: std::env::current_dir().map_err(failed)?,
    };
    let text = serde_json::to_string(&question).map_err(|error| failed(error.into()))?;
    writeln!(stream, "{text}").map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.trim_end() {
        DONE => Ok(()),
        "" => Err(Refusal::Because("its supervisor ended without a word: see its log".into())),
        why => Err(Refusal::Because(why.to_owned())),
    }
}
