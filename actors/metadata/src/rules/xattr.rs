//! Extended attributes. They change the node's ctime, as on every file system of Linux; the original client of
//! the format leaves it alone, which is no difference in what is stored otherwise.

use super::Decision;
use super::access::{self, WRITE};
use super::draft::{ACCESS, Draft};
use crate::change::AttrDelta;
use crate::key::Key;
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use zest_types::request::XattrMode;
use zest_types::{Attr, Caller, Errno, Ino, Name, limits};

pub fn set(
    ino: Ino,
    name: &Name,
    value: &[u8],
    mode: XattrMode,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    if value.len() > limits::XATTR_VALUE_MAX {
        return Err(Errno::ERANGE.into());
    }
    let key = Key::Xattr(ino, name.clone());
    let mut draft = Draft::new();
    if mode == XattrMode::Any {
        snapshot.need(&[Key::Attr(ino)])?;
    } else {
        snapshot.need(&[Key::Attr(ino), key.clone()])?;
        let old = snapshot.get(&key)?;
        match (mode, old) {
            (XattrMode::Create, Some(_)) => return Err(Errno::EEXIST.into()),
            (XattrMode::Replace, None) => return Err(Errno::ENODATA.into()),
            _ => draft.expect_seen(key.clone(), old),
        }
    }
    touch(&mut draft, ino, node(ino, name, snapshot, &env.caller)?, env);
    draft.put(key, Record::Bytes(value.to_vec()));
    draft.done(Outcome::Done)
}

pub fn remove(ino: Ino, name: &Name, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    let key = Key::Xattr(ino, name.clone());
    snapshot.need(&[Key::Attr(ino), key.clone()])?;
    let attr = node(ino, name, snapshot, &env.caller)?;
    let old = snapshot.get(&key)?.ok_or(Errno::ENODATA)?;
    let mut draft = Draft::new();
    draft.expect_seen(key.clone(), Some(old));
    touch(&mut draft, ino, attr, env);
    draft.delete(key);
    draft.done(Outcome::Done)
}

/// The node, when the caller may change this attribute of it.
fn node<'a>(ino: Ino, name: &Name, snapshot: &'a Snapshot, caller: &Caller) -> Result<&'a Attr, Stop> {
    let attr = snapshot.attr(ino)?.ok_or(Errno::ENOENT)?;
    access::need_changeable(attr)?;
    if name.as_bytes().starts_with(b"user.") {
        access::need(attr, caller, WRITE, snapshot)?;
    } else if caller.check && caller.uid != 0 {
        return Err(Errno::EPERM.into());
    }
    Ok(attr)
}

fn touch(draft: &mut Draft, ino: Ino, attr: &Attr, env: &Env<'_>) {
    draft.expect_attr(ino, attr, ACCESS);
    draft.change(ino, AttrDelta { touch_ctime: Some(env.now), ..AttrDelta::default() });
}
