//! A volume as it was found after a start: everything that can be seen through the door, and whether that is a
//! given tree.

use super::stamp::Stamp;
use super::tree::{Node, NodeId, Tree};
use std::collections::{BTreeMap, BTreeSet};
use zest_types::{Attr, FileType, Ino, Name};

/// A node as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Found {
    pub attr: Attr,
    pub entries: BTreeMap<Name, Ino>,
    pub xattrs: BTreeMap<Name, Vec<u8>>,
    pub target: Vec<u8>,
    /// Ranges of a file that were read, with their bytes.
    pub ranges: Vec<(u64, Vec<u8>)>,
}

/// A whole volume as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Every node that has a name, by the number the accused gives it.
    pub nodes: BTreeMap<Ino, Found>,
    /// Names in the trash: the directory they were in, the node, the name. `None`: this volume has no trash.
    pub bins: Option<BTreeSet<(Ino, Ino, Name)>>,
}

/// Whether what was found is this tree. The text names the first difference.
pub fn same_tree(tree: &Tree, found: &Recovered) -> Result<(), String> {
    if let Some((dir, ino, name)) = found.bins.as_ref().and_then(|bins| tree.missing_bin(bins)) {
        return Err(format!("the trash lacks {name}, inode {ino}, which was removed from directory {dir}"));
    }
    let mut matched: BTreeMap<NodeId, Ino> = BTreeMap::new();
    let mut queue: Vec<(NodeId, Ino, String)> = vec![(0, Ino::ROOT, String::from("/"))];
    while let Some((id, ino, path)) = queue.pop() {
        let (Some(node), Some(seen)) = (tree.nodes.get(&id), found.nodes.get(&ino)) else {
            return Err(format!("{path} leads to inode {ino}, which can't be looked at"));
        };
        if let Some(known) = node.ino.filter(|known| *known != ino) {
            return Err(format!("{path} is inode {ino}, expected {known}"));
        }
        if matched.insert(id, ino).is_some_and(|other| other != ino) {
            return Err(format!("{path} is not the hard link it should be"));
        }
        if let Some(difference) = node.differs(&seen.attr) {
            return Err(format!("{path} has {difference}"));
        }
        if node.target != seen.target || node.xattrs != seen.xattrs {
            return Err(format!("{path} has another target or other extended attributes than set"));
        }
        if let Some(missing) = node.entries.keys().find(|name| !seen.entries.contains_key(*name)) {
            return Err(format!("{path} lacks {missing}"));
        }
        for (name, child) in &seen.entries {
            let Some(right) = node.entries.get(name) else { return Err(format!("{path} has {name} in it")) };
            queue.push((*right, *child, format!("{path}{name}/")));
        }
    }
    Ok(())
}

/// The tree that was found, with node numbers from `first` on.
#[must_use]
pub fn as_tree(found: &Recovered, first: NodeId) -> Tree {
    let ids: BTreeMap<Ino, NodeId> = found
        .nodes
        .keys()
        .filter(|ino| **ino != Ino::ROOT)
        .copied()
        .zip(first..)
        .chain([(Ino::ROOT, 0)])
        .collect();
    let node = |ino: &Ino| {
        let seen = found.nodes.get(ino)?;
        let attr = &seen.attr;
        let entries =
            seen.entries.iter().filter_map(|(name, ino)| Some((name.clone(), *ids.get(ino)?))).collect();
        Some(Node {
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            nlink: attr.nlink,
            ino: Some(*ino),
            entries,
            parent: ids.get(&attr.parent).copied().unwrap_or(0),
            target: seen.target.clone(),
            xattrs: seen.xattrs.clone(),
            linked: attr.parent == Ino(0),
            mtime: Stamp::exactly(attr.mtime),
            ctime: Stamp::exactly(attr.ctime),
            ..Node::new(attr.kind, attr.mode, Stamp::ANY)
        })
    };
    let root = node(&Ino::ROOT).unwrap_or_else(|| Node::new(FileType::Directory, 0o777, Stamp::ANY));
    let mut tree = Tree::new(root, found.bins.clone());
    for (ino, id) in ids.iter().filter(|(_, id)| **id != 0) {
        if let Some(node) = node(ino) {
            tree.insert(*id, node);
        }
    }
    tree
}
