//! Emptying the trash: hour directories that are older than the volume keeps them, and what compaction replaced as long
//! ago. The same for a mount and for a command.

use crate::records::Records;
use zest_metadata::trash::days_of;
use zest_metadata::{Key, Op, Outcome, Scan};
use zest_types::{Errno, FileType, Ino, SliceId, limits};
use zest_world::planted::{self, Bug};

/// Hours that pass after the last full day before an hour directory goes.
const GRACE_HOURS: i64 = 2;

/// Empties and removes every hour directory that is old enough at `now`; tells of how many nodes. `deleted` hears of
/// files whose data may go. Where the trash is off, what is in it since it was on stays until somebody empties it.
pub async fn empty(
    records: &impl Records,
    now: i64,
    days: u32,
    deleted: &dyn Fn(Ino, u64),
) -> Result<u64, Errno> {
    let mut removed = 0;
    if days == 0 {
        return Ok(removed);
    }
    let this_hour = now.div_euclid(3600);
    let early = planted::active(Bug::TrashExpiresEarly);
    let keep_from = if early { this_hour } else { this_hour - i64::from(days) * 24 - GRACE_HOURS };
    for (name, _, hour) in records.entries(Ino::TRASH).await? {
        if hour_of(name.as_bytes()).is_none_or(|old| old >= keep_from) {
            continue;
        }
        loop {
            let batch = records.entries(hour).await?;
            if batch.is_empty() {
                break;
            }
            for (name, kind, _) in batch {
                let op = match kind {
                    FileType::Directory => Op::Rmdir { parent: hour, name },
                    _ => Op::Unlink { parent: hour, name },
                };
                removed += u64::from(remove(records, op, deleted).await?);
            }
        }
        remove(records, Op::Rmdir { parent: Ino::TRASH, name }, deleted).await?;
    }
    Ok(removed)
}

/// `false` where somebody else was quicker.
async fn remove(records: &impl Records, op: Op, deleted: &dyn Fn(Ino, u64)) -> Result<bool, Errno> {
    match records.change(op).await {
        Ok(Outcome::Removed { ino, deleted: Some(length) }) => {
            deleted(ino, length);
            Ok(true)
        }
        Ok(_) => Ok(true),
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Slices that compaction replaced lose their references once the trash would have let them go. Gives those that
/// nothing refers to any more.
pub async fn release(records: &impl Records, now: i64, days: u32) -> Result<Vec<(SliceId, u32)>, Errno> {
    let edge = now.saturating_sub(i64::from(days) * 86_400);
    let mut garbage = Vec::new();
    for (key, _) in records.find(Scan::Delayed { limit: limits::REAPER_QUEUE }).await? {
        let Key::DelayedSlices { stamp, id } = key else { continue };
        if stamp > edge {
            continue;
        }
        if let Outcome::Unreferenced(gone) = records.change(Op::DropDelayed { stamp, id }).await? {
            garbage.extend(gone);
        }
    }
    Ok(garbage)
}

/// The hour since 1970 that an hour directory's name stands for; `None` for any other name.
#[must_use]
pub fn hour_of(name: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(name).ok()?;
    let mut parts = text.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day, hour) = (parts.next()??, parts.next()??, parts.next()??, parts.next()??);
    let legal = text.len() == 13
        && parts.next().is_none()
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour);
    legal.then(|| days_of(year, month, day) * 24 + hour)
}

#[cfg(test)]
mod tests {
    use super::hour_of;
    use zest_metadata::trash::hour_name;

    #[test]
    fn names_and_hours_belong_together() {
        for hour in [0, 1, 473_000, 500_123] {
            assert_eq!(hour_of(hour_name(hour).unwrap().as_bytes()), Some(hour));
        }
        for bad in [&b"2023-11-14"[..], b"2023-13-14-00", b"2023-11-14-24", b"x", b"2023-11-14-22-1", b"\xff"]
        {
            assert_eq!(hour_of(bad), None);
        }
    }
}
