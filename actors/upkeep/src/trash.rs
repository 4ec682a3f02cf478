//! Emptying the trash: hour directories that are older than the volume keeps them.

use zest_metadata::trash::days_of;

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
