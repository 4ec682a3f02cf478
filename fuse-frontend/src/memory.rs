//! How much memory a mount may take where nobody says so: half of what its control group may have, or a quarter of the
//! machine's, whichever is less.

use std::path::{Path, PathBuf};

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";
/// What can't be found out is taken to be this.
const UNKNOWN: u64 = 4 << 30;
/// More has no use.
const MOST: u64 = 4 << 30;
/// Less does not do.
pub const LEAST: u64 = 64 << 20;

/// Files in which the limits of a process stand that has this `/proc/PID/cgroup`: its own group's, and those above.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(kinds), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = match kinds {
            "" => (PathBuf::from(GROUPS), "memory.max"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => {
                (Path::new(GROUPS).join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let own = root.join(path.trim_start_matches('/'));
        let above = own.ancestors().take_while(|place| place.starts_with(&root));
        files.extend(above.map(|place| place.join(name)));
    }
    files
}

/// Bytes of the machine, out of `/proc/meminfo`.
fn machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn usual_of(read: impl Fn(&Path) -> Option<String>) -> u64 {
    let all = read(Path::new("/proc/meminfo")).and_then(|text| machine(&text)).unwrap_or(UNKNOWN);
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|file| read(&file)?.trim().parse::<u64>().ok());
    // A group without a limit says "max", or a number no machine has.
    let group = limits.filter(|limit| *limit < all).min();
    (all / 4).min(group.map_or(u64::MAX, |group| group / 2)).clamp(LEAST, MOST)
}

/// What a mount takes on this machine.
#[must_use]
pub fn usual() -> u64 {
    usual_of(|path| std::fs::read_to_string(path).ok())
}

/// Bytes this process has in memory now, and the most it had.
#[must_use]
pub fn resident() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Some((value("VmRSS:")?, value("VmHWM:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual_with(files: &[(&str, &str)]) -> u64 {
        usual_of(|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_tightest_limit_counts() {
        let machine = ("/proc/meminfo", "MemFree: 1 kB\nMemTotal:        4194304 kB\n");
        assert_eq!(usual_with(&[machine]), 1 << 30);
        let group = ("/proc/self/cgroup", "0::/a/b\n");
        assert_eq!(usual_with(&[machine, group, ("/sys/fs/cgroup/a/b/memory.max", "max\n")]), 1 << 30);
        let above = ("/sys/fs/cgroup/a/memory.max", "536870912\n");
        assert_eq!(usual_with(&[machine, group, above]), 256 << 20);
        let old = ("/proc/self/cgroup", "5:cpu:/\n4:cpuset,memory:/x\n");
        let limit = ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "268435456\n");
        assert_eq!(usual_with(&[machine, old, limit]), 128 << 20);
        let none = ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(usual_with(&[machine, old, none]), 1 << 30);
        assert_eq!(usual_with(&[machine, group, ("/sys/fs/cgroup/memory.max", "1000\n")]), LEAST);
        assert_eq!(usual_with(&[]), 1 << 30);
    }

    #[test]
    fn a_process_knows_its_size() {
        let (now, most) = resident().unwrap();
        assert!(now > 0 && most >= now);
    }
}
