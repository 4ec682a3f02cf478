//! Changing mode, owner, times and flags. Source: POSIX chmod, chown and utimensat, with Linux's rules for
//! setuid and setgid. Who may do it is asked here only where the caller wants checks.

use super::access::{self, WRITE};
use super::draft::{ACCESS_AND_PLACE, Draft};
use super::{Decision, acl, quota};
use crate::apply::changed;
use crate::change::AttrDelta;
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::snapshot::{Snapshot, Stop};
use zest_types::attr::flags;
use zest_types::request::{SetAttr, SetTime};
use zest_types::{Attr, Caller, Errno, Ino, Time};

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;

pub fn decide(ino: Ino, set: &SetAttr, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    snapshot.need(&[Key::Attr(ino)])?;
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    if attr.lives_in_trash() || ino.is_trash() {
        return Err(Errno::EPERM.into());
    }
    check_flags(attr, set)?;
    let caller = &env.caller;
    check_owner(attr, set, caller)?;
    check_times(attr, set, caller, snapshot)?;
    let time = |set: Option<SetTime>| -> Option<Time> {
        set.map(|set| match set {
            SetTime::Now => env.now,
            SetTime::At(time) => time,
        })
    };
    let mut draft = Draft::new();
    let (mut mode, mut access_acl) = (new_mode(attr, set, caller), None);
    if let (Some(wanted), Some(_), true) = (mode, set.mode, attr.access_acl != 0) {
        let (left, id) = acl::chmod(attr, wanted, &mut draft, snapshot)?;
        (mode, access_acl) = (Some(left), Some(id));
    }
    let delta = AttrDelta {
        mode,
        access_acl,
        uid: set.uid,
        gid: set.gid,
        flags: set.flags,
        atime: time(set.atime),
        mtime: time(set.mtime),
        touch_ctime: Some(env.now),
        ..AttrDelta::default()
    };
    let new = changed(attr, &delta).ok_or(Errno::EIO)?;
    draft.expect_attr(ino, attr, ACCESS_AND_PLACE);
    quota::move_owner(&mut draft, ino, attr, &new, env);
    draft.change(ino, delta);
    draft.done(Outcome::Node { ino, attr: new, created: false })
}

/// An immutable or append-only node changes nothing but its flags; an append-only one may be touched.
fn check_flags(attr: &Attr, set: &SetAttr) -> Result<(), Errno> {
    let explicit = |time| matches!(time, Some(SetTime::At(_)));
    let owned = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
    if owned || explicit(set.atime) || explicit(set.mtime) {
        access::need_changeable(attr)
    } else if set.atime.is_some() || set.mtime.is_some() {
        access::need_growable(attr)
    } else {
        Ok(())
    }
}

fn check_owner(attr: &Attr, set: &SetAttr, caller: &Caller) -> Result<(), Errno> {
    if !caller.check || caller.uid == 0 {
        return Ok(());
    }
    let owner = caller.uid == attr.uid;
    let foreign_user = set.uid.is_some_and(|uid| uid != attr.uid || !owner);
    let foreign_group = set.gid.is_some_and(|gid| !owner || (gid != attr.gid && gid != caller.gid));
    let protected = flags::IMMUTABLE | flags::APPEND;
    let flags = set.flags.is_some_and(|new| !owner || (new ^ attr.flags) & protected != 0);
    // Losing setuid and setgid bits is what a write by anybody does.
    let mode = set.mode.is_some_and(|mode| {
        let only_loses = (mode ^ attr.mode) & 0o1777 == 0 && mode & !attr.mode & (SETUID | SETGID) == 0;
        !owner && !only_loses
    });
    if foreign_user || foreign_group || flags || mode { Err(Errno::EPERM) } else { Ok(()) }
}

fn check_times(attr: &Attr, set: &SetAttr, caller: &Caller, snapshot: &Snapshot) -> Result<(), Stop> {
    if access::owns(attr, caller) {
        return Ok(());
    }
    let times = [set.atime, set.mtime];
    // Only the owner sets times at will. Who may write may set both to now, as a write would.
    let at_will = times.iter().any(|time| matches!(time, Some(SetTime::At(_))));
    let both_now = times.iter().all(|time| matches!(time, Some(SetTime::Now)));
    let any = times.iter().any(Option::is_some);
    match (any, at_will || !both_now) {
        (false, _) => Ok(()),
        (true, true) => Err(Errno::EPERM.into()),
        (true, false) => access::need(attr, caller, WRITE, snapshot),
    }
}

/// The mode to set, if any: a change of owner takes setuid and setgid away.
fn new_mode(attr: &Attr, set: &SetAttr, caller: &Caller) -> Option<u16> {
    let chown = set.uid.is_some() || set.gid.is_some();
    let mut mode = set.mode.map(|mode| mode & 0o7777);
    if chown {
        // The special bits of a mode that comes with a new owner are those the node has.
        let special = SETUID | SETGID;
        mode = mode.map(|mode| (mode & !special) | (attr.mode & special));
        let now = mode.unwrap_or(attr.mode);
        let kept = now & !lost_by_chown(attr, caller);
        return (mode.is_some() || kept != attr.mode).then_some(kept);
    }
    let member = !caller.check || caller.uid == 0 || caller.gid == attr.gid;
    mode.map(|mode| if member { mode } else { mode & !SETGID })
}

/// What a change of owner takes from the mode. Setgid without execute for the group once marked mandatory
/// locks and is no privilege, so user 0 may leave it.
fn lost_by_chown(attr: &Attr, caller: &Caller) -> u16 {
    if attr.is_dir() {
        0
    } else if caller.uid != 0 || attr.mode & 0o010 != 0 {
        SETUID | SETGID
    } else {
        SETUID
    }
}
