//! Which clients a volume admits, and what of it this program would leave undone. Source: volume format, version
//! gates.

use zest_types::volume::Settings;

/// The release of the volume format's own client that this one is as good as.
pub const CLIENT: &str = "1.4.2";

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

/// Why a volume does not admit this client; nothing if it does.
#[must_use]
pub fn refusal(settings: &Settings) -> Option<String> {
    let own = Version::parse(CLIENT)?;
    let bound = |text: &str| match Version::parse(text) {
        Some(version) => Ok(Some(version)),
        None if text.is_empty() => Ok(None),
        None => Err(format!("its settings name {text:?} as a version: correct them with zest config")),
    };
    let (least, most) = (bound(&settings.min_client_version), bound(&settings.max_client_version));
    let (least, most) = match (least, most) {
        (Ok(least), Ok(most)) => (least, most),
        (Err(why), _) | (_, Err(why)) => return Some(why),
    };
    if least.is_some_and(|least| own < least) {
        let least = &settings.min_client_version;
        return Some(format!(
            "it admits clients from version {least} on, and this one is as {CLIENT}: use a newer one"
        ));
    }
    if most.is_some_and(|most| own > most) {
        let most = &settings.max_client_version;
        return Some(format!(
            "it admits clients up to version {most}, and this one is as {CLIENT}: raise --max-client-version with zest config"
        ));
    }
    None
}

/// Features of the volume that changes made here would bypass, in words; see the settings' members of these names.
#[must_use]
pub fn bypassed(settings: &Settings) -> Vec<&'static str> {
    let on = |name: &str| settings.others.get(name).and_then(serde_json::Value::as_bool).unwrap_or(false);
    let features = [
        ("ChangeLog", "keeps a change log, in which changes made here are missing"),
        ("UserGroupQuota", "counts usage by user and group, which changes made here do not"),
    ];
    features.into_iter().filter(|(name, _)| on(name)).map(|(_, what)| what).collect()
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
        assert_eq!(version("1.4.2+zest-0.1.0"), version(CLIENT));
        for bad in ["", "x", "1.", "1.2.3.4", "-1", "1.a"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn volumes_choose_their_clients() {
        let mut settings = Settings::new("vol", "u", "file", "/x/");
        assert_eq!(refusal(&settings), None);
        settings.min_client_version = "1.5.0-A".into();
        assert!(refusal(&settings).unwrap().contains("from version 1.5.0-A"));
        settings.min_client_version = "soon".into();
        assert!(refusal(&settings).unwrap().contains("\"soon\""));
        settings.min_client_version = String::new();
        settings.max_client_version = "1.3.9".into();
        assert!(refusal(&settings).unwrap().contains("up to version 1.3.9"));
        settings.max_client_version = CLIENT.into();
        assert_eq!(refusal(&settings), None);
        settings.others.insert("ChangeLog".into(), true.into());
        assert_eq!(bypassed(&settings).len(), 1);
    }
}
