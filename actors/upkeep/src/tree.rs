//! Names and nodes of a volume, directory by directory: entries without a node, link counts, parents, statistics and
//! usage against a recount. What others change while this looks is looked at twice. Knows no blocks.

use crate::failure::Failure;
use crate::whole::{Child, Whole};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zest_metadata::{Counter, Key, Record, Scan};
use zest_types::attr::align4k;
use zest_types::{Attr, FileType, Ino, limits};

/// What would put something right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Remedy {
    /// The link count of a directory.
    Links(u32),
    /// The directory that holds a node.
    Parent(Ino),
    /// Bytes, space and entries of a directory.
    Statistics([i64; 3]),
    /// A directory that is gone, in this one.
    Remake(Ino),
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub ino: Ino,
    /// What is wrong, in one line.
    pub text: String,
    /// Only a number that is kept on the side is off: the original client's drift, too.
    pub drift: bool,
    /// What would put it right.
    pub remedy: Option<Remedy>,
}

/// What was seen below a directory.
#[derive(Debug, Default)]
pub struct Seen {
    /// What does not hold.
    pub problems: Vec<Problem>,
    /// Problems that are not in the list, because it is full.
    pub more: u64,
    /// Directories, and everything else.
    pub directories: u64,
    /// Nodes that are no directories; one with several names counts once.
    pub others: u64,
    /// Space all nodes take.
    pub space: u64,
    /// Files, where they are wanted.
    pub files: Vec<Ino>,
    /// Files with more than one name: how many were seen.
    linked: BTreeMap<Ino, u32>,
}

/// One directory.
#[derive(Default)]
struct Look {
    problems: Vec<Problem>,
    below: Vec<(Ino, String)>,
    nodes: Vec<(Ino, u64, bool)>,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Below the directory's directories, too.
    pub recursive: bool,
    /// Whether statistics of directories are kept.
    pub statistics: bool,
    /// Whether statistics that were never counted are to be, too.
    pub uncounted: bool,
    /// Whether files are to be listed.
    pub files: bool,
}

/// Looks at a node, and at what is below it.
pub async fn look(
    whole: &Whole,
    root: Ino,
    path: &str,
    scope: Scope,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let mut waiting = vec![(root, path.trim_end_matches('/').to_owned())];
    while let Some((dir, path)) = waiting.pop() {
        let mut look = directory(whole, dir, &path, scope).await?;
        if !look.problems.is_empty() && !whole.engine.exclusive() {
            // Somebody else may have been at work in it.
            whole.world.clock.sleep(Duration::from_secs(1)).await;
            let again = directory(whole, dir, &path, scope).await?;
            let both = |problem: &Problem| {
                look.problems.iter().any(|old| old.ino == problem.ino && similar(old, problem))
            };
            let problems = again.problems.iter().filter(|problem| both(problem)).cloned().collect();
            look = Look { problems, ..again };
        }
        seen.directories += 1;
        for problem in look.problems {
            seen.add(problem);
        }
        for (ino, space, linked) in look.nodes {
            if linked {
                let names = seen.linked.entry(ino).or_default();
                *names += 1;
                if *names > 1 {
                    continue;
                }
            }
            seen.others += 1;
            seen.space = seen.space.saturating_add(space);
            seen.files.extend(scope.files.then_some(ino));
        }
        seen.space = seen.space.saturating_add(4096 * look.below.len() as u64);
        let kept = seen.linked.len().max(seen.files.len());
        if kept > limits::LINKED_FILES {
            return Err(Failure::TooMany(kept));
        }
        if scope.recursive {
            waiting.append(&mut look.below);
        }
    }
    Ok(())
}

fn similar(one: &Problem, other: &Problem) -> bool {
    let kind = |problem: &Problem| problem.remedy.as_ref().map(std::mem::discriminant);
    kind(one) == kind(other) && one.drift == other.drift
}

impl Seen {
    fn add(&mut self, problem: Problem) {
        if self.problems.len() < limits::PROBLEMS_TOLD {
            self.problems.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Compares what was seen of a whole volume with its counters, and link counts with names.
    pub async fn settle(&mut self, whole: &Whole) -> Result<(), Failure> {
        self.count_names(whole).await?;
        let mut held = BTreeSet::new();
        for (key, _) in whole.engine.scan(&Scan::Sustained { limit: limits::LINKED_FILES }).await? {
            if let Key::Sustained { ino, .. } = key {
                held.insert(ino);
            }
        }
        let held: Vec<Ino> = held.into_iter().collect();
        for batch in held.chunks(limits::READDIR_BATCH) {
            for attr in whole.attrs(batch).await?.into_values().filter(|attr| attr.nlink == 0) {
                self.others += 1;
                self.space = self.space.saturating_add(cost(&attr));
            }
        }
        let keys = [Counter::UsedSpace, Counter::TotalInodes].map(Key::Counter);
        let found = whole.engine.read(&keys).await?;
        // Neither the root nor the root of the trash counts.
        let roots = 1 + whole.attrs(&[Ino::TRASH]).await?.len() as u64;
        let inodes = (self.directories + self.others).saturating_sub(roots);
        for ((what, expected), found) in
            [("used space", self.space), ("inodes", inodes)].into_iter().zip(found)
        {
            let found = match found {
                Some(Record::Count(n)) => n,
                _ => 0,
            };
            if found != signed(expected) {
                let text = format!("the volume says that its {what} is {found}, but it is {expected}");
                self.add(Problem { ino: Ino::ROOT, text, drift: true, remedy: None });
            }
        }
        Ok(())
    }

    async fn count_names(&mut self, whole: &Whole) -> Result<(), Failure> {
        let linked: Vec<(Ino, u32)> = std::mem::take(&mut self.linked).into_iter().collect();
        for batch in linked.chunks(limits::READDIR_BATCH) {
            let inos: Vec<Ino> = batch.iter().map(|(ino, _)| *ino).collect();
            let attrs = whole.attrs(&inos).await?;
            for (ino, names) in batch {
                // Where others are at work names come and go while they are counted.
                let attr = attrs.get(ino).filter(|attr| attr.nlink != *names && whole.engine.exclusive());
                if let Some(attr) = attr {
                    let text = format!("node {ino} has {names} names and link count {}", attr.nlink);
                    self.add(Problem { ino: *ino, text, drift: false, remedy: None });
                }
            }
        }
        Ok(())
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn cost(attr: &Attr) -> u64 {
    if attr.is_file() { align4k(attr.length) } else { 4096 }
}

fn wrong(ino: Ino, text: String, remedy: Option<Remedy>) -> Problem {
    Problem { ino, text, drift: false, remedy }
}

/// One directory: its entries, its link count, its statistics.
async fn directory(whole: &Whole, dir: Ino, path: &str, scope: Scope) -> Result<Look, Failure> {
    let mut look = Look::default();
    let shown = if path.is_empty() { "/" } else { path };
    let Some(attr) = whole.attrs(&[dir]).await?.remove(&dir) else {
        // Gone since it was seen, or never there: the entry was looked at where it is.
        return Ok(look);
    };
    let (mut after, mut sum, mut directories) = (None, [0i64; 3], 0u32);
    loop {
        let (batch, next) = whole.children(dir, after).await?;
        for Child { name, kind, ino, attr: node } in batch {
            let place = format!("{path}/{}", String::from_utf8_lossy(name.as_bytes()));
            let node = node.as_ref();
            directories += u32::from(kind == FileType::Directory);
            let length = node.filter(|attr| attr.is_file()).map_or(0, |attr| attr.length);
            let amounts = [signed(length), signed(align4k(length)), 1];
            sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum = sum.saturating_add(amount));
            entry(whole, dir, (&place, kind, ino), node, &mut look).await?;
        }
        if next.is_none() {
            break;
        }
        after = next;
    }
    // What is in the trash is not counted.
    let expected = if dir.is_trash() { 2 } else { 2 + directories };
    if attr.nlink != expected {
        let text = format!("directory {shown} has link count {}, not {expected}", attr.nlink);
        look.problems.push(wrong(dir, text, Some(Remedy::Links(expected))));
    }
    if scope.statistics {
        let found = whole.engine.read(&[Key::DirStat(dir)]).await?.into_iter().next().flatten();
        let found = match found {
            Some(Record::DirStat { length, space, inodes }) => Some([length, space, inodes]),
            _ => None,
        };
        let (off, told) = match found {
            Some(found) => {
                (found != sum, format!("statistics {found:?}, not {sum:?}: length, space, entries"))
            }
            // What is absent was never counted, and is nothing wrong.
            None => (scope.uncounted, "statistics that were never counted".to_owned()),
        };
        if off {
            let text = format!("directory {shown} has {told}");
            look.problems.push(Problem {
                ino: dir,
                text,
                drift: true,
                remedy: Some(Remedy::Statistics(sum)),
            });
        }
    }
    Ok(look)
}

/// One entry, and the node it leads to.
async fn entry(
    whole: &Whole,
    dir: Ino,
    (path, kind, ino): (&str, FileType, Ino),
    node: Option<&Attr>,
    look: &mut Look,
) -> Result<(), Failure> {
    let Some(attr) = node else {
        let remedy = (kind == FileType::Directory).then_some(Remedy::Remake(dir));
        look.problems.push(wrong(
            ino,
            format!("entry {path} leads to node {ino}, which does not exist"),
            remedy,
        ));
        return Ok(());
    };
    if attr.kind != kind {
        let text = format!("entry {path} says that node {ino} is a {kind:?}, but it is a {:?}", attr.kind);
        look.problems.push(wrong(ino, text, None));
        return Ok(());
    }
    if attr.is_dir() {
        if attr.parent == dir {
            look.below.push((ino, path.to_owned()));
        } else {
            let text =
                format!("directory {path} (node {ino}) says that it is in node {}, not {dir}", attr.parent);
            look.problems.push(wrong(ino, text, Some(Remedy::Parent(dir))));
        }
        return Ok(());
    }
    let linked = attr.parent == Ino(0) || attr.nlink != 1;
    look.nodes.push((ino, cost(attr), linked));
    if attr.parent == Ino(0) {
        let parents = whole.parents(ino).await?;
        let count: i64 = parents.values().sum();
        if !parents.contains_key(&dir) {
            let text = format!("{path} (node {ino}) does not know that it is in node {dir}");
            look.problems.push(wrong(ino, text, None));
        } else if count != i64::from(attr.nlink) {
            let text = format!(
                "{path} (node {ino}) has link count {}, and is known to have {count} names",
                attr.nlink
            );
            look.problems.push(wrong(ino, text, None));
        }
    } else if attr.parent != dir {
        let text = format!("{path} (node {ino}) says that it is in node {}, not {dir}", attr.parent);
        look.problems.push(wrong(ino, text, Some(Remedy::Parent(dir))));
    } else if attr.nlink == 0 {
        let text = format!("{path} (node {ino}) has link count 0 and a name");
        look.problems.push(wrong(ino, text, None));
    }
    Ok(())
}
