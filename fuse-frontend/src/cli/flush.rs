//! `zest flush [PATH]`: waits until what was written is in the object store, also what is staged on a local disk. Of a
//! file where one is named, else of its whole mount.

use crate::control;
use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// Arguments of `flush`.
#[derive(Args)]
pub(super) struct FlushArgs {
    /// A file, or a directory of the mount.
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
}

/// How often it is told what is left.
const NEWS: Duration = Duration::from_secs(5);

impl FlushArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let shown = self.path.display().to_string();
        let stat = std::fs::metadata(&self.path).with_context(|| shown.clone())?;
        let device = format!("{}:{}", rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
        let name = control::mount_name(&device);
        let ino = if stat.is_file() { stat.ino() } else { 0 };
        let (done, wait) = mpsc::channel();
        let asked = name.clone();
        std::thread::spawn(move || done.send(control::ask_patiently(&asked, &format!("flush {ino}"))));
        let answer = loop {
            match wait.recv_timeout(NEWS) {
                Err(mpsc::RecvTimeoutError::Timeout) => tell(&name),
                Ok(answer) => break answer,
                Err(mpsc::RecvTimeoutError::Disconnected) => break None,
            }
        };
        let answer =
            answer.ok_or_else(|| anyhow!("{shown} is in no mount of zest on this machine, or it ended"))?;
        let found: Value =
            serde_json::from_str(&answer).map_err(|_| anyhow!("the mount does not answer: see its log"))?;
        match found.get("error").and_then(Value::as_str) {
            Some(why) => Err(anyhow!("{shown}: {why}")),
            None => Ok(()),
        }
    }
}

fn tell(name: &str) {
    let Some(found) = control::ask(name, "staged").and_then(|text| serde_json::from_str::<Value>(&text).ok())
    else {
        return;
    };
    let number = |word: &str| found.pointer(&format!("/waiting/{word}")).and_then(Value::as_u64).unwrap_or(0);
    crate::log::tell(&format!("{} blocks with {} bytes wait", number("blocks"), number("bytes")));
}
