//! What an object store's error means to us: gone, refused for good, full, or worth another try.

use object_store::Error;
use std::error::Error as StdError;
use std::io::ErrorKind;
use zest_world::ObjectError;

/// Every text of an error and its causes, each once.
pub(super) fn words(error: &(dyn StdError + 'static)) -> String {
    let mut all = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !all.contains(&text) {
            all.push_str(": ");
            all.push_str(&text);
        }
        next = cause.source();
    }
    // One line, whatever a server puts into its answer.
    all.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn io_kind(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        next = cause.source();
    }
    None
}

/// Translates an error about `key`.
pub(super) fn translate(key: &str, error: &Error) -> ObjectError {
    let text = words(error);
    let refused = || ObjectError::Refused { key: key.into(), why: text.clone() };
    // S3 answers 404 both for an object and for its bucket; only one of them is about the object.
    if text.contains("NoSuchBucket") {
        return ObjectError::Refused { key: key.into(), why: "the bucket does not exist".into() };
    }
    if ["StorageFull", "QuotaExceeded", "InsufficientStorage"].iter().any(|code| text.contains(code)) {
        return ObjectError::Full(key.into());
    }
    match error {
        Error::NotFound { .. } => return ObjectError::NotFound(key.into()),
        Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. } => return refused(),
        _ => {}
    }
    match io_kind(error) {
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => ObjectError::Full(key.into()),
        Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => refused(),
        _ => ObjectError::Transient { key: key.into(), why: text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(kind: ErrorKind) -> Error {
        Error::Generic { store: "test", source: Box::new(std::io::Error::from(kind)) }
    }

    #[test]
    fn each_kind_of_trouble_is_told_apart() {
        assert_eq!(translate("k", &generic(ErrorKind::StorageFull)), ObjectError::Full("k".into()));
        assert!(matches!(
            translate("k", &generic(ErrorKind::ReadOnlyFilesystem)),
            ObjectError::Refused { .. }
        ));
        assert!(translate("k", &generic(ErrorKind::ConnectionReset)).is_transient());
        let missing = |text: &str| Error::NotFound { path: "k".into(), source: text.into() };
        assert_eq!(translate("k", &missing("404")), ObjectError::NotFound("k".into()));
        let bucket = translate("k", &missing("<Code>NoSuchBucket</Code>"));
        assert!(matches!(bucket, ObjectError::Refused { .. }), "{bucket:?}");
    }
}
