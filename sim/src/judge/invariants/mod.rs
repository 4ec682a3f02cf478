//! What must hold between the records of a volume and the objects of its store at any moment, whatever happened
//! before. One file each; none knows how the accused keeps them.

mod blocks;
mod leaks;
mod links;
mod owners;
mod parents;
mod quotas;
mod references;
mod statistics;
mod usage;

use super::court::Violation;
use std::collections::{BTreeMap, BTreeSet};
use zest_types::attr::align4k;
use zest_types::{Attr, FileType, Ino, Name, SliceId, SliceRecord};

/// A volume, counted: everything its records say, and what its store holds.
#[derive(Clone, Debug, Default)]
pub struct Volume {
    /// Name of the volume, as it begins the names of its objects.
    pub name: String,
    /// Bytes of a block.
    pub block_size: u64,
    /// Attributes of every node.
    pub attrs: BTreeMap<Ino, Attr>,
    /// Every directory entry.
    pub dentries: BTreeMap<(Ino, Name), (FileType, Ino)>,
    /// How many names a node has in a directory, where that is kept: node and directory.
    pub parents: BTreeMap<(Ino, Ino), i64>,
    /// Every chunk list.
    pub chunks: BTreeMap<(Ino, u32), Vec<SliceRecord>>,
    /// References of slices beyond the first.
    pub references: BTreeMap<(SliceId, u32), i64>,
    /// Slices that compaction replaced and that are kept for a while, once for each record.
    pub delayed: Vec<(SliceId, u32)>,
    /// Bytes, space and entries of directories.
    pub statistics: BTreeMap<Ino, (i64, i64, i64)>,
    /// Nodes that were removed while open.
    pub sustained: BTreeSet<Ino>,
    /// Files whose content waits for removal.
    pub deleted: BTreeSet<Ino>,
    /// Copies that have no name yet, or never got one.
    pub detached: BTreeSet<Ino>,
    /// Space and nodes below directories with a quota, as they are kept.
    pub quotas: BTreeMap<Ino, (i64, i64)>,
    /// Space and nodes of users and of groups, where they are kept.
    pub owners: Option<[BTreeMap<u32, (i64, i64)>; 2]>,
    /// Counters: space, nodes.
    pub used: (i64, i64),
    /// Key and size of every object.
    pub objects: BTreeMap<String, u64>,
}

/// Looks for what does not hold; the text says what.
type Check = fn(&Volume) -> Result<(), String>;

/// Whether all invariants hold.
pub fn check(volume: &Volume) -> Result<(), Violation> {
    let all: [(&'static str, Check); 8] = [
        ("links", links::check),
        ("parents", parents::check),
        ("usage", usage::check),
        ("statistics", statistics::check),
        ("blocks", blocks::check),
        ("references", references::check),
        ("quotas", quotas::check),
        ("owners", owners::check),
    ];
    for (rule, check) in all {
        check(volume).map_err(|text| Violation::new(rule, text))?;
    }
    Ok(())
}

/// Whether nothing is kept that nobody can reach; for volumes that are at rest and never saw a crash.
pub fn check_leaks(volume: &Volume) -> Result<(), Violation> {
    leaks::check(volume).map_err(|text| Violation::new("leaks", text))
}

/// Space a node takes, as quotas count it.
fn space(attr: &Attr) -> i64 {
    if attr.is_file() { i64::try_from(align4k(attr.length)).unwrap_or(i64::MAX) } else { 4096 }
}

/// Entries of all directories by the node they lead to.
fn names_of(volume: &Volume) -> BTreeMap<Ino, Vec<Ino>> {
    let mut names: BTreeMap<Ino, Vec<Ino>> = BTreeMap::new();
    for ((dir, _), (_, ino)) in &volume.dentries {
        names.entry(*ino).or_default().push(*dir);
    }
    names
}
