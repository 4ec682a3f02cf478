//! What is mounted where, as the kernel tells it in `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Major and minor number of its device, as `0:52`; no other mount has it at the same time.
    pub device: String,
    /// Where it is.
    pub point: PathBuf,
    /// Type of the file system, such as `fuse.zest`.
    pub kind: String,
    /// What is mounted.
    pub source: String,
}

impl MountEntry {
    /// Whether one of our mounts is there.
    #[must_use]
    pub fn is_zest(&self) -> bool {
        self.kind == "fuse.zest"
    }
}

/// The kernel writes blank, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> OsString {
    let (mut out, mut bytes) = (Vec::new(), text.as_bytes());
    while let Some((first, rest)) = bytes.split_first() {
        let code = match (first, rest) {
            (b'\\', [a, b, c, ..]) if [a, b, c].iter().all(|d| (b'0'..=b'7').contains(*d)) => {
                u8::try_from(u32::from(a - b'0') * 64 + u32::from(b - b'0') * 8 + u32::from(c - b'0')).ok()
            }
            _ => None,
        };
        out.push(code.unwrap_or(*first));
        bytes = if code.is_some() { rest.get(3..).unwrap_or_default() } else { rest };
    }
    OsString::from_vec(out)
}

fn parse_line(line: &str) -> Option<MountEntry> {
    // id parent major:minor root point options [fields…] - kind source options
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (device, _root, point) = (left.next()?, left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, source) = (right.next()?, right.next()?);
    Some(MountEntry {
        device: device.into(),
        point: unescape(point).into(),
        kind: kind.into(),
        source: unescape(source).to_string_lossy().into_owned(),
    })
}

/// All mounts of ours, as far as this process can see them.
pub fn ours() -> io::Result<Vec<MountEntry>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    let table = String::from_utf8_lossy(&table);
    Ok(table.lines().filter_map(parse_line).filter(MountEntry::is_zest).collect())
}

/// The topmost mount exactly at this path, which must be absolute and free of links.
pub fn mounted_at(point: &Path) -> io::Result<Option<MountEntry>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    let table = String::from_utf8_lossy(&table);
    Ok(table.lines().filter_map(parse_line).rfind(|entry| entry.point == point))
}

/// The path as the mount table would have it. Does not ask what is mounted at its end, which may be dead.
pub fn table_path(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        // The root, or a path that ends in `..`.
        _ => path.canonicalize(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = "36 35 0:52 / /mnt/a\\040b rw,nosuid shared:1 - fuse.zest ZestFS:vol rw,user_id=0";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry.point, Path::new("/mnt/a b"));
        assert_eq!((entry.device.as_str(), entry.source.as_str()), ("0:52", "ZestFS:vol"));
        assert!(entry.is_zest());
        assert_eq!(parse_line("36 35 0:52 / /mnt"), None);
        assert_eq!(unescape("a\\134\\0"), OsString::from("a\\\\0"));
    }

    #[test]
    fn something_is_mounted_at_the_root() {
        assert!(mounted_at(Path::new("/")).unwrap().is_some());
        assert_eq!(mounted_at(Path::new("/no/such/place")).unwrap(), None);
    }
}
