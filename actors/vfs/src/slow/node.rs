//! One node: its attributes, its target, whether one may use it; and the volume's numbers.

use super::Task;
use std::collections::BTreeSet;
use zest_metadata::{Counter, Key, Op, Outcome, Record, Scan};
use zest_types::request::{SetAttr, SetTime, Statfs};
use zest_types::{Errno, Handle, Ino, Response, ServeResult};

/// What a volume without a limit says it holds, bytes.
const UNLIMITED: u64 = 1 << 50;
/// What a volume without a limit says it holds, inodes.
const UNLIMITED_INODES: u64 = 10 << 20;

impl Task {
    pub(super) async fn node(&self, ino: Ino) -> ServeResult {
        let attr = self.shown_attr(ino).await?;
        if attr.nlink == 0 && !self.shared.exclusive && !self.shared.files.may_be_open(ino) {
            // Others removed it and still have it open.
            return Err(Errno::ESTALE);
        }
        Ok(Response::Attr { ino, attr })
    }

    pub(super) async fn set_attr(&self, ino: Ino, mut set: SetAttr, handle: Option<Handle>) -> ServeResult {
        if let Some(size) = set.size.take() {
            let through_handle = match handle {
                Some(handle) => self.shared.file(handle).is_ok_and(|file| file.writable),
                None => false,
            };
            let changed = self.truncate(ino, size, through_handle).await?;
            if set == SetAttr::default() {
                return Ok(changed);
            }
        }
        // Writes before a time was set by hand must not move it when they are committed.
        let time = set.mtime.map(|time| match time {
            SetTime::At(time) => time,
            SetTime::Now => self.shared.world.clock.now(),
        });
        if let (Some(time), Some(file)) = (time, self.shared.files.get(ino)) {
            file.writer().set_mtime(time);
        }
        let pending = self.shared.pending(ino);
        match self.change(Op::SetAttr { ino, set }).await? {
            Outcome::Node { ino, attr, .. } => {
                Ok(Response::Attr { ino, attr: self.shared.with_pending(ino, attr, pending) })
            }
            _ => Err(Errno::EIO),
        }
    }

    pub(super) async fn read_link(&self, ino: Ino) -> ServeResult {
        match self.look(vec![Key::Symlink(ino)]).await?.pop().flatten() {
            Some(Record::Bytes(target)) => Ok(Response::Target(target)),
            Some(_) => Err(Errno::EIO),
            None => {
                let attr = self.fresh_attr(ino).await?;
                Err(if attr.kind == zest_types::FileType::Symlink { Errno::EIO } else { Errno::EINVAL })
            }
        }
    }

    pub(super) async fn access(&self, ino: Ino, mask: u8) -> ServeResult {
        let attr = self.attr(ino).await?;
        if mask & 2 != 0 && self.shared.refuses_changes() {
            return Err(Errno::EROFS);
        }
        self.need(&attr, mask).await?;
        Ok(Response::Done)
    }

    pub(super) async fn statfs(&self, ino: Ino) -> ServeResult {
        let keys = vec![Key::Counter(Counter::UsedSpace), Key::Counter(Counter::TotalInodes)];
        let counts = self.look(keys).await?;
        let count = |record: Option<&Option<Record>>| match record {
            Some(Some(Record::Count(n))) => u64::try_from(*n).unwrap_or(0),
            _ => 0,
        };
        let (used, inodes) = (count(counts.first()), count(counts.get(1)));
        let (capacity, max_inodes) = self.shared.live.capacity();
        let total = if capacity > 0 { capacity.max(used) } else { grown(UNLIMITED, used, 10, 8) };
        let all_inodes =
            if max_inodes > 0 { max_inodes.max(inodes) } else { grown(UNLIMITED_INODES, inodes, 5, 4) };
        let whole = Statfs { total, available: total - used, inodes, inodes_available: all_inodes - inodes };
        Ok(Response::Statfs(self.under_quotas(ino, whole).await?))
    }

    /// The numbers under the quotas of a directory and of those above it: each may leave less, and the nearest says
    /// what is used.
    async fn under_quotas(&self, mut ino: Ino, mut whole: Statfs) -> Result<Statfs, Errno> {
        if self.find(Scan::DirQuotas { limit: 1 }, false).await?.is_empty() {
            return Ok(whole);
        }
        let (mut nearest, mut met) = (None, BTreeSet::new());
        let positive = |n: i64| u64::try_from(n).unwrap_or(0);
        while !ino.is_trash() && met.insert(ino) {
            let mut found = self.look(vec![Key::Attr(ino), Key::DirQuota(ino)]).await?;
            let (quota, attr) = (found.pop().flatten(), found.pop().flatten());
            if let Some(Record::Quota { max_space, max_inodes, used_space, used_inodes }) = quota {
                let (space, inodes) = (positive(used_space), positive(used_inodes));
                nearest = nearest.or(Some((space, inodes)));
                if max_space > 0 {
                    whole.available = whole.available.min(positive(max_space).saturating_sub(space));
                }
                if max_inodes > 0 {
                    let left = positive(max_inodes).saturating_sub(inodes);
                    whole.inodes_available = whole.inodes_available.min(left);
                }
            }
            match attr {
                Some(Record::Attr(attr)) if ino != Ino::ROOT => ino = attr.parent,
                _ => break,
            }
        }
        if let Some((space, inodes)) = nearest {
            whole.total = space.saturating_add(whole.available);
            whole.inodes = inodes;
        }
        Ok(whole)
    }
}

/// Doubles a volume without a limit until what is used is at most `most / of` of it.
fn grown(mut total: u64, used: u64, of: u64, most: u64) -> u64 {
    while total < u64::MAX / 16 && total * most < used * of {
        total *= 2;
    }
    total.max(used)
}
