//! Who waits for a lock and is called away by a signal. `fuser` 0.18 does not pass the kernel's word about that on, so
//! that a process could not even be killed while it waits; its state, which the kernel shows to everybody, tells it,
//! too.

use std::time::Duration;
use zest_vfs::Vfs;

/// How often those who wait are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Looks after those who wait for locks, in a thread of its own, for as long as there is a mount.
pub fn watch(mount: impl Fn() -> Option<Vfs> + Send + 'static) -> std::io::Result<()> {
    let look = move || {
        while let Some(vfs) = mount() {
            let waiters = &vfs.shared().waiters;
            for thread in waiters.asleep() {
                let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
                if status.is_ok_and(|status| is_called(&status)) {
                    waiters.interrupt(thread);
                }
            }
            drop(vfs);
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("zest-waiters".into()).spawn(look).map(drop)
}

/// Whether a signal waits for this thread that it neither blocks nor ignores. One for the whole process counts only
/// for its first thread: another one may take it.
fn is_called(status: &str) -> bool {
    let word = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let mask = |name| word(name).and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let first = word("Tgid").map(str::trim) == word("Pid").map(str::trim);
    let pending = mask("SigPnd") | if first { mask("ShdPnd") } else { 0 };
    pending & !mask("SigBlk") & !mask("SigIgn") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pid: u32, own: u64, shared: u64, blocked: u64, ignored: u64) -> String {
        format!(
            "Name:\tx\nTgid:\t7\nNgid:\t0\nPid:\t{pid}\nSigQ:\t0/1\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\n"
        )
    }

    #[test]
    fn only_signals_that_would_be_taken_call() {
        const KILL: u64 = 1 << 8;
        const USR1: u64 = 1 << 9;
        assert!(!is_called(&status(7, 0, 0, 0, 0)) && !is_called("") && !is_called("SigPnd:\tx"));
        assert!(is_called(&status(7, KILL, 0, 0, 0)) && is_called(&status(8, KILL, 0, 0, 0)));
        assert!(is_called(&status(7, 0, USR1, 0, 0)) && !is_called(&status(8, 0, USR1, 0, 0)));
        assert!(!is_called(&status(7, USR1, 0, USR1, 0)) && !is_called(&status(7, USR1, 0, 0, USR1)));
    }
}
