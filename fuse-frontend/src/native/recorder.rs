//! Writes down what kernel and door say to each other, for tests that play it back. It stops at a bound, and a disk
//! that is full ends the recording, not the mount.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use zest_codec::record::{MAGIC, Way, append};

/// Bytes of a recording.
const MOST: usize = 256 << 20;

struct Open {
    file: File,
    written: usize,
    scratch: Vec<u8>,
}

/// A recording that goes on.
pub struct Recorder(Mutex<Option<Open>>);

impl Recorder {
    /// Begins a recording in a new file. It holds everything that is written to the mount: nobody else may read it.
    pub fn begin(path: &Path) -> io::Result<Recorder> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(MAGIC)?;
        Ok(Recorder(Mutex::new(Some(Open { file, written: MAGIC.len(), scratch: Vec::new() }))))
    }

    /// Writes down what went which way.
    pub(super) fn note(&self, way: Way, parts: &[&[u8]]) {
        let mut recording = self.0.lock();
        let Some(open) = recording.as_mut() else { return };
        open.scratch.clear();
        append(&mut open.scratch, way, parts);
        open.written += open.scratch.len();
        let fits = open.written <= MOST;
        let written =
            if fits { open.file.write_all(&open.scratch) } else { Err(io::ErrorKind::FileTooLarge.into()) };
        if let Err(error) = written {
            tracing::warn!("the recording of requests ends here: {error}");
            *recording = None;
        }
    }
}
