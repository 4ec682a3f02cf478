//! Sizes and times as users write them. What can't be read is an error, never a default.

use std::time::Duration;

fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}

/// Bytes: a number with B, K, M, G, T, P or E behind it, powers of 1024; without, `unit` counts.
fn size(text: &str, unit: u8) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size: write a number with K, M, G, T or P, such as 4M");
    let (digits, unit) = match text.as_bytes().split_last() {
        Some((last, _)) if last.is_ascii_alphabetic() => (text.get(..text.len() - 1).ok_or_else(bad)?, *last),
        _ => (text, unit),
    };
    let power = b"BKMGTPE".iter().position(|u| *u == unit.to_ascii_uppercase()).ok_or_else(bad)?;
    let factor = (1u64 << (10 * power)) as f64;
    let bytes = number(digits).ok_or_else(bad)? * factor;
    // The largest number below 2^63 that is exact in both.
    if bytes < 9.2e18 { Ok(bytes as u64) } else { Err(format!("{text:?} is too large")) }
}

/// A size in bytes, if nothing else is said.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    size(text, b'B')
}

/// A size in KiB, if nothing else is said.
pub(super) fn kib(text: &str) -> Result<u64, String> {
    size(text, b'K')
}

/// A size in MiB, if nothing else is said.
pub(super) fn mib(text: &str) -> Result<u64, String> {
    size(text, b'M')
}

/// A size in GiB, if nothing else is said.
pub(super) fn gib(text: &str) -> Result<u64, String> {
    size(text, b'G')
}

/// A rate in Mbit/s, if nothing else is said; M, G, T and P are powers of 1000.
pub(super) fn mbit(text: &str) -> Result<i64, String> {
    let bad = || format!("{text:?} is no rate: write Mbit/s, or a number with M, G or T");
    let (digits, unit) = match text.as_bytes().split_last() {
        Some((last, _)) if last.is_ascii_alphabetic() => {
            (text.get(..text.len() - 1).ok_or_else(bad)?, last.to_ascii_uppercase())
        }
        _ => (text, b'M'),
    };
    let power = b"MGTP".iter().position(|known| *known == unit).ok_or_else(bad)?;
    let rate = number(digits).ok_or_else(bad)? * [1.0, 1e3, 1e6, 1e9].get(power).copied().unwrap_or(1.0);
    if rate < 9.2e18 { Ok(rate as i64) } else { Err(format!("{text:?} is too large")) }
}

/// A time: seconds, or parts such as `1d`, `1h30m`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time: write seconds, or parts such as 1h30m");
    let parse = |seconds: f64| Duration::try_from_secs_f64(seconds).map_err(|_| bad());
    if let Some(seconds) = number(text) {
        return parse(seconds);
    }
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
        let (value, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(letters);
        let factor = match unit {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return Err(bad()),
        };
        seconds += number(value).ok_or_else(bad)? * factor;
        rest = next;
    }
    if text.is_empty() { Err(bad()) } else { parse(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(kib("4096"), Ok(4 << 20));
        assert_eq!(kib("4M"), Ok(4 << 20));
        assert_eq!((bytes("4096"), bytes("4K")), (Ok(4096), Ok(4096)));
        assert_eq!(mib("1.5g"), Ok(3 << 29));
        assert_eq!(gib("1"), Ok(1 << 30));
        assert_eq!(gib("512B"), Ok(512));
        for bad in ["", "M", "4X", "-1", "1e3", "99999999E", "nan", "4é"] {
            assert!(mib(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(mbit("100"), Ok(100));
        assert_eq!(mbit("1.5G"), Ok(1500));
        assert_eq!(mbit("0"), Ok(0));
        for bad in ["", "M", "4K", "-1", "fast", "4é"] {
            assert!(mbit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("1d1h30m"), Ok(Duration::from_secs(86_400 + 5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "h", "1x", "1h30", "-1s", "99999999999999999999d", "1é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
