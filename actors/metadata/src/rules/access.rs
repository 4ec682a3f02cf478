//! Who may do what: mode bits and access rules, the sticky bit, immutable and append-only nodes. Mode and sticky bits count only
//! where the caller wants them checked; elsewhere the kernel has done it. Supplementary groups are not known
//! here: who belongs to a file's group is who has it as effective group.

use super::acl;
use crate::acl::Rule;
use crate::snapshot::{Snapshot, Stop};
use zest_types::attr::flags;
use zest_types::{Attr, Caller, Errno};

pub const WRITE: u8 = 2;
pub const EXECUTE: u8 = 1;

/// The access rule that decides in place of mode bits, if one does: a mode that gives the group class nothing
/// leaves nothing to it.
#[must_use]
pub fn deciding_rule(attr: &Attr, caller: &Caller) -> Option<u32> {
    let decides = caller.check && caller.uid != 0 && attr.access_acl != 0 && attr.mode & 0o070 != 0;
    decides.then_some(attr.access_acl)
}

/// Whether mode bits, or the rule that decides in their place, let the caller use the node in all these ways (bits
/// of access(2): 4 read, 2 write, 1 execute). User 0 may read and write everything, and execute what anybody may
/// execute.
#[must_use]
pub fn may(attr: &Attr, caller: &Caller, mask: u8, rule: Option<&Rule>) -> bool {
    if !caller.check {
        return true;
    }
    if caller.uid == 0 {
        return mask & EXECUTE == 0 || attr.is_dir() || attr.mode & 0o111 != 0;
    }
    if let Some(rule) = rule {
        return rule.allows(attr, caller, mask);
    }
    let shift = if caller.uid == attr.uid {
        6
    } else if caller.gid == attr.gid {
        3
    } else {
        0
    };
    (attr.mode >> shift) & u16::from(mask) == u16::from(mask)
}

/// `EACCES` unless mode bits or a rule allow it.
pub fn need(attr: &Attr, caller: &Caller, mask: u8, snapshot: &Snapshot) -> Result<(), Stop> {
    let rule = match deciding_rule(attr, caller) {
        Some(id) => Some(acl::rule(id, snapshot)?),
        None => None,
    };
    if may(attr, caller, mask, rule.as_ref()) { Ok(()) } else { Err(Errno::EACCES.into()) }
}

/// Whether the caller passes for the owner.
pub fn owns(attr: &Attr, caller: &Caller) -> bool {
    !caller.check || caller.uid == 0 || caller.uid == attr.uid
}

/// In a sticky directory only the owners of it and of the node remove or replace the node's name.
pub fn need_unstuck(dir: &Attr, node: &Attr, caller: &Caller) -> Result<(), Errno> {
    let free = dir.mode & 0o1000 == 0 || owns(dir, caller) || owns(node, caller);
    if free { Ok(()) } else { Err(Errno::EPERM) }
}

/// A node that is neither immutable nor append-only.
pub fn need_changeable(attr: &Attr) -> Result<(), Errno> {
    if attr.flags & (flags::IMMUTABLE | flags::APPEND) == 0 { Ok(()) } else { Err(Errno::EPERM) }
}

/// A node that is not immutable.
pub fn need_growable(attr: &Attr) -> Result<(), Errno> {
    if attr.flags & flags::IMMUTABLE == 0 { Ok(()) } else { Err(Errno::EPERM) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::{FileType, Ino, Time};

    #[test]
    fn the_first_class_that_fits_decides() {
        let attr = |mode| Attr::new(FileType::File, mode, 1, 2, Ino(1), Time::default());
        let caller = |uid, gid| Caller { uid, gid, pid: 1, check: true };
        for (mode, uid, gid, rights) in [
            (0o700, 1, 9, 7),
            (0o077, 1, 2, 0),
            (0o050, 9, 2, 5),
            (0o705, 9, 2, 0),
            (0o704, 9, 9, 4),
            (0o000, 0, 0, 6),
            (0o001, 0, 0, 7),
        ] {
            for mask in 0..8 {
                let granted = may(&attr(mode), &caller(uid, gid), mask, None);
                assert_eq!(granted, mask & !rights == 0, "{mode:o} for {uid}/{gid}, {mask}");
            }
        }
        assert!(may(&attr(0), &Caller { check: false, ..caller(9, 9) }, 7, None));
    }
}
