//! Access rules of nodes: what they are by id, setting and removing them, giving equal rules one id, and what they
//! become of chmod and of new nodes. Source: volume format, POSIX ACL, setfacl, mode of a new node.

use super::Decision;
use super::access;
use super::draft::{ACCESS_AND_PLACE, Draft, nothing};
use crate::acl::{AclKind, Rule};
use crate::apply::changed;
use crate::change::AttrDelta;
use crate::key::{Counter, Key};
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use zest_types::request::XattrMode;
use zest_types::{Attr, Errno, FileType, Ino, limits};

const SETGID: u16 = 0o2000;

/// The rule behind an id; one that is missing lets nobody in.
pub fn rule(id: u32, snapshot: &Snapshot) -> Result<Rule, Stop> {
    known(snapshot.get(&Key::AclRule(id))?).map_err(Stop::Fail)
}

/// The rule in what stands under its key.
pub fn known(record: Option<&Record>) -> Result<Rule, Errno> {
    match record {
        None => Ok(Rule::NOBODY),
        Some(Record::Bytes(bytes)) => Rule::decode(bytes).ok_or(Errno::EIO),
        Some(_) => Err(Errno::EIO),
    }
}

/// The id of a rule: that of an equal one among the newest, or the next one.
pub fn id_for(rule: &Rule, draft: &mut Draft, snapshot: &Snapshot) -> Result<u32, Stop> {
    let counter = Key::Counter(Counter::AclMaxId);
    let max = u32::try_from(snapshot.count(&counter)?).map_err(|_| Errno::EIO)?;
    let look = max.saturating_sub(limits::ACL_LOOK).saturating_add(1)..=max;
    let mut keys: Vec<Key> = look.clone().map(Key::AclRule).collect();
    let mut new = max.checked_add(1).ok_or(Errno::ENOSPC)?;
    keys.push(Key::AclRule(new));
    snapshot.need(&keys)?;
    let bytes = rule.encode();
    for id in look {
        if snapshot.get(&Key::AclRule(id))? == Some(&Record::Bytes(bytes.clone())) {
            return Ok(id);
        }
    }
    // An id above the counter is one whose count was lost.
    while snapshot.get(&Key::AclRule(new))?.is_some() {
        new = new.checked_add(1).ok_or(Errno::ENOSPC)?;
    }
    draft.expect_seen(counter.clone(), snapshot.get(&counter)?);
    draft.expect_absent(Key::AclRule(new));
    draft.add(counter, i64::from(new) - i64::from(max));
    draft.put(Key::AclRule(new), Record::Bytes(bytes));
    Ok(new)
}

/// A rule as an extended attribute is set (`value`) or removed.
pub fn set_shown(
    ino: Ino,
    kind: AclKind,
    value: Option<&[u8]>,
    mode: XattrMode,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if !env.acl {
        return Err(Errno::ENOTSUP.into());
    }
    let rule = value.map_or(Ok(Rule::EMPTY), Rule::from_xattr)?;
    snapshot.need(&[Key::Attr(ino)])?;
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    match (mode, kind.id(attr)) {
        (XattrMode::Create, 1..) => return Err(Errno::EEXIST.into()),
        (XattrMode::Replace, 0) => return Err(Errno::ENODATA.into()),
        _ => {}
    }
    set(ino, kind, rule, attr, snapshot, env)
}

fn set(
    ino: Ino,
    kind: AclKind,
    rule: Rule,
    attr: &Attr,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if ino.is_trash() || !access::owns(attr, &env.caller) {
        return Err(Errno::EPERM.into());
    }
    access::need_changeable(attr)?;
    match (kind, attr.kind) {
        (_, FileType::Symlink) => return Err(Errno::ENOTSUP.into()),
        (AclKind::Default, FileType::Directory) | (AclKind::Access, _) => {}
        (AclKind::Default, _) if rule.is_empty() => return nothing(Outcome::Done),
        (AclKind::Default, _) => return Err(Errno::EACCES.into()),
    }
    let mut draft = Draft::new();
    let mut mode = attr.mode;
    let id = if rule.is_empty() {
        0
    } else if kind == AclKind::Access && rule.is_minimal() {
        mode = (mode & !0o777) | rule.filled(mode).mode();
        0
    } else {
        let rule = rule.filled(mode);
        if kind == AclKind::Access {
            mode = (mode & !0o777) | rule.mode();
        }
        id_for(&rule, &mut draft, snapshot)?
    };
    if kind == AclKind::Access && env.caller.uid != 0 && env.caller.gid != attr.gid {
        mode &= !SETGID;
    }
    if id == kind.id(attr) && mode == attr.mode {
        return nothing(Outcome::Done);
    }
    let mut delta = AttrDelta { touch_ctime: Some(env.now), ..AttrDelta::default() };
    match kind {
        AclKind::Access => (delta.access_acl, delta.mode) = (Some(id), Some(mode)),
        AclKind::Default => delta.default_acl = Some(id),
    }
    draft.expect_attr(ino, attr, ACCESS_AND_PLACE);
    draft.change(ino, delta);
    let attr = changed(attr, &delta).ok_or(Errno::EIO)?;
    draft.done(Outcome::Node { ino, attr, created: false })
}

/// The mode chmod sets, and the id of the access rule that goes with it.
pub fn chmod(attr: &Attr, mode: u16, draft: &mut Draft, snapshot: &Snapshot) -> Result<(u16, u32), Stop> {
    if attr.access_acl == 0 {
        return Ok((mode, 0));
    }
    let rule = rule(attr.access_acl, snapshot)?.with_mode(mode);
    let id = id_for(&rule, draft, snapshot)?;
    Ok(((mode & !0o777) | rule.mode(), id))
}

/// What a new node gets from the default rule of its directory: mode and ids, in place of what the umask leaves.
pub fn inherit(
    dir: &Attr,
    node: &mut Attr,
    mode: u16,
    draft: &mut Draft,
    snapshot: &Snapshot,
) -> Result<(), Stop> {
    if dir.default_acl == 0 || node.kind == FileType::Symlink {
        return Ok(());
    }
    let default = rule(dir.default_acl, snapshot)?;
    let special = mode & 0o7000;
    if node.is_dir() {
        node.default_acl = dir.default_acl;
    }
    if default.is_minimal() {
        node.mode = special | (mode & default.mode());
        return Ok(());
    }
    let child = default.child(mode);
    node.mode = special | child.mode();
    node.access_acl = id_for(&child, draft, snapshot)?;
    Ok(())
}
