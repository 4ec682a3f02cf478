//! What a mount does when somebody wants all, or one file, in the object store.

use serde_json::json;
use std::sync::mpsc;
use zest_types::{Caller, Ino, Request};
use zest_vfs::Vfs;

/// Stores what was written so far, then what is staged; of one node where the number is not 0. Blocks the thread.
pub(super) fn answer(vfs: &Vfs, question: &str) -> String {
    let failed = |why: &str| json!({ "error": why }).to_string();
    let Ok(ino) = question.parse::<u64>() else { return failed("that names no node") };
    let (done, wait) = mpsc::channel();
    vfs.serve(&Caller::SYSTEM, Request::SyncAll, move |result| {
        let _gone = done.send(result.map(drop));
    });
    match wait.recv() {
        Ok(Ok(())) => {}
        Ok(Err(errno)) => return failed(errno.text()),
        Err(_) => return failed("the mount ends"),
    }
    let Some(staging) = vfs.shared().staging.clone() else { return json!({}).to_string() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
        return failed("the process has no room for an answer");
    };
    runtime.block_on(staging.drain(Some(Ino(ino)).filter(|ino| ino.0 != 0)));
    let damaged = staging.stats().damaged.blocks;
    if damaged > 0 {
        return failed(&format!("{damaged} staged blocks in {} are damaged: see the log", staging.place()));
    }
    json!({}).to_string()
}
