//! Rename in all its kinds: to a free name, over another node, only to a free name, and two names that change
//! places. Source: POSIX rename, Linux renameat2, volume format for what is stored.

use super::access::{self, EXECUTE, WRITE};
use super::draft::{ACCESS, ACCESS_AND_PLACE, Draft, Wants, nothing};
use super::moving::{self, Moving};
use super::parents::way_up;
use super::quota::{self, Above};
use super::removal::{Leaving, lose_name};
use super::trash::{self, Bin};
use super::unlink::first_child;
use super::{Decision, draft};
use crate::change::{AttrDelta, AttrFields};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::request::RenameMode;
use zest_types::{Attr, Caller, Errno, FileType, Ino, Name};

/// A name in a directory.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub dir: Ino,
    pub name: &'a Name,
}

/// What kind of rename.
#[derive(Clone, Copy)]
pub struct How {
    pub mode: RenameMode,
    /// Out of an hour directory of the trash, be it to a directory that lies in the trash.
    pub restores: bool,
}

/// A directory and what stands under the name there.
struct Side<'a> {
    place: Place<'a>,
    dir: &'a Attr,
    entry: Option<(FileType, Ino)>,
}

/// A node with its record and entry.
struct Node<'a> {
    entry: (FileType, Ino),
    attr: &'a Attr,
}

impl Node<'_> {
    fn ino(&self) -> Ino {
        self.entry.1
    }
}

pub fn decide(
    from: Place<'_>,
    to: Place<'_>,
    how: How,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let mode = how.mode;
    check_request(from, to, env)?;
    let keys = [from, to].map(|p| [Key::Attr(p.dir), Key::Dentry(p.dir, p.name.clone())]);
    snapshot.need(&keys.concat())?;
    let from = look(from, snapshot, &env.caller)?;
    let to = look(to, snapshot, &env.caller)?;
    if to.dir.lives_in_trash() && !how.restores {
        return Err(Errno::ENOENT.into());
    }
    if how.restores && !from.place.dir.is_trash() {
        return Err(Errno::EINVAL.into());
    }
    let entry = from.entry.ok_or(Errno::ENOENT)?;
    match (mode, to.entry) {
        (RenameMode::NoReplace, Some(_)) => return Err(Errno::EEXIST.into()),
        (RenameMode::Exchange, None) => return Err(Errno::ENOENT.into()),
        (_, Some((_, ino))) if ino == entry.1 => return nothing(Outcome::Done),
        _ => {}
    }
    for side in [&from, &to] {
        access::need(side.dir, &env.caller, WRITE, snapshot)?;
    }
    let exchange = mode == RenameMode::Exchange;
    let known = look_further(&from, &to, exchange, snapshot, env)?;
    check_flags(&from, &to, &known)?;
    check_owners(&from, &to, &known, snapshot, env)?;
    if let Some(target) = &known.target
        && !exchange
    {
        check_replace(&known.node, target, snapshot)?;
    }
    check_loops(&known)?;
    let moved = look_at_quotas(&from, &to, &known, exchange, snapshot, env)?;
    write(&from, &to, &known, moved, exchange, env)
}

/// What a rename looks at beyond the two directories and names.
struct Known<'a> {
    node: Node<'a>,
    target: Option<Node<'a>>,
    bin: Option<Bin>,
    /// From the new directory up, when a directory moves into it.
    above_to: Vec<(Ino, Attr)>,
    /// From the old directory up, when a directory moves there by exchange.
    above_from: Vec<(Ino, Attr)>,
}

/// Quotas that a rename touches.
struct Quotas {
    above_from: Above,
    above_to: Above,
    node: Moving,
    target: Moving,
}

fn look_at_quotas(
    from: &Side<'_>,
    to: &Side<'_>,
    known: &Known<'_>,
    exchange: bool,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Quotas, Stop> {
    let mut wants = Wants::default();
    let above_from = wants.see(quota::above(from.place.dir, snapshot, env))?.unwrap_or_default();
    let above_to = wants.see(quota::above(to.place.dir, snapshot, env))?.unwrap_or_default();
    wants.settle()?;
    let node = (known.node.ino(), known.node.attr);
    let node = moving::look(node, &above_from, &above_to, snapshot, env)?;
    let target = match &known.target {
        Some(target) if exchange => {
            moving::look((target.ino(), target.attr), &above_to, &above_from, snapshot, env)?
        }
        _ => Moving::default(),
    };
    Ok(Quotas { above_from, above_to, node, target })
}

fn check_request(from: Place<'_>, to: Place<'_>, env: &Env<'_>) -> Result<(), Errno> {
    let reserved = |p: Place<'_>| trash::is_reserved(p.dir, p.name);
    if reserved(from) || reserved(to) || to.dir.is_trash() || from.dir == Ino::TRASH {
        return Err(Errno::EPERM);
    }
    if from.dir.is_trash() && env.caller.uid != 0 {
        return Err(Errno::EPERM);
    }
    if from.name.is_dots() || to.name.is_dots() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn look<'a>(place: Place<'a>, snapshot: &'a Snapshot, caller: &Caller) -> Result<Side<'a>, Stop> {
    let dir = snapshot.attr(place.dir)?.ok_or(Errno::ENOENT)?;
    if !dir.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    access::need(dir, caller, EXECUTE, snapshot)?;
    Ok(Side { place, dir, entry: snapshot.dentry(place.dir, place.name)? })
}

fn look_further<'a>(
    from: &Side<'a>,
    to: &Side<'a>,
    exchange: bool,
    snapshot: &'a Snapshot,
    env: &Env<'_>,
) -> Result<Known<'a>, Stop> {
    let entry = from.entry.ok_or(Errno::ENOENT)?;
    let moves = from.place.dir != to.place.dir;
    let is_dir = |entry: Option<(FileType, Ino)>| entry.is_some_and(|(kind, _)| kind == FileType::Directory);
    let mut wants = Wants::default();
    let attr = wants.see(snapshot.attr(entry.1))?;
    let target_attr = match to.entry {
        Some((_, ino)) => wants.see(snapshot.attr(ino))?,
        None => None,
    };
    if is_dir(to.entry)
        && !exchange
        && let Some((_, ino)) = to.entry
    {
        wants.see(snapshot.scan(&first_child(ino)))?;
    }
    let mut way = |needed: bool, dir| match needed {
        true => wants.see(way_up(dir, snapshot)).map(Option::unwrap_or_default),
        false => Ok(Vec::new()),
    };
    let above_to = way(moves && is_dir(from.entry), to.place.dir)?;
    let above_from = way(moves && exchange && is_dir(to.entry), from.place.dir)?;
    if let (Some((_, ino)), false) = (to.entry, exchange) {
        wants.see(trash::foresee(to.place.dir, to.place.name, ino, snapshot, env))?;
    }
    wants.settle()?;
    let attr = attr.flatten().ok_or(Errno::ENOENT)?;
    let target = match to.entry {
        Some(entry) => Some(Node { entry, attr: target_attr.flatten().ok_or(Errno::ENOENT)? }),
        None => None,
    };
    let bin = match &target {
        Some(node) if !exchange => {
            trash::bin(to.place.dir, to.place.name, (node.ino(), node.attr), snapshot, env)?
        }
        _ => None,
    };
    Ok(Known { node: Node { entry, attr }, target, bin, above_to, above_from })
}

fn check_flags(from: &Side<'_>, to: &Side<'_>, known: &Known<'_>) -> Result<(), Errno> {
    access::need_changeable(from.dir)?;
    access::need_growable(to.dir)?;
    access::need_changeable(known.node.attr)?;
    if let Some(target) = &known.target {
        access::need_changeable(to.dir)?;
        access::need_changeable(target.attr)?;
    }
    Ok(())
}

fn check_owners(
    from: &Side<'_>,
    to: &Side<'_>,
    known: &Known<'_>,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<(), Stop> {
    let caller = &env.caller;
    access::need_unstuck(from.dir, known.node.attr, caller)?;
    if let Some(target) = &known.target {
        access::need_unstuck(to.dir, target.attr, caller)?;
    }
    // A directory that moves gets another `..`, which is a write to it.
    let moves = from.place.dir != to.place.dir;
    if moves && known.node.attr.is_dir() {
        access::need(known.node.attr, caller, WRITE, snapshot)?;
    }
    match &known.target {
        Some(target) if !known.above_from.is_empty() => access::need(target.attr, caller, WRITE, snapshot),
        _ => Ok(()),
    }
}

fn check_replace(node: &Node<'_>, target: &Node<'_>, snapshot: &Snapshot) -> Result<(), Stop> {
    match (node.attr.is_dir(), target.attr.is_dir()) {
        (true, false) => return Err(Errno::ENOTDIR.into()),
        (false, true) => return Err(Errno::EISDIR.into()),
        (false, false) => return Ok(()),
        (true, true) => {}
    }
    if snapshot.scan(&first_child(target.ino()))?.is_empty() { Ok(()) } else { Err(Errno::ENOTEMPTY.into()) }
}

fn check_loops(known: &Known<'_>) -> Result<(), Errno> {
    let on = |way: &[(Ino, Attr)], ino| way.iter().any(|(at, _)| *at == ino);
    let target = known.target.as_ref().map(Node::ino);
    if on(&known.above_to, known.node.ino()) || target.is_some_and(|ino| on(&known.above_from, ino)) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn write(
    from: &Side<'_>,
    to: &Side<'_>,
    known: &Known<'_>,
    quotas: Quotas,
    exchange: bool,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let mut draft = Draft::new();
    expect(&mut draft, from, to, known);
    quotas.above_from.expect(&mut draft);
    quotas.above_to.expect(&mut draft);
    let (old, new) = (from.place, to.place);
    let node = &known.node;
    let mut outcome = Outcome::Done;
    match &known.target {
        Some(target) if exchange => {
            draft.put_entry(old.dir, old.name, target.entry);
            settle(&mut draft, target, new.dir, old.dir, env);
            quotas.target.write(&mut draft, target.ino());
        }
        Some(target) => {
            let above = &quotas.above_to;
            let leaving = Leaving { ino: target.ino(), attr: target.attr, parent: new.dir, above };
            draft.delete(Key::Dentry(old.dir, old.name.clone()));
            outcome = lose_name(&mut draft, &leaving, known.bin.as_ref(), env);
        }
        None => draft.delete(Key::Dentry(old.dir, old.name.clone())),
    }
    draft.put_entry(new.dir, new.name, node.entry);
    settle(&mut draft, node, old.dir, new.dir, env);
    quotas.node.write(&mut draft, node.ino());
    touch_directories(&mut draft, from, to, known, exchange, env);
    draft.done(outcome)
}

fn expect(draft: &mut Draft, from: &Side<'_>, to: &Side<'_>, known: &Known<'_>) {
    draft.expect_attr(from.place.dir, from.dir, ACCESS);
    draft.expect_attr(to.place.dir, to.dir, ACCESS_AND_PLACE);
    draft.expect_entry(from.place.dir, from.place.name, known.node.entry);
    let fields = AttrFields { parent: true, ..draft::ACCESS };
    draft.expect_attr(known.node.ino(), known.node.attr, fields);
    match &known.target {
        Some(target) => {
            draft.expect_entry(to.place.dir, to.place.name, target.entry);
            draft.expect_attr(target.ino(), target.attr, fields);
        }
        None => draft.expect_absent(Key::Dentry(to.place.dir, to.place.name.clone())),
    }
    for (ino, attr) in known.above_to.iter().chain(&known.above_from) {
        draft.expect_attr(*ino, attr, AttrFields { parent: true, ..AttrFields::default() });
    }
}

/// A node that stands under another name now.
fn settle(draft: &mut Draft, node: &Node<'_>, old: Ino, new: Ino, env: &Env<'_>) {
    let mut delta = AttrDelta { touch_ctime: Some(env.now), ..AttrDelta::default() };
    if old != new {
        if node.attr.parent == Ino(0) {
            draft.count_name(node.ino(), new, 1);
            draft.count_name(node.ino(), old, -1);
        } else {
            delta.parent = Some(new);
        }
        draft.account(old, node.ino(), -1);
        draft.account(new, node.ino(), 1);
    }
    draft.change(node.ino(), delta);
}

/// Times of both directories, and their link counts by the directories that came and went.
fn touch_directories(
    draft: &mut Draft,
    from: &Side<'_>,
    to: &Side<'_>,
    known: &Known<'_>,
    exchange: bool,
    env: &Env<'_>,
) {
    let (old, new) = (from.place.dir, to.place.dir);
    let comes = i32::from(known.node.attr.is_dir());
    let goes = known.target.as_ref().map_or(0, |target| i32::from(target.attr.is_dir()));
    let back = if exchange { goes } else { 0 };
    if old == new {
        draft.touch(new, to.dir, env.now, back - goes);
        return;
    }
    draft.touch(new, to.dir, env.now, comes - goes);
    if !old.is_trash() {
        draft.touch(old, from.dir, env.now, back - comes);
    }
}
