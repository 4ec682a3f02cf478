//! What the kernel shows of a thread that waits for us: whether it is being killed. The number of a thread of another
//! process namespace is 0, and nothing is known of it.

use std::fs;

/// `PF_EXITING` and `PF_SIGNALED`: on its way out because of a signal.
const KILLED: u64 = 0x4 | 0x400;
/// `SIGKILL` in a mask of signals. The kernel gives it to every thread of a process that any signal ends.
const KILL: u64 = 1 << 8;

/// Whether a signal that can't be handled waits for this thread.
pub(super) fn is_dying(thread: u32) -> bool {
    thread != 0 && fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|text| has_kill(&text))
}

/// Whether this thread is ending because of a signal, and now gives back what it had.
pub(super) fn was_killed(thread: u32) -> bool {
    thread != 0
        && fs::read_to_string(format!("/proc/{thread}/stat")).is_ok_and(|text| has_flags(&text, KILLED))
}

fn has_kill(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).is_some_and(|mask| mask & KILL != 0)
}

/// The flags are the seventh word behind the name, which ends with the last bracket.
fn has_flags(stat: &str, flags: u64) -> bool {
    let behind = stat.rsplit_once(')').map(|(_, behind)| behind).unwrap_or_default();
    let word = behind.split_whitespace().nth(6).and_then(|word| word.parse::<u64>().ok());
    word.is_some_and(|word| word & flags == flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pending_kill_is_death() {
        assert!(has_kill("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(!has_kill("Name:\tx\nSigPnd:\t0000000000000200\nShdPnd:\t0000000000000100\n"));
        assert!(!has_kill("") && !has_kill("SigPnd:\tx"));
        assert!(!is_dying(std::process::id()) && !is_dying(0));
    }

    #[test]
    fn only_who_was_killed_and_is_leaving_was_killed() {
        let stat = |flags: u64| format!("7 (a) (b) x) S 1 7 7 0 -1 {flags} 100 0 0");
        assert!(has_flags(&stat(0x40_0404), KILLED));
        assert!(!has_flags(&stat(0x40_0004), KILLED), "an exit of its own");
        assert!(!has_flags(&stat(0x40_0400), KILLED) && !has_flags("", KILLED));
        assert!(!was_killed(std::process::id()) && !was_killed(0));
    }
}
