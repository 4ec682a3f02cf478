//! Which quotas a node counts for, whether they have room, and what moves between them. A volume without quotas
//! looks at nothing here. Limits are compared with what was seen, so several changes at once may overshoot a
//! little, as the format allows; usage itself is exact. Source: volume format, usage accounting and limits.

use super::Decision;
use super::draft::{Draft, Wants};
use super::space;
use crate::apply::shown;
use crate::change::{AttrDelta, AttrFields, Write};
use crate::key::{Key, Scan};
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use std::collections::BTreeSet;
use zest_types::attr::align4k;
use zest_types::{Attr, Errno, Ino};
use zest_world::planted::{self, Bug};

/// Directories with a quota from one directory up, each as often as it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Above {
    /// With a quota.
    pub dirs: Vec<Ino>,
    /// Every directory looked at, as it was seen.
    pub way: Vec<(Ino, Attr)>,
    /// How many names a node has where, as it was seen: a name may move while their number stays.
    pub names: Vec<(Key, Record)>,
}

impl Above {
    /// The way must be the same when the change is made.
    pub fn expect(&self, draft: &mut Draft) {
        for (ino, attr) in &self.way {
            draft.expect_attr(*ino, attr, AttrFields { parent: true, ..AttrFields::default() });
        }
        for (key, record) in &self.names {
            draft.expect_seen(key.clone(), Some(record));
        }
    }

    /// Adds another directory's.
    fn join(&mut self, other: &Above, times: i64) {
        for _ in 0..times {
            self.dirs.extend(&other.dirs);
        }
        self.way.extend(other.way.iter().cloned());
    }
}

/// Looks for quotas from a directory up. The trash has none.
pub fn above(dir: Ino, snapshot: &Snapshot, env: &Env<'_>) -> Result<Above, Stop> {
    let mut above = Above::default();
    if env.quota_dirs.is_empty() {
        return Ok(above);
    }
    let (mut at, mut met) = (dir, BTreeSet::new());
    while !at.is_trash() && at.0 != 0 && met.insert(at) {
        let Some(attr) = snapshot.attr(at)?.filter(|attr| attr.is_dir()) else { break };
        if env.quota_dirs.contains(&at) {
            above.dirs.push(at);
        }
        above.way.push((at, attr.clone()));
        if at == Ino::ROOT {
            break;
        }
        at = attr.parent;
    }
    Ok(above)
}

/// Looks for quotas above a node, once for each of its names.
pub fn above_node(ino: Ino, attr: &Attr, snapshot: &Snapshot, env: &Env<'_>) -> Result<Above, Stop> {
    if env.quota_dirs.is_empty() || attr.nlink == 0 {
        return Ok(Above::default());
    }
    if attr.parent != Ino(0) {
        return above(attr.parent, snapshot, env);
    }
    let (mut all, mut wants) = (Above::default(), Wants::default());
    for (key, record) in snapshot.scan(&Scan::Parents(ino))? {
        if let (Key::Parent { parent, .. }, Record::Count(n)) = (key, record)
            && *n > 0
            && let Some(one) = wants.see(above(*parent, snapshot, env))?
        {
            all.join(&one, *n);
            all.names.push((key.clone(), record.clone()));
        }
    }
    wants.settle()?;
    Ok(all)
}

/// What is to be added, and for whom.
#[derive(Clone, Copy)]
pub struct Growth {
    pub space: u64,
    pub inodes: u64,
    /// Owner and group it counts for.
    pub owner: Option<(u32, u32)>,
    /// Whether it counts for the volume.
    pub volume: bool,
}

/// `EDQUOT` or `ENOSPC` when so much more would not fit: asked of the user, the group, the volume, and the
/// directories above, in this order.
pub fn need_room(more: Growth, above: &Above, snapshot: &Snapshot, env: &Env<'_>) -> Result<(), Stop> {
    if more.space == 0 && more.inodes == 0 {
        return Ok(());
    }
    let owners = more.owner.filter(|_| env.user_quotas);
    let owners: Vec<Key> =
        owners.into_iter().flat_map(|(uid, gid)| [Key::UserQuota(uid), Key::GroupQuota(gid)]).collect();
    let dirs: Vec<Key> = above.dirs.iter().map(|dir| Key::DirQuota(*dir)).collect();
    let mut wants = Wants::default();
    wants.see(snapshot.need(&[&owners[..], &dirs[..]].concat()))?;
    let volume = || space::need_room(more.space, more.inodes, snapshot, env);
    // The volume's answer waits for its turn; only what it wants to see is asked for now.
    match volume() {
        Err(Stop::Fail(_)) => {}
        looked => {
            wants.see(if more.volume { looked } else { Ok(()) })?;
        }
    }
    wants.settle()?;
    owners.iter().try_for_each(|key| has_room(key, more, snapshot))?;
    if more.volume {
        volume()?;
    }
    dirs.iter().try_for_each(|key| has_room(key, more, snapshot))
}

fn has_room(key: &Key, more: Growth, snapshot: &Snapshot) -> Result<(), Stop> {
    let Some(record) = snapshot.get(key)? else { return Ok(()) };
    let Record::Quota { max_space, max_inodes, used_space, used_inodes } = record else {
        return Err(Errno::EIO.into());
    };
    let over = |max: i64, used: i64, more: u64| {
        more > 0 && max > 0 && used.saturating_add(i64::try_from(more).unwrap_or(i64::MAX)) > max
    };
    if over(*max_space, *used_space, more.space) || over(*max_inodes, *used_inodes, more.inodes) {
        return Err(Errno::EDQUOT.into());
    }
    Ok(())
}

/// A new node counts for its owner and for the directories above.
pub fn charge_new(draft: &mut Draft, ino: Ino, attr: &Attr, above: &Above, env: &Env<'_>) {
    above.expect(draft);
    charge_owner(draft, ino, attr, 1, env);
    if planted::active(Bug::QuotaNotCharged) {
        return;
    }
    charge_dirs(draft, ino, &above.dirs, 1);
}

/// The node joins (`1`) or leaves (`-1`) the usage of its owner and group. Hour directories of the trash count
/// for nobody.
pub fn charge_owner(draft: &mut Draft, ino: Ino, attr: &Attr, sign: i8, env: &Env<'_>) {
    if env.user_quotas && !ino.is_trash() {
        for quota in [Key::UserQuota(attr.uid), Key::GroupQuota(attr.gid)] {
            draft.write(Write::Charge { quota, ino, sign });
        }
    }
}

/// The node joins or leaves the usage of directories.
pub fn charge_dirs(draft: &mut Draft, ino: Ino, dirs: &[Ino], sign: i8) {
    for dir in dirs {
        draft.write(Write::Charge { quota: Key::DirQuota(*dir), ino, sign });
    }
}

/// A node with another owner or group counts for those. The root counts for nobody. (The original client of the
/// format moves files and directories only, and so counts wrong what other nodes cost.)
pub fn move_owner(draft: &mut Draft, ino: Ino, old: &Attr, new: &Attr, env: &Env<'_>) {
    if !env.user_quotas || ino == Ino::ROOT {
        return;
    }
    let mut swap = |from: Key, to: Key| {
        if from != to {
            draft.write(Write::Charge { quota: from, ino, sign: -1 });
            draft.write(Write::Charge { quota: to, ino, sign: 1 });
        }
    };
    swap(Key::UserQuota(old.uid), Key::UserQuota(new.uid));
    swap(Key::GroupQuota(old.gid), Key::GroupQuota(new.gid));
}

/// A file that may become longer: what it counts for, and that there is room.
pub struct Sized {
    above: Above,
    owner: Vec<Key>,
}

/// Looks whether a file of one length may have the other, and where that counts.
pub fn may_resize(
    ino: Ino,
    attr: &Attr,
    new: u64,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Sized, Stop> {
    let above = above_node(ino, attr, snapshot, env)?;
    let space = align4k(new).saturating_sub(align4k(attr.length));
    let growth = Growth { space, inodes: 0, owner: Some((attr.uid, attr.gid)), volume: true };
    need_room(growth, &above, snapshot, env)?;
    let owner = match env.user_quotas {
        true => vec![Key::UserQuota(attr.uid), Key::GroupQuota(attr.gid)],
        false => Vec::new(),
    };
    Ok(Sized { above, owner })
}

impl Sized {
    /// Writes a change of the file that may change its length.
    pub fn change(self, draft: &mut Draft, ino: Ino, attr: &Attr, delta: AttrDelta) {
        let Sized { above, owner } = self;
        if above.way.is_empty() && owner.is_empty() {
            return draft.change(ino, delta);
        }
        above.expect(draft);
        // Whose it is and where it is decide what is counted.
        let fields = AttrFields { access: true, nlink: true, parent: true, length: false, times: false };
        draft.expect_attr(ino, attr, fields);
        let quotas = owner.into_iter().chain(above.dirs.into_iter().map(Key::DirQuota)).collect();
        draft.write(Write::Resize { ino, delta, quotas });
    }
}

/// Bytes and nodes that move when a node moves, as quotas count them.
pub fn amounts(attr: &Attr) -> Result<(i64, i64), Errno> {
    shown(attr).map(|(_, space)| (space, 1)).ok_or(Errno::EIO)
}

/// Sets the limits of a quota; what is `None` stays, or is no limit. `usage` is counted by whoever asks.
pub fn set(
    quota: &Key,
    limits: (Option<i64>, Option<i64>),
    usage: Option<(i64, i64)>,
    snapshot: &Snapshot,
    env: &Env<'_>,
) -> Result<Decision, Stop> {
    let mut draft = Draft::new();
    may_set(quota, &mut draft, snapshot, env)?;
    let seen = snapshot.get(quota)?;
    let old = match seen {
        None => (-1, -1, 0, 0),
        Some(Record::Quota { max_space, max_inodes, used_space, used_inodes }) => {
            (*max_space, *max_inodes, *used_space, *used_inodes)
        }
        Some(_) => return Err(Errno::EIO.into()),
    };
    let (used_space, used_inodes) = usage.unwrap_or((old.2, old.3));
    let (max_space, max_inodes) = (limits.0.unwrap_or(old.0), limits.1.unwrap_or(old.1));
    draft.expect_seen(quota.clone(), seen);
    draft.put(quota.clone(), Record::Quota { max_space, max_inodes, used_space, used_inodes });
    draft.done(Outcome::Done)
}

/// Takes the limits away. What users and groups use is counted on.
pub fn drop(quota: &Key, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    let mut draft = Draft::new();
    if let Key::UserQuota(_) | Key::GroupQuota(_) = quota {
        return set(quota, (Some(-1), Some(-1)), None, snapshot, env);
    }
    if env.caller.uid != 0 {
        return Err(Errno::EPERM.into());
    }
    draft.delete(quota.clone());
    draft.done(Outcome::Done)
}

fn may_set(quota: &Key, draft: &mut Draft, snapshot: &Snapshot, env: &Env<'_>) -> Result<(), Stop> {
    if env.caller.uid != 0 {
        return Err(Errno::EPERM.into());
    }
    match quota {
        Key::UserQuota(_) | Key::GroupQuota(_) => Ok(()),
        Key::DirQuota(dir) if !dir.is_trash() => {
            let attr = snapshot.attr(*dir)?.ok_or(Errno::ENOENT)?;
            if !attr.is_dir() {
                return Err(Errno::ENOTDIR.into());
            }
            draft.expect_attr(*dir, attr, AttrFields::default());
            Ok(())
        }
        _ => Err(Errno::EINVAL.into()),
    }
}
