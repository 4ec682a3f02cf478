//! The directory a volume is mounted on: whether it will do, and how to leave it.

use crate::mount_table::{MountEntry, mounted_at, table_path};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a directory can't be mounted on, or left. Each text names it and the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PointError {
    #[error("mount point {0} does not exist: make it with mkdir {0}")]
    Missing(String),
    #[error("mount point {0} is not a directory: name one")]
    NotDirectory(String),
    #[error("mount point {0} is not empty: choose an empty directory, or add -o nonempty")]
    NotEmpty(String),
    #[error(
        "{point} has {volume} mounted already: leave it with zest umount {point}, or choose another place"
    )]
    Mounted { point: String, volume: String },
    #[error("mount point {point} is around {inside}, which the volume needs: choose another directory")]
    Around { point: String, inside: String },
    #[error("mount point / would hide everything: choose an empty directory")]
    Root,
    #[error("{0} is not mounted: see what is with findmnt -t fuse.zest")]
    NotMounted(String),
    #[error(
        "{0} is in use: close what works in it (fuser -vm {0} shows what), or use zest umount --force {0}"
    )]
    Busy(String),
    #[error("{point}: {error}")]
    Io { point: String, error: io::Error },
    #[error("{point} can't be unmounted: {why}")]
    Helper { point: String, why: String },
}

fn text(point: &Path) -> String {
    point.display().to_string()
}

fn io_error(point: &Path, error: impl Into<io::Error>) -> PointError {
    PointError::Io { point: text(point), error: error.into() }
}

/// Finds a directory fit to be mounted on: there, empty (unless `nonempty`), no mount of ours, not around one of the
/// directories that serve it. A mount of ours whose process is dead is cleared away. `make` makes the directory where it is missing.
pub fn prepare(given: &Path, needed: &[PathBuf], nonempty: bool, make: bool) -> Result<PathBuf, PointError> {
    if make && !given.exists() && mounted_at_path(given).is_none() {
        std::fs::create_dir_all(given).map_err(|e| io_error(given, e))?;
    }
    if let Some(dead) = mounted_at_path(given).filter(MountEntry::is_zest) {
        match std::fs::symlink_metadata(&dead.point) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {
                tracing::warn!("clearing away a mount at {} whose process is dead", dead.point.display());
                leave(&dead.point, true)?;
            }
            _ => return Err(PointError::Mounted { point: text(given), volume: dead.source }),
        }
    }
    let point = match given.canonicalize() {
        Ok(point) => point,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(PointError::Missing(text(given)));
        }
        Err(error) => return Err(io_error(given, error)),
    };
    if point == Path::new("/") {
        return Err(PointError::Root);
    }
    if !point.is_dir() {
        return Err(PointError::NotDirectory(text(given)));
    }
    // Whoever serves a mount must not need it to do so.
    if let Some(inside) = needed.iter().find(|path| path.starts_with(&point)) {
        return Err(PointError::Around { point: text(given), inside: text(inside) });
    }
    let mut entries = std::fs::read_dir(&point).map_err(|e| io_error(given, e))?;
    if !nonempty && entries.next().is_some() {
        return Err(PointError::NotEmpty(text(given)));
    }
    Ok(point)
}

fn mounted_at_path(given: &Path) -> Option<MountEntry> {
    let direct = table_path(given).ok().and_then(|path| mounted_at(&path).ok().flatten());
    // The last part of the path may be a link to the mount point.
    direct.or_else(|| given.canonicalize().ok().and_then(|path| mounted_at(&path).ok().flatten()))
}

/// Our mount at this path.
pub fn find(given: &Path) -> Result<MountEntry, PointError> {
    mounted_at_path(given).filter(MountEntry::is_zest).ok_or_else(|| PointError::NotMounted(text(given)))
}

/// Unmounts. `lazy` takes the name away at once, and the rest when nobody uses it any more.
pub fn leave(point: &Path, lazy: bool) -> Result<(), PointError> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match unmount(point, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(PointError::Busy(text(point))),
        Err(Errno::PERM) => helper(point, lazy),
        Err(error) => Err(io_error(point, error)),
    }
}

/// The set-user-id helper of the system, for users who may not unmount themselves.
fn helper(point: &Path, lazy: bool) -> Result<(), PointError> {
    let failed = |why: String| PointError::Helper { point: text(point), why };
    let mut command = Command::new("fusermount3");
    command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(point).stdin(Stdio::null());
    let output =
        command.output().map_err(|e| failed(format!("fusermount3: {e}; install fuse3 or be root")))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(PointError::Busy(text(point))),
        false => Err(failed(said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(given: &Path, volume: &Path) -> String {
        prepare(given, &[volume.to_path_buf()], false, false).unwrap_err().to_string()
    }

    #[test]
    fn a_directory_that_will_not_do_is_named_with_the_remedy() {
        let temp = tempfile::tempdir().unwrap();
        let volume = temp.path().join("v");
        std::fs::create_dir(&volume).unwrap();
        std::fs::write(temp.path().join("file"), b"x").unwrap();
        assert!(refusal(&temp.path().join("no"), &volume).contains("mkdir"));
        assert!(refusal(&temp.path().join("file"), &volume).contains("is not a directory"));
        let full = temp.path().join("full");
        std::fs::create_dir_all(full.join("x")).unwrap();
        assert!(refusal(&full, &volume).contains("-o nonempty"));
        assert!(prepare(&full, std::slice::from_ref(&volume), true, false).is_ok());
        assert!(refusal(temp.path(), &volume).contains("is around"));
        assert!(refusal(Path::new("/"), &volume).contains("hide everything"));
        let new = temp.path().join("a/b");
        assert_eq!(prepare(&new, &[volume], false, true).unwrap(), new.canonicalize().unwrap());
        assert!(find(&new).unwrap_err().to_string().contains("is not mounted"));
    }
}
