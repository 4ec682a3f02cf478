//! A disk that fills up under the volume: errors, no hang, and what was synced before is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::{self, File};
use std::io::Write;

/// A small file system under `v`, gone when the test is over.
struct Small<'a>(&'a Place);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = self.0.command(&["umount", "--force", "m"]).output();
        let _ = rustix::mount::unmount(self.0.path("v"), UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT RUN: only root can mount a small file system to fill up");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("v")).unwrap();
    let size = c"size=24m";
    rustix::mount::mount("none", place.path("v"), "tmpfs", MountFlags::empty(), size).unwrap();
    let small = Small(&place);
    let root = place.mount();
    let mut kept = File::create(root.join("kept")).unwrap();
    kept.write_all(&[7; 1_000_000]).unwrap();
    kept.sync_all().unwrap();
    let outcome = File::create(root.join("large")).and_then(|mut file| {
        for _ in 0..64 {
            file.write_all(&[9; 1 << 20])?;
        }
        file.sync_all()
    });
    let error = outcome.expect_err("64 MiB do not fit into 24 MiB");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    drop(kept);
    // What could not be stored is lost, and whoever leaves is told.
    let left = place.zest(&["umount", "m"]);
    if left.code != 0 {
        assert!(left.err.contains("could be written"), "{}", left.err);
    }
    // The process may have given up, but nothing hangs and what was synced is there.
    let root = place.mount();
    assert_eq!(fs::read(root.join("kept")).unwrap(), [7; 1_000_000]);
    drop(small);
}
