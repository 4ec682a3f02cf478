//! The reference tree: names, nodes, link counts, attributes and extended attributes of one possible state of the
//! volume. File bytes, lengths and modification times of files are judged by `body`. `apply` says what a call
//! does to the tree and what it must be answered; it is the only place that does, live and after a crash alike.

use super::stamp::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zest_types::request::{RenameMode, SetAttr, XattrMode};
use zest_types::{Attr, Errno, FileType, Ino, Name, Request};

/// Number of a node in the judge's own counting: the number of the call that made it, 0 for the root.
pub type NodeId = u64;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Node {
    pub kind: FileType,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub nlink: u32,
    /// Open handles; a node without names lives as long as there are any.
    pub opens: u32,
    /// As the accused calls it, once that was seen.
    pub ino: Option<Ino>,
    /// Of a directory.
    pub entries: BTreeMap<Name, NodeId>,
    /// Of a directory: where its one name is.
    pub parent: NodeId,
    /// Of a symlink.
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Name, Vec<u8>>,
    /// It had more than one name at some time.
    pub linked: bool,
    /// Its only name is one in the trash.
    pub trashed: bool,
    /// Of everything but files.
    pub mtime: Stamp,
    /// Of everything but files, where it is a lower bound only.
    pub ctime: Stamp,
}

/// What a call must be answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// One of these errors.
    Fail(Vec<Errno>),
    /// Success with nothing to look at.
    Done,
    /// This node, as it was at that moment.
    Node(NodeId, Rc<Node>),
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// Exactly these attribute names.
    Names(Vec<Name>),
    /// Exactly these entries.
    Listing(BTreeMap<Name, (FileType, NodeId)>),
    /// The tree has no opinion.
    Anything,
}

/// One possible state of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    pub(super) nodes: BTreeMap<NodeId, Rc<Node>>,
    by_ino: BTreeMap<Ino, NodeId>,
    /// Names in the trash: the directory they were in, the node, the name. `None`: this volume has no trash.
    bins: Option<BTreeSet<(Ino, Ino, Name)>>,
}

const O_ACCMODE: u32 = 3;

type Verdict = Result<Expect, Vec<Errno>>;

fn fail<T>(errno: Errno) -> Result<T, Vec<Errno>> {
    Err(vec![errno])
}

impl Node {
    /// A fresh node.
    #[must_use]
    pub fn new(kind: FileType, mode: u16, when: Stamp) -> Node {
        Node {
            kind,
            mode,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            opens: 0,
            ino: None,
            entries: BTreeMap::new(),
            parent: 0,
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            linked: false,
            trashed: false,
            mtime: when,
            ctime: when,
        }
    }

    fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// The first difference between this and attributes that were seen.
    pub fn differs(&self, attr: &Attr) -> Option<String> {
        let numbers = [
            ("mode", u64::from(self.mode), u64::from(attr.mode)),
            ("uid", u64::from(self.uid), u64::from(attr.uid)),
            ("gid", u64::from(self.gid), u64::from(attr.gid)),
            ("nlink", u64::from(self.nlink), u64::from(attr.nlink)),
            ("rdev", u64::from(self.rdev), u64::from(attr.rdev)),
        ];
        if self.kind != attr.kind {
            return Some(format!("kind {:?}, expected {:?}", attr.kind, self.kind));
        }
        if let Some((what, right, seen)) = numbers.into_iter().find(|(_, right, seen)| right != seen) {
            return Some(format!("{what} {seen}, expected {right}"));
        }
        if self.kind == FileType::Symlink && attr.length != self.target.len() as u64 {
            return Some(format!("length {} of a symlink to {} bytes", attr.length, self.target.len()));
        }
        if self.kind == FileType::File {
            return (attr.ctime < self.ctime.low).then(|| format!("ctime {:?} is too old", attr.ctime));
        }
        [("mtime", self.mtime, attr.mtime), ("ctime", self.ctime, attr.ctime)]
            .into_iter()
            .find(|(_, right, seen)| !right.holds(*seen))
            .map(|(what, right, seen)| {
                format!("{what} {seen:?}, expected {:?} to {:?}", right.low, right.high)
            })
    }
}

impl Tree {
    /// A tree with a root directory and nothing else but names in the trash, if there is one.
    #[must_use]
    pub fn new(root: Node, bins: Option<BTreeSet<(Ino, Ino, Name)>>) -> Tree {
        let mut tree = Tree { nodes: BTreeMap::new(), by_ino: BTreeMap::new(), bins };
        tree.insert(0, Node { ino: Some(Ino::ROOT), ..root });
        tree
    }

    /// A name that must be in the trash, and is not among those found there.
    pub(super) fn missing_bin(&self, found: &BTreeSet<(Ino, Ino, Name)>) -> Option<&(Ino, Ino, Name)> {
        let known = |bin: &&(Ino, Ino, Name)| bin.0 != Ino::default() && bin.1 != Ino::default();
        self.bins.iter().flatten().filter(known).find(|bin| !found.contains(*bin))
    }

    pub(super) fn insert(&mut self, id: NodeId, node: Node) {
        if let Some(ino) = node.ino {
            self.by_ino.insert(ino, id);
        }
        self.nodes.insert(id, Rc::new(node));
    }

    /// The node the accused calls `ino`.
    #[must_use]
    pub fn node_of(&self, ino: Ino) -> Option<(NodeId, &Rc<Node>)> {
        let id = self.by_ino.get(&ino)?;
        Some((*id, self.nodes.get(id)?))
    }

    /// A node, if it is still there.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Rc<Node>> {
        self.nodes.get(&id)
    }

    /// Learns what the accused calls a node. False when that can't be.
    pub fn learn(&mut self, id: NodeId, ino: Ino) -> bool {
        match self.nodes.get(&id).map(|node| node.ino) {
            Some(Some(known)) => known == ino,
            None => self.by_ino.get(&ino).is_none_or(|known| *known == id),
            Some(None) => {
                if self.by_ino.contains_key(&ino) {
                    return false;
                }
                self.edit(id, |node| node.ino = Some(ino));
                self.by_ino.insert(ino, id);
                true
            }
        }
    }

    /// Learns exact times, if the node still is as it was when they were seen.
    pub fn learn_times(&mut self, id: NodeId, seen: &Node, attr: &Attr) {
        let same = |now: &Node| now.mtime == seen.mtime && now.ctime == seen.ctime;
        if seen.kind != FileType::File && self.nodes.get(&id).is_some_and(|now| same(now)) {
            self.edit(id, |node| {
                node.mtime = Stamp::exactly(attr.mtime);
                node.ctime = Stamp::exactly(attr.ctime);
            });
        }
    }

    fn edit(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(&id) {
            change(Rc::make_mut(node));
        }
    }

    fn enter(&mut self, dir: NodeId, name: &Name, id: NodeId) {
        self.edit(dir, |dir| {
            dir.entries.insert(name.clone(), id);
        });
    }

    fn leave(&mut self, dir: NodeId, name: &Name) {
        self.edit(dir, |dir| {
            dir.entries.remove(name);
        });
    }

    fn touch(&mut self, id: NodeId, when: Stamp, nlink: i32) {
        self.edit(id, |node| {
            node.mtime = node.mtime.touched(when);
            node.ctime = node.ctime.touched(when);
            node.nlink = node.nlink.saturating_add_signed(nlink);
        });
    }

    fn changed(&mut self, id: NodeId, when: Stamp) {
        self.edit(id, |node| node.ctime = node.ctime.touched(when));
    }

    /// Does what a call does, and says what it must be answered. `when` is the span in which it was decided.
    pub fn apply(&mut self, call: u64, request: &Request<'_>, when: Stamp) -> Expect {
        match self.decide(call, request, when) {
            Ok(expect) => expect,
            Err(errnos) => Expect::Fail(errnos),
        }
    }

    fn decide(&mut self, call: u64, request: &Request<'_>, when: Stamp) -> Verdict {
        match request {
            Request::Lookup { parent, name } => {
                let child = self.child(*parent, name)?;
                self.shown(child)
            }
            Request::GetAttr { ino } => self.shown(self.find(*ino)?),
            Request::SetAttr { ino, set, handle } => {
                let id = self.find(*ino)?;
                if self.nodes[&id].trashed && !(set.size.is_some() && handle.is_some()) {
                    return fail(Errno::EPERM);
                }
                self.set_attr(id, set, when)
            }
            Request::Readlink { ino } => self.readlink(self.find(*ino)?),
            Request::Mknod { parent, name, kind, mode, umask, rdev } => {
                let node = Node { rdev: *rdev, ..Node::new(*kind, mode & !umask, when) };
                self.make(call, *parent, name, node, when)
            }
            Request::Mkdir { parent, name, mode, umask } => {
                self.make(call, *parent, name, Node::new(FileType::Directory, mode & !umask, when), when)
            }
            Request::Symlink { parent, name, target } => {
                let node = Node { target: target.clone(), ..Node::new(FileType::Symlink, 0o777, when) };
                self.make(call, *parent, name, node, when)
            }
            Request::Create { parent, name, mode, umask, flags } => {
                let node = Node::new(FileType::File, mode & !umask, when);
                self.create(call, *parent, name, node, *flags, when)
            }
            Request::Unlink { parent, name } => self.unlink(*parent, name, when),
            Request::Rmdir { parent, name } => self.rmdir(*parent, name, when),
            Request::Rename { parent, name, new_parent, new_name, mode } => {
                self.rename((*parent, name), (*new_parent, new_name), *mode, when)
            }
            Request::Link { ino, parent, name } => self.link(*ino, *parent, name, when),
            Request::Open { ino, flags } => {
                let id = self.find(*ino)?;
                if self.nodes[&id].trashed && flags & O_ACCMODE != 0 {
                    return fail(Errno::EPERM);
                }
                self.edit(id, |node| node.opens += 1);
                Ok(Expect::Done)
            }
            Request::Release { ino, .. } => {
                if let Ok(id) = self.find(*ino) {
                    self.edit(id, |node| node.opens = node.opens.saturating_sub(1));
                    self.bury(id);
                }
                Ok(Expect::Done)
            }
            Request::SetXattr { .. }
            | Request::RemoveXattr { .. }
            | Request::GetXattr { .. }
            | Request::ListXattr { .. } => self.decide_xattr(request, when),
            Request::OpenDir { ino } => self.listing(*ino),
            Request::Access { ino, .. } | Request::FsyncDir { ino } => self.find(*ino).map(|_| Expect::Done),
            _ => Ok(Expect::Anything),
        }
    }

    fn decide_xattr(&mut self, request: &Request<'_>, when: Stamp) -> Verdict {
        match request {
            Request::SetXattr { ino, name, value, mode } => {
                self.set_xattr(self.find(*ino)?, name, value, *mode, when)
            }
            Request::RemoveXattr { ino, name } => {
                let id = self.find(*ino)?;
                if !self.nodes[&id].xattrs.contains_key(name) {
                    return fail(Errno::ENODATA);
                }
                self.edit(id, |node| node.xattrs.retain(|known, _| known != name));
                self.perhaps_changed(id, when);
                Ok(Expect::Done)
            }
            Request::GetXattr { ino, name } => {
                let node = &self.nodes[&self.find(*ino)?];
                node.xattrs
                    .get(name)
                    .map_or_else(|| fail(Errno::ENODATA), |value| Ok(Expect::Bytes(value.clone())))
            }
            Request::ListXattr { ino } => {
                Ok(Expect::Names(self.nodes[&self.find(*ino)?].xattrs.keys().cloned().collect()))
            }
            _ => Ok(Expect::Anything),
        }
    }

    fn find(&self, ino: Ino) -> Result<NodeId, Vec<Errno>> {
        self.node_of(ino).map_or_else(|| Err(vec![Errno::ENOENT, Errno::ESTALE]), |(id, _)| Ok(id))
    }

    fn dir(&self, ino: Ino) -> Result<NodeId, Vec<Errno>> {
        let id = self.find(ino)?;
        if self.nodes[&id].is_dir() { Ok(id) } else { fail(Errno::ENOTDIR) }
    }

    /// A directory that takes new names: not one in the trash.
    fn open_dir(&self, ino: Ino) -> Result<NodeId, Vec<Errno>> {
        let id = self.dir(ino)?;
        if self.nodes[&id].trashed { fail(Errno::ENOENT) } else { Ok(id) }
    }

    fn child(&self, parent: Ino, name: &Name) -> Result<NodeId, Vec<Errno>> {
        let dir = self.dir(parent)?;
        self.nodes[&dir].entries.get(name).copied().ok_or_else(|| vec![Errno::ENOENT])
    }

    fn shown(&self, id: NodeId) -> Verdict {
        self.nodes.get(&id).map_or_else(|| fail(Errno::ENOENT), |node| Ok(Expect::Node(id, node.clone())))
    }

    fn readlink(&self, id: NodeId) -> Verdict {
        let node = &self.nodes[&id];
        if node.kind == FileType::Symlink {
            Ok(Expect::Bytes(node.target.clone()))
        } else {
            fail(Errno::EINVAL)
        }
    }

    fn listing(&self, ino: Ino) -> Verdict {
        let dir = self.dir(ino)?;
        let entries = &self.nodes[&dir].entries;
        Ok(Expect::Listing(
            entries.iter().map(|(name, id)| (name.clone(), (self.nodes[id].kind, *id))).collect(),
        ))
    }

    fn make(&mut self, call: u64, parent: Ino, name: &Name, mut node: Node, when: Stamp) -> Verdict {
        let dir = self.open_dir(parent)?;
        if self.nodes[&dir].entries.contains_key(name) {
            return fail(Errno::EEXIST);
        }
        node.parent = dir;
        let (mode, gid) = (self.nodes[&dir].mode, self.nodes[&dir].gid);
        if mode & 0o2000 != 0 {
            node.gid = gid;
            node.mode |= if node.is_dir() { 0o2000 } else { 0 };
        }
        let subdirs = i32::from(node.is_dir());
        self.insert(call, node);
        self.enter(dir, name, call);
        self.touch(dir, when, subdirs);
        self.shown(call)
    }

    fn create(
        &mut self,
        call: u64,
        parent: Ino,
        name: &Name,
        mut node: Node,
        flags: u32,
        when: Stamp,
    ) -> Verdict {
        const O_EXCL: u32 = 0o200;
        if let Ok(id) = self.child(parent, name) {
            if flags & O_EXCL != 0 || self.nodes[&id].kind != FileType::File {
                return Err(vec![Errno::EEXIST, Errno::EISDIR, Errno::ELOOP]);
            }
            self.edit(id, |node| node.opens += 1);
            return self.shown(id);
        }
        node.opens = 1;
        self.make(call, parent, name, node, when)
    }

    fn unlink(&mut self, parent: Ino, name: &Name, when: Stamp) -> Verdict {
        let (dir, id) = (self.dir(parent)?, self.child(parent, name)?);
        if self.nodes[&id].is_dir() {
            return Err(vec![Errno::EISDIR, Errno::EPERM]);
        }
        self.leave(dir, name);
        self.touch(dir, when, 0);
        self.drop_name(id, dir, name, when);
        Ok(Expect::Done)
    }

    /// A name of something that is no directory is gone.
    fn drop_name(&mut self, id: NodeId, dir: NodeId, name: &Name, when: Stamp) {
        if self.move_to_trash(id, dir, name, when) {
            return;
        }
        self.edit(id, |node| node.nlink = node.nlink.saturating_sub(1));
        self.changed(id, when);
        self.bury(id);
    }

    /// Whether a name went to the trash, where it counts as one. A second name of that name does not.
    fn move_to_trash(&mut self, id: NodeId, dir: NodeId, name: &Name, when: Stamp) -> bool {
        let inos = (self.nodes[&dir].ino.unwrap_or_default(), self.nodes[&id].ino.unwrap_or_default());
        let Some(bins) = &mut self.bins else { return false };
        if !bins.insert((inos.0, inos.1, name.clone())) {
            return false;
        }
        self.edit(id, |node| node.trashed = !node.linked);
        self.changed(id, when);
        true
    }

    /// A directory that is empty loses its name.
    fn drop_dir(&mut self, id: NodeId, dir: NodeId, name: &Name, when: Stamp) {
        if !self.move_to_trash(id, dir, name, when) {
            self.nodes.remove(&id);
        }
    }

    fn bury(&mut self, id: NodeId) {
        if self.nodes.get(&id).is_some_and(|node| node.nlink == 0 && node.opens == 0) {
            self.nodes.remove(&id);
        }
    }

    fn rmdir(&mut self, parent: Ino, name: &Name, when: Stamp) -> Verdict {
        let (dir, id) = (self.dir(parent)?, self.child(parent, name)?);
        if !self.nodes[&id].is_dir() {
            return fail(Errno::ENOTDIR);
        }
        if !self.nodes[&id].entries.is_empty() {
            return Err(vec![Errno::ENOTEMPTY, Errno::EEXIST]);
        }
        self.leave(dir, name);
        self.touch(dir, when, -1);
        self.drop_dir(id, dir, name, when);
        Ok(Expect::Done)
    }

    fn link(&mut self, ino: Ino, parent: Ino, name: &Name, when: Stamp) -> Verdict {
        let mut errnos = Vec::new();
        let node = self.find(ino);
        match &node {
            Err(gone) => errnos.extend(gone),
            Ok(id) if self.nodes[id].is_dir() => errnos.push(Errno::EPERM),
            Ok(id) if self.nodes[id].nlink == 0 => errnos.push(Errno::ENOENT),
            Ok(_) => {}
        }
        let dir = self.open_dir(parent);
        match &dir {
            Err(wrong) => errnos.extend(wrong),
            Ok(dir) if self.nodes[dir].entries.contains_key(name) => errnos.push(Errno::EEXIST),
            Ok(_) => {}
        }
        let (Ok(id), Ok(dir), true) = (node, dir, errnos.is_empty()) else { return Err(errnos) };
        self.enter(dir, name, id);
        self.touch(dir, when, 0);
        self.edit(id, |node| {
            node.nlink += 1;
            (node.linked, node.trashed) = (true, false);
        });
        self.changed(id, when);
        self.shown(id)
    }

    fn is_within(&self, mut id: NodeId, above: NodeId) -> bool {
        while id != above && id != 0 {
            id = self.nodes.get(&id).map_or(0, |node| node.parent);
        }
        id == above
    }

    /// Everything that speaks against a rename.
    fn rename_errnos(
        &self,
        from: (NodeId, NodeId),
        to: (NodeId, Option<NodeId>),
        mode: RenameMode,
    ) -> Vec<Errno> {
        let (node, mut errnos) = (&self.nodes[&from.1], Vec::new());
        let exchange = mode == RenameMode::Exchange;
        if node.is_dir() && self.is_within(to.0, from.1) {
            errnos.extend([Errno::EINVAL, Errno::EPERM]);
        }
        match to.1 {
            None if exchange => errnos.push(Errno::ENOENT),
            None => {}
            Some(_) if mode == RenameMode::NoReplace => errnos.push(Errno::EEXIST),
            Some(target) => {
                let other = &self.nodes[&target];
                if other.is_dir() && self.is_within(from.0, target) {
                    errnos.extend([Errno::EINVAL, Errno::EPERM, Errno::ENOTEMPTY]);
                }
                match (node.is_dir(), other.is_dir()) {
                    _ if exchange => {}
                    (true, false) => errnos.push(Errno::ENOTDIR),
                    (false, true) => errnos.push(Errno::EISDIR),
                    (true, true) if !other.entries.is_empty() => {
                        errnos.extend([Errno::ENOTEMPTY, Errno::EEXIST]);
                    }
                    _ => {}
                }
            }
        }
        errnos
    }

    fn rename(&mut self, from: (Ino, &Name), to: (Ino, &Name), mode: RenameMode, when: Stamp) -> Verdict {
        let (old_dir, new_dir) = match (self.dir(from.0), self.open_dir(to.0)) {
            (Ok(old), Ok(new)) => (old, new),
            (old, new) => {
                return Err(old
                    .err()
                    .into_iter()
                    .chain(new.err())
                    .flatten()
                    .chain([Errno::ENOENT])
                    .collect());
            }
        };
        let id = self.child(from.0, from.1)?;
        let target = self.child(to.0, to.1).ok();
        if target == Some(id) && mode != RenameMode::NoReplace {
            return Ok(Expect::Done);
        }
        let errnos = self.rename_errnos((old_dir, id), (new_dir, target), mode);
        if !errnos.is_empty() {
            return Err(errnos);
        }
        self.enter(new_dir, to.1, id);
        let back = target.filter(|_| mode == RenameMode::Exchange);
        match back {
            Some(other) => {
                self.enter(old_dir, from.1, other);
                self.moved(other, new_dir, old_dir, when);
            }
            None => self.leave(old_dir, from.1),
        }
        if let Some(replaced) = target.filter(|_| back.is_none()) {
            self.replaced(replaced, new_dir, to.1, when);
        }
        self.moved(id, old_dir, new_dir, when);
        self.touch(old_dir, when, 0);
        self.touch(new_dir, when, 0);
        Ok(Expect::Done)
    }

    fn moved(&mut self, id: NodeId, old_dir: NodeId, new_dir: NodeId, when: Stamp) {
        self.changed(id, when);
        if self.nodes[&id].is_dir() {
            self.edit(id, |node| node.parent = new_dir);
            self.edit(old_dir, |dir| dir.nlink = dir.nlink.saturating_sub(1));
            self.edit(new_dir, |dir| dir.nlink += 1);
        }
    }

    fn replaced(&mut self, id: NodeId, dir: NodeId, name: &Name, when: Stamp) {
        if self.nodes[&id].is_dir() {
            self.drop_dir(id, dir, name, when);
            self.edit(dir, |dir| dir.nlink = dir.nlink.saturating_sub(1));
        } else {
            self.drop_name(id, dir, name, when);
        }
    }

    fn set_attr(&mut self, id: NodeId, set: &SetAttr, when: Stamp) -> Verdict {
        let before = self.nodes[&id].clone();
        self.edit(id, |node| {
            node.mode = set.mode.unwrap_or(node.mode);
            node.uid = set.uid.unwrap_or(node.uid);
            node.gid = set.gid.unwrap_or(node.gid);
            match set.mtime {
                Some(zest_types::request::SetTime::At(time)) => node.mtime = Stamp::exactly(time),
                Some(zest_types::request::SetTime::Now) => node.mtime = when,
                None => {}
            }
        });
        let after = &self.nodes[&id];
        if after.mode == before.mode && after.uid == before.uid && after.gid == before.gid {
            self.perhaps_changed(id, when);
        } else {
            self.changed(id, when);
        }
        self.shown(id)
    }

    /// Something was set that may have been so before, or that need not show in the time of change.
    fn perhaps_changed(&mut self, id: NodeId, when: Stamp) {
        self.edit(id, |node| node.ctime.high = node.ctime.high.max(when.high));
    }

    fn set_xattr(&mut self, id: NodeId, name: &Name, value: &[u8], mode: XattrMode, when: Stamp) -> Verdict {
        match (mode, self.nodes[&id].xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return fail(Errno::EEXIST),
            (XattrMode::Replace, false) => return fail(Errno::ENODATA),
            _ => {}
        }
        self.edit(id, |node| drop(node.xattrs.insert(name.clone(), value.to_vec())));
        self.perhaps_changed(id, when);
        Ok(Expect::Done)
    }
}
