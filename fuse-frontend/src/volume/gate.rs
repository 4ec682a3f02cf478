//! Which clients a volume admits, and what of it this program would leave undone. Source: volume format, version
//! gates.

pub use zest_types::Version;
use zest_types::volume::Settings;

/// The release of the volume format's own client that this one is as good as.
pub const CLIENT: &str = "1.4.2";

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
