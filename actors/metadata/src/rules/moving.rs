//! What a move between directories means for the quotas above them: a node, or a whole tree, leaves some and joins
//! others. A tree is counted by walking through it; where it is itself a quota's directory, the quota knows.
//! Source: volume format, rename and usage accounting.

use super::draft::{Draft, Wants};
use super::quota::{Above, Growth, amounts, need_room};
use crate::change::{AttrFields, Write};
use crate::key::{Key, Scan};
use crate::op::Env;
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeSet;
use zest_types::{Attr, Errno, FileType, Ino, limits};

/// Nodes whose records one change set expects.
const EXPECTED: usize = limits::CHANGE_SET_MAX / 8;

/// A node on its way from some quotas to others.
#[derive(Default)]
pub struct Moving {
    leaves: Vec<Ino>,
    joins: Vec<Ino>,
    tree: Option<Tree>,
}

/// What a tree holds, itself included.
struct Tree {
    space: i64,
    inodes: i64,
    /// Records it was counted from, as far as a change set can expect them.
    seen: Vec<(Ino, Attr)>,
    /// The quota that knew.
    quota: Option<(Key, Record)>,
}

/// Looks what a move changes; `EDQUOT` where a quota it joins has no room. `EXDEV` for a tree too large to be
/// counted at once: it can be copied and removed.
pub fn look(
    (ino, attr): (Ino, &Attr),
    from: &Above,
    to: &Above,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Moving, Stop> {
    let without = |all: &Above, other: &Above| -> Vec<Ino> {
        all.dirs.iter().filter(|dir| !other.dirs.contains(dir)).copied().collect()
    };
    let (leaves, joins) = (without(from, to), without(to, from));
    if leaves.is_empty() && joins.is_empty() {
        return Ok(Moving::default());
    }
    let tree = if attr.is_dir() { Some(count(ino, attr, snapshot, env)?) } else { None };
    let (space, inodes) = match &tree {
        Some(tree) => (tree.space, tree.inodes),
        None => amounts(attr)?,
    };
    let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
    let growth = Growth { space: unsigned(space), inodes: unsigned(inodes), owner: None, volume: false };
    let joined = Above { dirs: joins.clone(), ..Above::default() };
    need_room(growth, &joined, snapshot, env)?;
    Ok(Moving { leaves, joins, tree })
}

impl Moving {
    pub fn write(self, draft: &mut Draft, ino: Ino) {
        let Moving { leaves, joins, tree } = self;
        let Some(tree) = tree else {
            super::quota::charge_dirs(draft, ino, &leaves, -1);
            super::quota::charge_dirs(draft, ino, &joins, 1);
            return;
        };
        for (ino, attr) in &tree.seen {
            let dir = attr.is_dir();
            let fields = AttrFields { length: !dir, nlink: dir, times: dir, ..AttrFields::default() };
            draft.expect_attr(*ino, attr, fields);
        }
        if let Some((key, record)) = &tree.quota {
            draft.expect_seen(key.clone(), Some(record));
        }
        for (dirs, sign) in [(leaves, -1), (joins, 1)] {
            for dir in dirs {
                let quota = Key::DirQuota(dir);
                draft.write(Write::AddQuota { quota, space: sign * tree.space, inodes: sign * tree.inodes });
            }
        }
    }
}

fn count(root: Ino, attr: &Attr, snapshot: &Snapshot, env: &Env<'_>) -> Result<Tree, Stop> {
    let key = Key::DirQuota(root);
    if env.quota_dirs.contains(&root)
        && let Some(record) = snapshot.get(&key)?
    {
        let Record::Quota { used_space, used_inodes, .. } = record else { return Err(Errno::EIO.into()) };
        let (space, inodes) = (used_space.saturating_add(4096), used_inodes.saturating_add(1));
        return Ok(Tree { space, inodes, seen: Vec::new(), quota: Some((key, record.clone())) });
    }
    let mut tree = Tree { space: 4096, inodes: 1, seen: vec![(root, attr.clone())], quota: None };
    walk(root, &mut tree, snapshot)?;
    Ok(tree)
}

/// Level by level, so that what is not known of a level is asked for at once.
fn walk(root: Ino, tree: &mut Tree, snapshot: &Snapshot) -> Result<(), Stop> {
    let (mut level, mut met) = (vec![root], BTreeSet::from([root]));
    while !level.is_empty() {
        let (mut entries, mut wants) = (Vec::new(), Wants::default());
        for dir in &level {
            let limit = limits::TREE_WALK + 1;
            let scan = Scan::Dentries { dir: *dir, after: None, limit };
            entries.extend_from_slice(wants.see(snapshot.scan(&scan))?.unwrap_or_default());
            if entries.len() + met.len() > limits::TREE_WALK {
                return Err(Errno::EXDEV.into());
            }
        }
        wants.settle()?;
        let nodes: Vec<(FileType, Ino)> = entries.iter().filter_map(|(_, record)| entry(record)).collect();
        let keys: Vec<Key> = nodes.iter().map(|(_, ino)| Key::Attr(*ino)).collect();
        snapshot.need(&keys)?;
        level.clear();
        for (kind, ino) in nodes {
            tree.inodes += 1;
            let Some(attr) = snapshot.attr(ino)? else { continue };
            tree.space = tree.space.checked_add(amounts(attr)?.0).ok_or(Errno::EIO)?;
            if tree.seen.len() < EXPECTED {
                tree.seen.push((ino, attr.clone()));
            }
            if met.insert(ino) && kind == FileType::Directory {
                level.push(ino);
            }
        }
    }
    Ok(())
}

fn entry(record: &Record) -> Option<(FileType, Ino)> {
    match record {
        Record::Dentry { kind, ino } => Some((*kind, *ino)),
        _ => None,
    }
}
