//! Whether the volume has room. The numbers are not expected to hold until the commit, so several changes at
//! once may overshoot a little, as the format allows.

use super::draft::Wants;
use crate::key::{Counter, Key};
use crate::op::Env;
use crate::snapshot::{Snapshot, Stop};
use zest_types::{Errno, limits};

/// `ENOSPC` when so many bytes and inodes more would not fit.
pub fn need_room(space: u64, inodes: u64, snapshot: &Snapshot, env: &Env<'_>) -> Result<(), Stop> {
    let (max_space, max_inodes) = env.capacity;
    let mut wants = Wants::default();
    let mut used = |counter, max: u64, more: u64| {
        if max == 0 || more == 0 {
            return Ok(None);
        }
        wants.see(snapshot.count(&Key::Counter(counter)))
    };
    let used_space = used(Counter::UsedSpace, max_space, space)?;
    let used_inodes = used(Counter::TotalInodes, max_inodes, inodes)?;
    wants.settle()?;
    let full = |used: Option<i64>, more: u64, max: u64| {
        used.is_some_and(|used| u64::try_from(used).unwrap_or(0).saturating_add(more) > max)
    };
    if full(used_space, space, max_space) || full(used_inodes, inodes, max_inodes) {
        return Err(Errno::ENOSPC.into());
    }
    Ok(())
}

/// The end of a range of a file; `EFBIG` when no file reaches that far.
pub fn end_of(offset: u64, len: u64) -> Result<u64, Errno> {
    offset.checked_add(len).filter(|end| *end < limits::FILE_MAX).ok_or(Errno::EFBIG)
}
