//! Which directory of the trash a removal goes to: one for each hour, made when it is first needed and
//! remembered until the hour is over.

use crate::op::{Op, Outcome};
use crate::transact::MetaCore;
use zest_types::{Caller, Errno, Ino, Name};

/// The directory of the hour for which one was last made.
#[derive(Default)]
pub struct CurrentHour {
    hour: i64,
    directory: Option<Ino>,
}

/// The trash directory for what this change may remove; `None` when removal is final.
pub(crate) async fn directory_for(core: &MetaCore, op: &Op) -> Result<Option<Ino>, Errno> {
    let parent = match op {
        Op::Unlink { parent, .. } | Op::Rmdir { parent, .. } => *parent,
        Op::Rename { new_parent, .. } => *new_parent,
        _ => return Ok(None),
    };
    if core.volume().trash_days == 0 || parent.is_trash() {
        return Ok(None);
    }
    let hour = core.world.clock.now().sec.div_euclid(3600);
    {
        let current = core.trash_hour.lock();
        if current.hour == hour && current.directory.is_some() {
            return Ok(current.directory);
        }
    }
    let make = Op::MakeTrashHour { name: hour_name(hour)? };
    match Box::pin(core.change_with_trash(Caller::SYSTEM, &make, None)).await? {
        Outcome::Node { ino, .. } => {
            *core.trash_hour.lock() = CurrentHour { hour, directory: Some(ino) };
            Ok(Some(ino))
        }
        _ => Err(Errno::EIO),
    }
}

/// `YYYY-MM-DD-HH` in UTC of an hour since 1970.
pub fn hour_name(hour: i64) -> Result<Name, Errno> {
    let (days, of_day) = (hour.div_euclid(24), hour.rem_euclid(24));
    let (year, month, day) = civil(days);
    Name::new(format!("{year:04}-{month:02}-{day:02}-{of_day:02}").as_bytes())
}

/// Days since 1970-01-01 of a date in the Gregorian calendar; the inverse of the private `civil`.
#[must_use]
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Counted in years that begin in March, so that the leap day is the last one.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while days_of(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_of(year, month + 1, 1) <= days {
        month += 1;
    }
    (year, month, days - days_of(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_have_their_names() {
        assert_eq!(hour_name(0).unwrap().as_bytes(), b"1970-01-01-00");
        assert_eq!(hour_name(1_700_000_000 / 3600).unwrap().as_bytes(), b"2023-11-14-22");
        assert_eq!(hour_name(1_709_164_800 / 3600 + 23).unwrap().as_bytes(), b"2024-02-29-23");
        for days in (0..40_000).step_by(13) {
            let (y, m, d) = civil(days);
            assert_eq!(days_of(y, m, d), days);
        }
    }
}
