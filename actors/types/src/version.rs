//! Versions of clients, as settings name them, and how they compare. Source: volume format, version gates.

/// A version; compares as the format does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    /// Empty for a release.
    before: String,
}

impl Version {
    /// Reads `major[.minor[.patch]][-pre][+build]`; what is built is of no interest.
    #[must_use]
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.split_once('+').map_or(text, |(text, _)| text);
        let (numbers, before) = text.split_once('-').unwrap_or((text, ""));
        let mut found = [0; 3];
        let mut parts = numbers.split('.');
        for (at, place) in found.iter_mut().enumerate() {
            match parts.next() {
                Some(part) if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) => {
                    *place = part.parse().ok()?;
                }
                None if at > 0 => break,
                _ => return None,
            }
        }
        parts.next().is_none().then(|| Version { numbers: found, before: before.to_owned() })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> std::cmp::Ordering {
        // A release comes after everything that led to it.
        let key = |version: &Version| (version.before.is_empty(), version.before.clone());
        self.numbers.cmp(&other.numbers).then_with(|| key(self).cmp(&key(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_the_format_says() {
        let version = |text: &str| Version::parse(text).unwrap();
        let order =
            ["0.9", "1.1.0-A", "1.1", "1.2.0-A", "1.2.0-beta1", "1.2.0", "1.4.2-dev", "1.4.2", "1.10"];
        for pair in order.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        assert_eq!(version("1.4.2+zest-0.1.0"), version("1.4.2"));
        for bad in ["", "x", "1.", "1.2.3.4", "-1", "1.a"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
