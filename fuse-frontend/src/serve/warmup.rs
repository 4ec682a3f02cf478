//! What a mount answers when it is asked to warm up a file: `INODE LETTER`, where f fills, c looks and e takes out.

use serde_json::json;
use zest_types::Ino;
use zest_vfs::Mount;
use zest_vfs::warmup::Warm;

/// Does it, and answers what there is, as JSON.
pub(super) fn answer(mount: &Mount, question: &str) -> String {
    let failed = |why: &str| json!({ "error": why }).to_string();
    let Some((ino, what)) = question.split_once(' ') else { return failed("that names no node") };
    let what = match what {
        "f" => Warm::Fill,
        "c" => Warm::Check,
        "e" => Warm::Evict,
        _ => return failed("this mount can't do that: mount again with this version"),
    };
    let Ok(ino) = ino.parse().map(Ino) else { return failed("that names no node") };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return failed("the process has no room for an answer");
    };
    match runtime.block_on(mount.vfs.warm(ino, what)) {
        Ok(sum) => json!({
            "bytes": sum.bytes, "cached": sum.cached, "fetched": sum.fetched, "evicted": sum.evicted,
            "failed": sum.failed,
        })
        .to_string(),
        Err(errno) => failed(errno.text()),
    }
}
