//! What one load thread did: the history of its names and of each of its files, and which part of it must have
//! survived. Knows nothing of files on disk.

use crate::chance::content;
use std::collections::BTreeMap;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A folder.
    Dir,
    /// A file: its number in [`History::files`].
    File(usize),
    /// A symbolic link and its target.
    Link(String),
}

/// The names of a thread, as paths below the mount point.
pub type Names = BTreeMap<String, Node>;

/// A change of names.
#[derive(Clone, Debug)]
pub enum NameOp {
    /// A name appears.
    Add(String, Node),
    /// A name goes, of whatever kind.
    Remove(String),
    /// A name moves, with all below it; what stood at the new place is gone.
    Rename(String, String),
}

impl NameOp {
    /// Does to the names what the operation does.
    pub fn apply(&self, names: &mut Names) {
        match self {
            NameOp::Add(path, node) => {
                names.insert(path.clone(), node.clone());
            }
            NameOp::Remove(path) => {
                names.remove(path);
            }
            NameOp::Rename(from, to) => {
                let below = format!("{from}/");
                let moved: Vec<String> =
                    names.keys().filter(|path| *path == from || path.starts_with(&below)).cloned().collect();
                for path in moved {
                    if let Some(node) = names.remove(&path) {
                        names.insert(format!("{to}{}", &path[from.len()..]), node);
                    }
                }
            }
        }
    }
}

/// A change of a file's content.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// `len` bytes that follow from `seed` are written at `at`.
    Write { at: usize, len: usize, seed: u64 },
    /// The file gets this length.
    Truncate { len: usize },
}

impl Edit {
    /// The content after the edit; of a write only the first `part` bytes.
    pub fn apply(&self, state: &mut Vec<u8>, part: usize) {
        match *self {
            Edit::Write { at, len, seed } => {
                let len = len.min(part);
                if len == 0 {
                    return;
                }
                if state.len() < at + len {
                    state.resize(at + len, 0);
                }
                state[at..at + len].copy_from_slice(&content(seed, len));
            }
            Edit::Truncate { len } => state.resize(len, 0),
        }
    }
}

/// One file: what it held when the round began, and the edits since.
#[derive(Debug, Default)]
pub struct FileHistory {
    /// Its inode number, once it is known.
    pub inode: Option<u64>,
    /// Bytes of hole before the content, so that some files cross a chunk's end.
    pub shift: u64,
    /// The content when the round began.
    pub base: Vec<u8>,
    /// Every edit that was begun; all but the last were acknowledged.
    pub edits: Vec<Edit>,
    /// So many edits must have survived.
    pub floor: usize,
    /// The content after every edit, as the thread sees it.
    pub len_now: usize,
}

impl FileHistory {
    /// Whether these bytes are a state the file went through, not older than the floor; how many edits it holds.
    /// Of one edit only the beginning may be there: a write larger than one request arrives in pieces.
    pub fn admits(&self, actual: &[u8]) -> Option<usize> {
        let mut state = self.base.clone();
        for edit in &self.edits[..self.floor] {
            edit.apply(&mut state, usize::MAX);
        }
        let mut found = (state == actual).then_some(self.floor);
        for (number, edit) in self.edits.iter().enumerate().skip(self.floor) {
            if found.is_none() && holds_part(&state, edit, actual) {
                found = Some(number);
            }
            edit.apply(&mut state, usize::MAX);
            if state == actual {
                found = Some(number + 1);
            }
        }
        found
    }
}

/// Whether the bytes are the state with the beginning of this write on top.
fn holds_part(state: &[u8], edit: &Edit, actual: &[u8]) -> bool {
    let Edit::Write { at, len, seed } = *edit else { return false };
    if actual.len() <= at {
        return false;
    }
    let part = content(seed, len).iter().zip(&actual[at..]).take_while(|(want, got)| want == got).count();
    let mut partly = state.to_vec();
    edit.apply(&mut partly, part);
    partly == actual
}

/// All a thread did since the last check.
#[derive(Debug, Default)]
pub struct History {
    /// The names when the round began.
    pub base: Names,
    /// The names after every operation, as the thread sees it.
    pub now: Names,
    /// Every change of names that was begun; all but the last were acknowledged.
    pub ops: Vec<NameOp>,
    /// So many changes of names must have survived.
    pub floor: usize,
    /// The files; numbers are never used again.
    pub files: Vec<FileHistory>,
}

impl History {
    /// Notes a change of names that is about to be asked for.
    pub fn begin(&mut self, op: NameOp) {
        self.ops.push(op);
    }

    /// The change of names noted last was acknowledged.
    pub fn done(&mut self) {
        if let Some(op) = self.ops.last() {
            op.apply(&mut self.now);
        }
    }

    /// Everything the thread was told is done has been synced.
    pub fn names_synced(&mut self) {
        self.floor = self.ops.len();
    }

    /// The states the names went through, from the floor on.
    pub fn name_states(&self) -> Vec<Names> {
        let mut state = self.base.clone();
        let mut states = Vec::new();
        for (number, op) in self.ops.iter().enumerate() {
            if number >= self.floor {
                states.push(state.clone());
            }
            op.apply(&mut state);
        }
        states.push(state);
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(floor: usize) -> FileHistory {
        let edits = vec![
            Edit::Write { at: 0, len: 100, seed: 1 },
            Edit::Write { at: 50, len: 100, seed: 2 },
            Edit::Truncate { len: 20 },
        ];
        FileHistory { edits, floor, ..FileHistory::default() }
    }

    fn after(file: &FileHistory, edits: usize) -> Vec<u8> {
        let mut state = file.base.clone();
        file.edits[..edits].iter().for_each(|edit| edit.apply(&mut state, usize::MAX));
        state
    }

    #[test]
    fn a_state_before_the_last_sync_is_refused() {
        let (synced, unsynced) = (file(2), file(0));
        assert_eq!(synced.admits(&after(&synced, 1)), None);
        assert_eq!(unsynced.admits(&after(&unsynced, 1)), Some(1));
        assert_eq!(synced.admits(&after(&synced, 2)), Some(2));
        assert_eq!(synced.admits(&after(&synced, 3)), Some(3));
    }

    #[test]
    fn half_a_write_is_admitted_only_as_its_beginning() {
        let file = file(1);
        let mut beginning = after(&file, 1);
        file.edits[1].apply(&mut beginning, 70);
        assert_eq!(file.admits(&beginning), Some(1));
        let mut end_only = after(&file, 2);
        end_only[50..70].copy_from_slice(&after(&file, 1)[50..70]);
        assert_eq!(file.admits(&end_only), None);
        let mut zeros = after(&file, 2);
        zeros[120..].fill(0);
        assert_eq!(file.admits(&zeros), None);
    }

    #[test]
    fn names_before_the_floor_are_no_state_any_more() {
        let mut history = History::default();
        for name in ["a", "b"] {
            history.begin(NameOp::Add(name.into(), Node::Dir));
            history.done();
        }
        history.names_synced();
        history.begin(NameOp::Rename("a".into(), "c".into()));
        let states = history.name_states();
        assert_eq!(states.len(), 2);
        assert!(states[0].contains_key("a") && states[0].contains_key("b"));
        assert!(states[1].contains_key("c") && !states[1].contains_key("a"));
    }
}
