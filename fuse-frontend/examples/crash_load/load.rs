//! One load thread: random operations on names and files of its own, each noted in the history before it is asked
//! for and when it was acknowledged. Ends at the first error, or when it is told to.

use crate::chance::{Chance, content};
use crate::model::{Edit, FileHistory, History, NameOp, Node};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The folder all threads share.
pub const COMMON: &str = "common";
/// Bytes before a file whose content crosses the end of the first chunk.
const FAR: u64 = (64 << 20) - (96 << 10);
/// The largest content of a file, bytes: more than one block.
const CONTENT_MAX: usize = 5 << 20;
/// Handles a thread keeps open.
const HANDLES: usize = 8;

/// What a round's load did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Operations acknowledged.
    pub operations: u64,
    /// Of them syncs of files and folders.
    pub syncs: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A load thread.
pub struct Load<'a> {
    number: usize,
    root: &'a Path,
    history: &'a mut History,
    chance: Chance,
    handles: Vec<(usize, Arc<File>)>,
    counts: Counts,
    /// Whether this round syncs only now and then, so that much is unsynced when the end comes.
    lazy: bool,
}

impl<'a> Load<'a> {
    /// A thread that works below `root` and notes what it does.
    pub fn new(number: usize, root: &'a Path, history: &'a mut History, seed: u64) -> Load<'a> {
        let mut chance = Chance::new(seed);
        let lazy = chance.one_in(2);
        Load { number, root, history, chance, handles: Vec::new(), counts: Counts::default(), lazy }
    }

    /// Works until told to stop. An error is one of the file system's, unless the server has been killed.
    pub fn run(mut self, stop: &AtomicBool) -> (Counts, io::Result<()>) {
        while !stop.load(Ordering::SeqCst) {
            if let Err(error) = self.step() {
                return (self.counts, Err(error));
            }
            self.counts.operations += 1;
        }
        (self.counts, Ok(()))
    }

    fn step(&mut self) -> io::Result<()> {
        match self.chance.below(100) {
            50..73 if self.lazy && !self.chance.one_in(12) => self.write(),
            0..14 => self.create(),
            14..46 => self.write(),
            46..50 => self.truncate(),
            50..60 => self.sync_file(),
            60..63 => self.sync_dir(),
            63..73 => self.replace(),
            73..80 => self.rename(),
            80..84 => self.link(),
            84..90 => self.remove(),
            90..93 => self.mkdir(),
            93..95 => self.rmdir(),
            95..97 => self.symlink(),
            _ => self.close(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A name of this thread, taken or free.
    fn any_name(&mut self) -> String {
        let name = self.chance.below(12);
        if self.chance.one_in(4) {
            return format!("{COMMON}/t{}-f{name}", self.number);
        }
        let dirs: Vec<String> = self.names_of(|node| *node == Node::Dir);
        match dirs.get(self.chance.below(dirs.len() as u64) as usize) {
            Some(dir) => format!("{dir}/f{name}"),
            None => format!("{COMMON}/t{}-f{name}", self.number),
        }
    }

    fn names_of(&self, wanted: impl Fn(&Node) -> bool) -> Vec<String> {
        self.history.now.iter().filter(|(_, node)| wanted(node)).map(|(path, _)| path.clone()).collect()
    }

    fn free_name(&mut self) -> Option<String> {
        let name = self.any_name();
        (!self.history.now.contains_key(&name)).then_some(name)
    }

    fn any_file(&mut self) -> Option<(String, usize)> {
        let files: Vec<(String, usize)> = self
            .history
            .now
            .iter()
            .filter_map(|(path, node)| match node {
                Node::File(file) => Some((path.clone(), *file)),
                _ => None,
            })
            .collect();
        let pick = self.chance.below(files.len() as u64) as usize;
        files.get(pick).cloned()
    }

    fn change_names<T>(&mut self, op: NameOp, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.history.begin(op);
        let done = call()?;
        self.history.done();
        Ok(done)
    }

    fn new_file(&mut self, path: &str) -> io::Result<usize> {
        let file = self.history.files.len();
        let shift = if self.chance.one_in(8) { FAR } else { 0 };
        self.history.files.push(FileHistory { shift, ..FileHistory::default() });
        let full = self.at(path);
        let handle = self.change_names(NameOp::Add(path.into(), Node::File(file)), || {
            OpenOptions::new().read(true).write(true).create_new(true).open(full)
        })?;
        self.history.files[file].inode = Some(handle.metadata()?.ino());
        self.keep(file, Arc::new(handle));
        Ok(file)
    }

    fn keep(&mut self, file: usize, handle: Arc<File>) {
        if self.handles.len() >= HANDLES {
            let oldest = self.chance.below(HANDLES as u64) as usize;
            self.handles.swap_remove(oldest);
        }
        self.handles.push((file, handle));
    }

    /// The file's open handle, or a new one by this path. Shared and never duplicated: closing a duplicate would flush.
    fn handle(&mut self, path: &str, file: usize) -> io::Result<Arc<File>> {
        if let Some((_, handle)) = self.handles.iter().find(|(open, _)| *open == file) {
            return Ok(Arc::clone(handle));
        }
        let handle = Arc::new(OpenOptions::new().read(true).write(true).open(self.at(path))?);
        self.keep(file, Arc::clone(&handle));
        Ok(handle)
    }

    fn create(&mut self) -> io::Result<()> {
        match self.free_name() {
            Some(name) => self.new_file(&name).map(|_| ()),
            None => self.write(),
        }
    }

    fn edit(&mut self, handle: &File, file: usize, edit: Edit) -> io::Result<()> {
        let history = &mut self.history.files[file];
        history.edits.push(edit);
        let shift = history.shift;
        match edit {
            Edit::Write { at, len, seed } => {
                history.len_now = history.len_now.max(at + len);
                handle.write_all_at(&content(seed, len), shift + at as u64)?;
                self.counts.bytes += len as u64;
            }
            Edit::Truncate { len } => {
                history.len_now = len;
                handle.set_len(shift + len as u64)?;
            }
        }
        Ok(())
    }

    fn write_to(&mut self, handle: &File, file: usize) -> io::Result<()> {
        let now = self.history.files[file].len_now;
        let len = match self.chance.below(20) {
            0 => 1 + self.chance.below(2 << 20) as usize,
            1..4 => 1 + self.chance.below(200 << 10) as usize,
            4..8 => 4096,
            _ => 1 + self.chance.below(6000) as usize,
        };
        let mut at = if self.chance.one_in(2) { now } else { self.chance.below(now as u64 + 1000) as usize };
        if at + len > CONTENT_MAX {
            at = self.chance.below((CONTENT_MAX - len) as u64) as usize;
        }
        let seed = self.chance.next();
        self.edit(handle, file, Edit::Write { at, len, seed })
    }

    fn write(&mut self) -> io::Result<()> {
        let Some((path, file)) = self.any_file() else { return Ok(()) };
        let handle = self.handle(&path, file)?;
        self.write_to(&handle, file)
    }

    fn truncate(&mut self) -> io::Result<()> {
        let Some((path, file)) = self.any_file() else { return Ok(()) };
        let handle = self.handle(&path, file)?;
        let len = self.chance.below(self.history.files[file].len_now as u64 * 2 + 1) as usize;
        self.edit(&handle, file, Edit::Truncate { len: len.min(CONTENT_MAX) })
    }

    fn sync(&mut self, handle: &File, file: usize) -> io::Result<()> {
        if self.chance.one_in(3) {
            handle.sync_data()?
        } else {
            handle.sync_all()?
        }
        let history = &mut self.history.files[file];
        history.floor = history.edits.len();
        self.history.names_synced();
        self.counts.syncs += 1;
        Ok(())
    }

    fn sync_file(&mut self) -> io::Result<()> {
        let Some((path, file)) = self.any_file() else { return Ok(()) };
        let handle = self.handle(&path, file)?;
        self.sync(&handle, file)
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        let name = self.any_name();
        let dir = name.rsplit_once('/').map_or(COMMON, |(dir, _)| dir);
        File::open(self.at(dir))?.sync_all()?;
        self.history.names_synced();
        self.counts.syncs += 1;
        Ok(())
    }

    /// The way editors save: a new file, written and synced, takes the name of the old one.
    fn replace(&mut self) -> io::Result<()> {
        let Some((target, _)) = self.any_file() else { return Ok(()) };
        let fresh = format!("{target}.new");
        if self.history.now.contains_key(&fresh) {
            return Ok(());
        }
        let file = self.new_file(&fresh)?;
        let handle = self.handle(&fresh, file)?;
        for _ in 0..=self.chance.below(3) {
            self.write_to(&handle, file)?;
        }
        self.sync(&handle, file)?;
        let (from, to) = (self.at(&fresh), self.at(&target));
        self.change_names(NameOp::Rename(fresh, target), || fs::rename(from, to))?;
        if self.chance.one_in(2) { self.sync_dir() } else { Ok(()) }
    }

    fn rename(&mut self) -> io::Result<()> {
        let movable = self.names_of(|node| *node != Node::Dir || self.history.now.len() > 3);
        let pick = self.chance.below(movable.len() as u64) as usize;
        let Some(from) = movable.get(pick).cloned() else { return Ok(()) };
        let to = self.any_name();
        let from_is_dir = self.history.now.get(&from) == Some(&Node::Dir);
        let same_file = self.history.now.get(&from) == self.history.now.get(&to);
        let root = format!("t{}", self.number);
        if from == root || to.starts_with(&format!("{from}/")) || same_file {
            return Ok(());
        }
        // Folders move to free names only; a file may take the place of another file.
        let taken = self.history.now.get(&to);
        if taken == Some(&Node::Dir) || (from_is_dir && taken.is_some()) {
            return Ok(());
        }
        let (old, new) = (self.at(&from), self.at(&to));
        self.change_names(NameOp::Rename(from, to), || fs::rename(old, new))
    }

    fn link(&mut self) -> io::Result<()> {
        let (Some((path, file)), Some(name)) = (self.any_file(), self.free_name()) else { return Ok(()) };
        let (old, new) = (self.at(&path), self.at(&name));
        self.change_names(NameOp::Add(name, Node::File(file)), || fs::hard_link(old, new))
    }

    fn remove(&mut self) -> io::Result<()> {
        let names = self.names_of(|node| *node != Node::Dir);
        let pick = self.chance.below(names.len() as u64) as usize;
        let Some(name) = names.get(pick).cloned() else { return Ok(()) };
        let full = self.at(&name);
        self.change_names(NameOp::Remove(name), || fs::remove_file(full))
    }

    fn mkdir(&mut self) -> io::Result<()> {
        let dirs = self.names_of(|node| *node == Node::Dir).len();
        let Some(name) = self.free_name() else { return Ok(()) };
        if dirs >= 6 || name.matches('/').count() > 4 {
            return Ok(());
        }
        let full = self.at(&name);
        self.change_names(NameOp::Add(name, Node::Dir), || fs::create_dir(full))
    }

    fn rmdir(&mut self) -> io::Result<()> {
        let dirs = self.names_of(|node| *node == Node::Dir);
        let pick = self.chance.below(dirs.len() as u64) as usize;
        let Some(dir) = dirs.get(pick).cloned() else { return Ok(()) };
        let below = format!("{dir}/");
        let full = self.at(&dir);
        if self.history.now.keys().any(|path| path.starts_with(&below)) {
            return match fs::remove_dir(full) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
                Err(error) => Err(error),
                Ok(()) => Err(io::Error::other(format!("rmdir of {dir}, which is not empty, succeeded"))),
            };
        }
        if dir == format!("t{}", self.number) {
            return Ok(());
        }
        self.change_names(NameOp::Remove(dir), || fs::remove_dir(full))
    }

    fn symlink(&mut self) -> io::Result<()> {
        let Some(name) = self.free_name() else { return Ok(()) };
        let target = format!("somewhere/{}", self.chance.next());
        let full = self.at(&name);
        self.change_names(NameOp::Add(name, Node::Link(target.clone())), || symlink(target, full))
    }

    fn close(&mut self) -> io::Result<()> {
        if !self.handles.is_empty() {
            let pick = self.chance.below(self.handles.len() as u64) as usize;
            self.handles.swap_remove(pick);
        }
        Ok(())
    }
}
