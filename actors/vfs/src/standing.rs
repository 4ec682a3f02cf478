//! What a fresh look at the settings record means for a mount that serves: nothing new, new values to take over, or
//! that this is not the volume any more and nothing may be written to it. Pure. Source: volume format, version gates.

use zest_types::volume::{META_VERSION, Settings};

/// How a mount stands with its volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// As before.
    Same,
    /// Other settings, of the same volume.
    Changed(Box<Settings>),
    /// The mount must end at once, and write nothing more.
    Over(Over),
}

/// Why a mount must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Over {
    /// Nothing, or no settings, where the record was.
    #[error("the volume is not formatted any more")]
    Gone,
    /// Somebody formatted another volume in its place.
    #[error("another volume (UUID {0}) is in its place")]
    Other(String),
    /// A layout this program does not know.
    #[error("the volume has layout version {0} now, which this program does not know: use a newer one")]
    Version(i64),
}

/// Compares the settings a mount has with the record found; `None` where there is no record.
#[must_use]
pub fn standing(mounted: &Settings, found: Option<&[u8]>) -> Standing {
    let Some(found) = found.and_then(|bytes| Settings::from_json(bytes).ok()) else {
        return Standing::Over(Over::Gone);
    };
    if found.uuid != mounted.uuid {
        return Standing::Over(Over::Other(found.uuid));
    }
    if found.meta_version > META_VERSION {
        return Standing::Over(Over::Version(found.meta_version));
    }
    if found == *mounted { Standing::Same } else { Standing::Changed(Box::new(found)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("vol", "u", "file", "/x/")
    }

    #[test]
    fn new_values_are_taken_over_and_another_volume_is_not() {
        let mounted = settings();
        assert_eq!(standing(&mounted, Some(&mounted.to_json())), Standing::Same);
        let other = Settings { trash_days: 7, ..settings() };
        assert_eq!(standing(&mounted, Some(&other.to_json())), Standing::Changed(Box::new(other)));
        let other = Settings { uuid: "v".into(), ..settings() };
        assert_eq!(standing(&mounted, Some(&other.to_json())), Standing::Over(Over::Other("v".into())));
        let other = Settings { meta_version: 2, ..settings() };
        assert_eq!(standing(&mounted, Some(&other.to_json())), Standing::Over(Over::Version(2)));
    }

    #[test]
    fn a_record_that_is_gone_or_torn_ends_the_mount() {
        for found in [None, Some(&b"{}"[..]), Some(b"")] {
            assert_eq!(standing(&settings(), found), Standing::Over(Over::Gone));
        }
    }
}
