//! A name of a node goes, by unlink, by rmdir or because rename puts another node there: what becomes of the
//! node. It goes to the trash, keeps its other names, waits until it is closed, or is gone. Source: volume
//! format, final removal, trash rules.

use super::draft::{Draft, EXISTS};
use super::quota::{Above, charge_dirs, charge_owner};
use super::trash::Bin;
use crate::change::{AttrDelta, AttrFields, Write};
use crate::key::{Key, Scan};
use crate::op::{Env, Outcome};
use crate::record::Record;
use zest_types::{Attr, FileType, Ino};
use zest_world::planted::{self, Bug};

/// A node that loses a name in a directory.
pub struct Leaving<'a> {
    pub ino: Ino,
    pub attr: &'a Attr,
    /// The directory.
    pub parent: Ino,
    /// Quotas above it.
    pub above: &'a Above,
}

/// Writes what becomes of a node that loses a name: everything but the entry itself and its directory's record.
pub fn lose_name(draft: &mut Draft, node: &Leaving<'_>, bin: Option<&Bin>, env: &Env<'_>) -> Outcome {
    let attr = node.attr;
    if !planted::active(Bug::StatisticsStay) {
        draft.account(node.parent, node.ino, -1);
    }
    node.above.expect(draft);
    charge_dirs(draft, node.ino, &node.above.dirs, -1);
    if attr.is_dir() {
        if !planted::active(Bug::FullDirectoryRemoved) {
            draft.expect_empty(node.ino);
        }
        draft.delete(Key::DirStat(node.ino));
        draft.delete(Key::DirQuota(node.ino));
    }
    let kept = Outcome::Removed { ino: node.ino, deleted: None };
    if let Some(bin) = bin.filter(|_| !planted::active(Bug::TrashPassedBy)) {
        draft.expect_attr(node.ino, attr, seen(true, false));
        to_trash(draft, node, bin, env);
        return kept;
    }
    if attr.nlink > 1 && !attr.is_dir() {
        draft.expect_attr(node.ino, attr, seen(true, false));
        draft.change(node.ino, AttrDelta { nlink: -1, touch_ctime: Some(env.now), ..AttrDelta::default() });
        if attr.parent == Ino(0) {
            draft.count_name(node.ino, node.parent, -1);
        }
        return kept;
    }
    draft.expect_attr(node.ino, attr, seen(true, attr.is_file()));
    if attr.parent == Ino(0) {
        draft.write(Write::DeleteAll(Scan::Parents(node.ino)));
    }
    // The number of links is expected as seen, so this takes it to 0 and not below.
    let gone = -i32::try_from(attr.nlink).unwrap_or(i32::MAX);
    let open = env.session != 0 && (env.is_open)(node.ino) && !planted::active(Bug::RemovedWhileOpen);
    if attr.is_file() && open {
        draft.change(node.ino, AttrDelta { nlink: gone, touch_ctime: Some(env.now), ..AttrDelta::default() });
        draft.put(Key::Sustained { session: env.session, ino: node.ino }, Record::Mark);
        return kept;
    }
    forget(draft, node.ino, attr, env)
}

/// Removes the records of a node that has neither names nor open handles.
pub fn forget(draft: &mut Draft, ino: Ino, attr: &Attr, env: &Env<'_>) -> Outcome {
    if !planted::active(Bug::UsageStays) {
        draft.usage(ino, -1);
    }
    charge_owner(draft, ino, attr, -1, env);
    draft.delete(Key::Attr(ino));
    draft.write(Write::DeleteAll(Scan::Xattrs(ino)));
    match attr.kind {
        FileType::File => {
            draft.put(Key::Deleted { ino, length: attr.length }, Record::Stamp(env.now.sec));
            return Outcome::Removed { ino, deleted: Some(attr.length) };
        }
        FileType::Symlink => draft.delete(Key::Symlink(ino)),
        _ => {}
    }
    Outcome::Removed { ino, deleted: None }
}

/// What a removal looks at: flags and owner, names left, where it is; and the length when data are to go.
fn seen(nlink: bool, length: bool) -> AttrFields {
    AttrFields { access: true, nlink, length, parent: true, times: false }
}

fn to_trash(draft: &mut Draft, node: &Leaving<'_>, bin: &Bin, env: &Env<'_>) {
    let single = node.attr.parent != Ino(0);
    draft.expect_attr(bin.hour, &bin.hour_attr, EXISTS);
    draft.expect_absent(Key::Dentry(bin.hour, bin.name.clone()));
    let parent = single.then_some(bin.hour);
    draft.change(node.ino, AttrDelta { parent, touch_ctime: Some(env.now), ..AttrDelta::default() });
    if !single {
        draft.count_name(node.ino, bin.hour, 1);
        draft.count_name(node.ino, node.parent, -1);
    }
    draft.put_entry(bin.hour, &bin.name, (node.attr.kind, node.ino));
    draft.account(bin.hour, node.ino, 1);
}
