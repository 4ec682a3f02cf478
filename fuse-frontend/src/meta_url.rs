//! Where a volume's metadata are, as a user writes it: a path or `local://path` is a directory with the embedded
//! engine; other schemes name servers, which this version can't speak to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The directory of a volume with the embedded engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaUrl {
    /// As it was given.
    pub path: PathBuf,
}

impl MetaUrl {
    /// Where the records are.
    #[must_use]
    pub fn meta(&self) -> PathBuf {
        self.path.join("meta")
    }

    /// Where objects are, unless the volume says otherwise.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// The directory, independent of where a process works; it need not exist yet.
    pub fn absolute(&self) -> std::io::Result<PathBuf> {
        match self.path.canonicalize() {
            Ok(path) => Ok(path),
            Err(_) => std::path::absolute(&self.path),
        }
    }
}

impl fmt::Display for MetaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl FromStr for MetaUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<MetaUrl, String> {
        let path = match text.split_once("://") {
            Some(("local", path)) => path,
            // The rest may hold a password: it is not repeated.
            Some((scheme, _)) => {
                return Err(format!(
                    "metadata engine {scheme}:// is not supported yet: use a directory, such as ./volume"
                ));
            }
            None => text,
        };
        if path.is_empty() {
            return Err("it names no directory: use a path, such as ./volume".into());
        }
        Ok(MetaUrl { path: Path::new(path).to_path_buf() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_schemes() {
        let parse = |text: &str| text.parse::<MetaUrl>();
        assert_eq!(parse("./volume").unwrap().path, Path::new("./volume"));
        assert_eq!(parse("local://srv/v").unwrap().meta(), Path::new("srv/v/meta"));
        assert_eq!(parse("local:///srv/v").unwrap().objects(), Path::new("/srv/v/objects"));
        let refused = parse("redis://:secret@host/1").unwrap_err();
        assert!(refused.contains("redis://") && refused.contains("not supported yet"), "{refused}");
        assert!(!refused.contains("secret"));
        assert!(parse("").is_err() && parse("local://").is_err());
    }
}
