//! Hard links: another name for a node that is no directory. Source: volume format, link and parent counts.

use super::access::{self, WRITE};
use super::draft::{ACCESS_AND_PLACE, Draft};
use super::quota::{self, Growth};
use super::{Decision, make, trash};
use crate::apply::changed;
use crate::change::{AttrDelta, AttrFields};
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::{Errno, Ino, Name};
use zest_world::planted::{self, Bug};

pub fn decide(
    ino: Ino,
    parent: Ino,
    name: &Name,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if parent.is_trash() || trash::is_reserved(parent, name) {
        return Err(Errno::EPERM.into());
    }
    if name.is_dots() {
        return Err(Errno::EEXIST.into());
    }
    let entry = Key::Dentry(parent, name.clone());
    snapshot.need(&[Key::Attr(parent), Key::Attr(ino), entry.clone()])?;
    let node = snapshot.attr(ino)?.filter(|attr| attr.nlink > 0).ok_or(Errno::ENOENT)?;
    let dir = make::receiving_dir(parent, snapshot, &env.caller)?;
    if snapshot.dentry(parent, name)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    access::need(dir, &env.caller, WRITE, snapshot)?;
    access::need_growable(dir)?;
    if node.is_dir() {
        return Err(Errno::EPERM.into());
    }
    access::need_changeable(node)?;
    if node.nlink == u32::MAX {
        return Err(Errno::EMLINK.into());
    }

    let above = quota::above(parent, snapshot, env)?;
    let (space, inodes) = quota::amounts(node)?;
    let growth =
        Growth { space: space.unsigned_abs(), inodes: inodes.unsigned_abs(), owner: None, volume: false };
    quota::need_room(growth, &above, snapshot, env)?;

    let mut draft = Draft::new();
    above.expect(&mut draft);
    draft.expect_attr(parent, dir, ACCESS_AND_PLACE);
    draft.expect_absent(entry);
    let seen = AttrFields { access: true, nlink: true, parent: true, length: false, times: false };
    draft.expect_attr(ino, node, seen);
    let nlink = i32::from(!planted::active(Bug::LostNlink));
    let delta = AttrDelta { nlink, parent: Some(Ino(0)), touch_ctime: Some(env.now), ..AttrDelta::default() };
    if node.parent != Ino(0) {
        draft.count_name(ino, node.parent, 1);
    }
    draft.count_name(ino, parent, 1);
    draft.change(ino, delta);
    draft.put_entry(parent, name, (node.kind, ino));
    draft.account(parent, ino, 1);
    quota::charge_dirs(&mut draft, ino, &above.dirs, 1);
    draft.touch(parent, dir, env.now, 0);
    let attr = changed(node, &delta).ok_or(Errno::EMLINK)?;
    draft.done(Outcome::Node { ino, attr, created: false })
}
