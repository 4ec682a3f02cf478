//! Whether an answer is the one that was expected, and what the tree learns from it.

use super::tree::{Expect, Node, Tree};
use std::collections::BTreeMap;
use zest_types::request::Dirent;
use zest_types::{Attr, Errno, FileType, Ino, Name, Response, ServeResult};

/// Compares an answer with what a tree expects; the tree learns inode numbers and times. With `afterwards`, other
/// calls may have changed the attributes that are shown, and they are not compared. The text says the difference.
pub fn agree(tree: &mut Tree, expect: &Expect, answer: &ServeResult, afterwards: bool) -> Result<(), String> {
    match (expect, answer) {
        (Expect::Anything, _) => Ok(()),
        (Expect::Fail(errnos), Err(errno)) if errnos.contains(errno) => Ok(()),
        (Expect::Fail(errnos), Err(errno)) => {
            Err(format!("failed with {errno:?}, expected {}", list(errnos)))
        }
        (Expect::Fail(errnos), Ok(_)) => Err(format!("succeeded, expected {}", list(errnos))),
        (_, Err(errno)) => Err(format!("failed with {errno:?}, expected success")),
        (expect, Ok(response)) => success(tree, expect, response, afterwards),
    }
}

fn list(errnos: &[Errno]) -> String {
    let names: Vec<String> = errnos.iter().map(|errno| format!("{errno:?}")).collect();
    names.join(" or ")
}

fn success(tree: &mut Tree, expect: &Expect, response: &Response, afterwards: bool) -> Result<(), String> {
    match (expect, response) {
        (Expect::Done, _) => Ok(()),
        (
            Expect::Node(id, node),
            Response::Entry { ino, attr }
            | Response::Attr { ino, attr }
            | Response::Created { ino, attr, .. },
        ) => {
            if !tree.learn(*id, *ino) {
                return Err(format!("shows inode {ino}, which is not the node that is there"));
            }
            // Attributes may be those at the moment of the change, or newer ones.
            let newest = tree.node(*id).cloned();
            let fits = |node: &&Node| node.differs(attr).is_none();
            match newest.as_deref().filter(fits).or_else(|| Some(&**node).filter(fits)) {
                // Times that fit the newest state may still be those of the moment itself: where the two differ,
                // nothing is learned.
                Some(_) => tree.learn_times(*id, node, attr),
                None if afterwards => {}
                None => {
                    return Err(format!("shows {} (inode {ino})", node.differs(attr).unwrap_or_default()));
                }
            }
            Ok(())
        }
        (Expect::Bytes(right), Response::Target(seen) | Response::Xattr(seen)) => {
            if right == seen {
                Ok(())
            } else {
                Err(format!("shows {} bytes that are not those set", seen.len()))
            }
        }
        (Expect::Names(right), Response::XattrNames(seen)) => {
            let mut seen = seen.clone();
            seen.sort();
            if *right == seen {
                Ok(())
            } else {
                Err(format!("lists attributes {seen:?}, expected {right:?}"))
            }
        }
        (Expect::Listing(right), Response::Dirents(seen)) => listing(tree, right, seen),
        (_, other) => Err(format!("answered with {other:?}, which does not fit the request")),
    }
}

fn listing(tree: &mut Tree, right: &BTreeMap<Name, (FileType, u64)>, seen: &[Dirent]) -> Result<(), String> {
    let mut names = BTreeMap::new();
    for entry in seen.iter().filter(|entry| !entry.name.is_dots()) {
        if names.insert(entry.name.clone(), entry).is_some() {
            return Err(format!("lists {} twice", entry.name));
        }
    }
    if let Some(missing) = right.keys().find(|name| !names.contains_key(*name)) {
        return Err(format!("does not list {missing}"));
    }
    for (name, entry) in names {
        let Some((kind, id)) = right.get(&name) else {
            return Err(format!("lists {name}, which is not there"));
        };
        if *kind != entry.kind || !tree.learn(*id, entry.ino) {
            return Err(format!("lists {name} as {:?} {}, which it is not", entry.kind, entry.ino));
        }
    }
    Ok(())
}

/// Attributes of a node that an answer shows.
#[must_use]
pub fn shown(answer: &ServeResult) -> Option<(Ino, &Attr)> {
    match answer {
        Ok(
            Response::Entry { ino, attr }
            | Response::Attr { ino, attr }
            | Response::Created { ino, attr, .. },
        ) => Some((*ino, attr)),
        _ => None,
    }
}
