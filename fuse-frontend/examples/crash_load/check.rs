//! The judge after a crash: what is on the mount must be a state every thread went through, not older than its last
//! acknowledged sync. Then this state is where the next round begins.

use crate::load::COMMON;
use crate::model::{History, Names, Node};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What stands at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Dir { nlink: u64 },
    File { inode: u64, nlink: u64 },
    Link(String),
    Other,
}

type Tree = BTreeMap<String, Found>;

/// How much survived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Changes of names, and edits of files, that had not been synced and were lost.
    pub lost: usize,
    /// Files compared.
    pub files: usize,
}

/// Checks one thread's names and files; the history then begins at what was found. The error says what differs.
pub fn check(number: usize, root: &Path, history: &mut History) -> Result<Kept, String> {
    let found = scan(number, root).map_err(|error| format!("the tree can't be read: {error}"))?;
    let states = history.name_states();
    let Some(place) = states.iter().rposition(|state| matches(state, &found, history)) else {
        return Err(no_state_fits(&states, &found, history));
    };
    let names = states[place].clone();
    let mut kept = Kept { lost: states.len() - 1 - place, files: 0 };
    link_counts(&names, &found)?;
    let mut contents: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for (path, node) in &names {
        let Node::File(file) = node else { continue };
        if !contents.contains_key(file) {
            let actual = read(&root.join(path), history.files[*file].shift)
                .map_err(|error| format!("{path} can't be read: {error}"))?;
            let edits =
                history.files[*file].admits(&actual).ok_or_else(|| explain(path, *file, &actual, history))?;
            contents.insert(*file, actual);
            kept.files += 1;
            kept.lost += history.files[*file].edits.len() - edits;
        }
        if let Some(Found::File { inode, .. }) = found.get(path) {
            history.files[*file].inode = Some(*inode);
        }
    }
    rebase(history, names, contents);
    Ok(kept)
}

/// Everything below the thread's own folder, and its names in the common one.
fn scan(number: usize, root: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let own = format!("t{number}");
    let mut pending = vec![own.clone()];
    for entry in fs::read_dir(root.join(COMMON))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{own}-")) {
            pending.push(format!("{COMMON}/{name}"));
        }
    }
    while let Some(path) = pending.pop() {
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full)?;
        let kind = meta.file_type();
        let found = if kind.is_dir() {
            for entry in fs::read_dir(&full)? {
                pending.push(format!("{path}/{}", entry?.file_name().to_string_lossy()));
            }
            Found::Dir { nlink: meta.nlink() }
        } else if kind.is_file() {
            Found::File { inode: meta.ino(), nlink: meta.nlink() }
        } else if kind.is_symlink() {
            Found::Link(fs::read_link(&full)?.to_string_lossy().into_owned())
        } else {
            Found::Other
        };
        tree.insert(path, found);
    }
    Ok(tree)
}

fn fits(node: &Node, found: &Found, history: &History) -> bool {
    match (node, found) {
        (Node::Dir, Found::Dir { .. }) => true,
        (Node::File(file), Found::File { inode, .. }) => {
            history.files[*file].inode.is_none_or(|known| known == *inode)
        }
        (Node::Link(target), Found::Link(there)) => target == there,
        _ => false,
    }
}

fn matches(state: &Names, found: &Tree, history: &History) -> bool {
    state.len() == found.len()
        && state
            .iter()
            .zip(found)
            .all(|((name, node), (there, what))| name == there && fits(node, what, history))
}

fn no_state_fits(states: &[Names], found: &Tree, history: &History) -> String {
    let differences = |state: &Names| -> Vec<String> {
        let missing = state.iter().filter_map(|(name, node)| match found.get(name) {
            None => Some(format!("{name} is missing")),
            Some(there) if !fits(node, there, history) => {
                Some(format!("{name} should be {node:?}, is {there:?}"))
            }
            Some(_) => None,
        });
        let extra =
            found.keys().filter(|name| !state.contains_key(*name)).map(|name| format!("{name} is too much"));
        missing.chain(extra).collect()
    };
    let nearest = states.iter().map(differences).enumerate().min_by_key(|(_, list)| list.len());
    let (place, list) = nearest.unwrap_or_default();
    format!(
        "the names are no state of {} possible ones (sync floor {}); the nearest, after {} changes, differs: {}; \
         changes around it: {:?}",
        states.len(),
        history.floor,
        history.floor + place,
        list.join(", "),
        history.ops.iter().skip((history.floor + place).saturating_sub(3)).take(8).collect::<Vec<_>>()
    )
}

fn link_counts(names: &Names, found: &Tree) -> Result<(), String> {
    for (path, node) in names {
        let (want, got) = match (node, found.get(path)) {
            (Node::Dir, Some(Found::Dir { nlink })) => {
                let below = format!("{path}/");
                let inner = |name: &String| name.strip_prefix(&below).is_some_and(|rest| !rest.contains('/'));
                (2 + names.iter().filter(|(name, node)| **node == Node::Dir && inner(name)).count(), *nlink)
            }
            (Node::File(file), Some(Found::File { nlink, .. })) => {
                (names.values().filter(|other| **other == Node::File(*file)).count(), *nlink)
            }
            _ => continue,
        };
        // File systems that do not count folders say 1.
        if want as u64 != got && !(*node == Node::Dir && got == 1) {
            return Err(format!("{path} has link count {got}, should have {want}"));
        }
    }
    Ok(())
}

/// The content after the hole at the beginning; the hole must be one.
fn read(path: &Path, shift: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut sample = vec![0; 8192];
    for place in [0, shift / 2, shift.saturating_sub(8192)] {
        if shift == 0 || place >= len {
            continue;
        }
        file.seek(SeekFrom::Start(place))?;
        let got = file.read(&mut sample)?;
        if sample[..got].iter().any(|byte| *byte != 0) {
            return Err(io::Error::other(format!("the hole holds data near {place}")));
        }
    }
    file.seek(SeekFrom::Start(shift))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    if content.len() as u64 != len.saturating_sub(shift) {
        return Err(io::Error::other(format!("length {len}, but {} bytes from {shift} on", content.len())));
    }
    Ok(content)
}

fn explain(path: &str, file: usize, actual: &[u8], history: &History) -> String {
    let file = &history.files[file];
    let mut state = file.base.clone();
    for edit in &file.edits[..file.floor] {
        edit.apply(&mut state, usize::MAX);
    }
    let at_floor = state.len();
    let first =
        state.iter().zip(actual).position(|(want, got)| want != got).unwrap_or(state.len().min(actual.len()));
    let zeros = actual.iter().skip(first).take_while(|byte| **byte == 0).count();
    format!(
        "{path} (shift {}): {} bytes that are no state of its {} edits since the last of {} synced ones (then {} bytes); \
         differs from the synced state at {first}, where {zeros} zeros are; edits since: {:?}",
        file.shift,
        actual.len(),
        file.edits.len() - file.floor,
        file.floor,
        at_floor,
        file.edits.iter().skip(file.floor).take(12).collect::<Vec<_>>()
    )
}

fn rebase(history: &mut History, names: Names, mut contents: BTreeMap<usize, Vec<u8>>) {
    history.base = names.clone();
    history.now = names;
    history.ops.clear();
    history.floor = 0;
    for (number, file) in history.files.iter_mut().enumerate() {
        file.edits.clear();
        file.floor = 0;
        file.base = contents.remove(&number).unwrap_or_default();
        file.len_now = file.base.len();
    }
}
