//! Marks of coverage: what worlds reach. A mark is an event that an actor or a device tells of, a request with the way
//! it was answered, or a fault that struck. `marks.txt` lists those that sweeps must reach; a mark that is not in it is
//! news, and belongs there.

use crate::world::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use zest_types::{Errno, Request, ServeResult};

/// Marks that sweeps must reach, one in each line.
const WANTED: &str = include_str!("marks.txt");

/// How many worlds reached each mark.
#[derive(Debug, Default)]
pub struct Marks {
    worlds: BTreeMap<String, u64>,
}

impl Marks {
    /// Counts a world.
    pub fn add(&mut self, outcome: &Outcome, mishaps: impl IntoIterator<Item = String>) {
        let events = outcome.tape.iter().map(|stamped| (stamped.event.actor, stamped.event.kind));
        let events: BTreeSet<_> = events.collect();
        let mut reached: BTreeSet<String> =
            events.into_iter().map(|(actor, kind)| format!("{actor}: {kind}")).collect();
        reached.extend(outcome.reached.iter().map(|(request, answer)| format!("{request} → {answer}")));
        reached.extend(outcome.fired.keys().map(|fault| format!("fault: {}", fault.name())));
        reached.extend(mishaps.into_iter().map(|mishap| format!("mishap: {mishap}")));
        for mark in reached {
            *self.worlds.entry(mark).or_insert(0) += 1;
        }
    }

    /// Every mark that was reached, with the number of worlds.
    #[must_use]
    pub fn reached(&self) -> &BTreeMap<String, u64> {
        &self.worlds
    }

    /// Wanted, and not reached.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        wanted().filter(|mark| !self.worlds.contains_key(*mark)).collect()
    }

    /// Reached, and not in the list.
    #[must_use]
    pub fn news(&self) -> Vec<&str> {
        let known: BTreeSet<&str> = wanted().collect();
        self.worlds.keys().map(String::as_str).filter(|mark| !known.contains(mark)).collect()
    }
}

/// The marks of the list.
pub fn wanted() -> impl Iterator<Item = &'static str> {
    WANTED.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// How a request was answered, in a word.
#[must_use]
pub fn answer(result: &ServeResult) -> String {
    match result {
        Ok(_) => "done".into(),
        Err(errno) => name(*errno),
    }
}

fn name(errno: Errno) -> String {
    format!("{errno:?}")
}

/// What a request is called.
#[must_use]
pub fn kind(request: &Request<'_>) -> &'static str {
    use Request as R;
    match request {
        R::Lookup { .. } => "lookup",
        R::GetAttr { .. } => "getattr",
        R::SetAttr { set, .. } if set.size.is_some() => "truncate",
        R::SetAttr { .. } => "setattr",
        R::Readlink { .. } => "readlink",
        R::Mknod { .. } => "mknod",
        R::Mkdir { .. } => "mkdir",
        R::Symlink { .. } => "symlink",
        R::Unlink { .. } => "unlink",
        R::Rmdir { .. } => "rmdir",
        R::Rename { .. } => "rename",
        R::Link { .. } => "link",
        R::Open { .. } => "open",
        R::Create { .. } => "create",
        R::Read { .. } => "read",
        R::Write { .. } => "write",
        R::Flush { .. } => "flush",
        R::Release { .. } => "release",
        R::Fsync { .. } => "fsync",
        R::OpenDir { .. } => "opendir",
        R::ReadDir { .. } => "readdir",
        R::ReleaseDir { .. } => "releasedir",
        R::FsyncDir { .. } => "fsyncdir",
        R::Statfs { .. } => "statfs",
        R::SetXattr { .. } => "setxattr",
        R::GetXattr { .. } => "getxattr",
        R::ListXattr { .. } => "listxattr",
        R::RemoveXattr { .. } => "removexattr",
        R::Access { .. } => "access",
        R::Fallocate { .. } => "fallocate",
        R::CopyRange { .. } => "copy_file_range",
        R::Lseek { .. } => "lseek",
        R::GetLock { .. } => "getlk",
        R::SetLock { .. } => "setlk",
        R::Flock { .. } => "flock",
        R::SyncAll => "syncfs",
    }
}
