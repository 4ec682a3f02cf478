//! Where a volume's metadata are, as a user writes it: a path or `local://path` is a directory with the embedded
//! engine; `redis://`, `rediss://`, `unix://` and `HOST:PORT[/DB]` are Redis servers. Other schemes name engines this
//! version has not.

use std::fmt;
use std::path::{Path, PathBuf};
use zest_engines::redis::RedisUrl;

/// The directory of a volume with the embedded engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPlace {
    /// As it was given.
    pub path: PathBuf,
}

impl LocalPlace {
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

/// Where a volume's metadata are.
#[derive(Clone, Debug)]
pub enum MetaUrl {
    /// In a directory of this machine.
    Local(LocalPlace),
    /// On a Redis server.
    Redis(Box<RedisUrl>),
}

impl fmt::Display for MetaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetaUrl::Local(place) => place.path.display().fmt(f),
            // Without its password.
            MetaUrl::Redis(url) => url.fmt(f),
        }
    }
}

/// Engines that exist, and that this version does not have.
const OTHERS: [&str; 9] =
    ["tikv", "etcd", "mysql", "postgres", "postgresql", "sqlite3", "badger", "fdb", "foundationdb"];

impl MetaUrl {
    /// Reads what a user gave. A path that exists is a path, whatever it looks like. The error repeats nothing that
    /// may be a password.
    pub fn parse(text: &str) -> Result<MetaUrl, String> {
        MetaUrl::parse_with(text, |path| path.exists())
    }

    fn parse_with(text: &str, exists: impl Fn(&Path) -> bool) -> Result<MetaUrl, String> {
        let path = match text.split_once("://") {
            Some(("local", path)) => path,
            Some(("redis" | "rediss" | "unix", _)) => return redis(text),
            Some((scheme, _)) if OTHERS.contains(&scheme) => {
                return Err(format!(
                    "metadata engine {scheme}:// is not supported yet: use redis://HOST/DB, or a directory such as ./volume"
                ));
            }
            Some((scheme, _)) => {
                return Err(format!(
                    "there is no metadata engine {scheme}://: use redis://HOST/DB, or a directory such as ./volume"
                ));
            }
            None if is_server(text) && !exists(Path::new(text)) => return redis(&format!("redis://{text}")),
            None => text,
        };
        if path.is_empty() {
            return Err("it names no directory: use a path, such as ./volume".into());
        }
        Ok(MetaUrl::Local(LocalPlace { path: Path::new(path).to_path_buf() }))
    }

    /// The directory, if it is one.
    #[must_use]
    pub fn local(&self) -> Option<&LocalPlace> {
        match self {
            MetaUrl::Local(place) => Some(place),
            MetaUrl::Redis(_) => None,
        }
    }

    /// The same place, independent of where a process works.
    pub fn absolute(&self) -> std::io::Result<MetaUrl> {
        Ok(match self {
            MetaUrl::Local(place) => MetaUrl::Local(LocalPlace { path: place.absolute()? }),
            MetaUrl::Redis(url) => MetaUrl::Redis(url.clone()),
        })
    }
}

fn redis(text: &str) -> Result<MetaUrl, String> {
    RedisUrl::parse(text).map(|url| MetaUrl::Redis(Box::new(url))).map_err(|error| error.to_string())
}

/// Whether a text without a scheme names a server: `HOST:PORT`, `HOST:PORT/DB`, with a user and a password in front
/// or not, or several such hosts. A name alone is a directory.
pub(crate) fn is_server(text: &str) -> bool {
    if text.starts_with(['/', '.', '~']) {
        return false;
    }
    let rest = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
    let (hosts, db) = rest.split_once('/').map_or((rest, ""), |(hosts, db)| (hosts, db));
    let db = db.split_once('?').map_or(db, |(db, _)| db);
    let port = |host: &str| {
        host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok())
    };
    db.bytes().all(|byte| byte.is_ascii_digit()) && hosts.rsplit(',').next().is_some_and(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<MetaUrl, String> {
        MetaUrl::parse_with(text, |path| path == Path::new("odd:7/1"))
    }

    fn local(text: &str) -> LocalPlace {
        parse(text).unwrap().local().unwrap_or_else(|| panic!("{text} is a directory")).clone()
    }

    #[test]
    fn directories() {
        assert_eq!(local("./volume").path, Path::new("./volume"));
        assert_eq!(local("local://srv/v").meta(), Path::new("srv/v/meta"));
        assert_eq!(local("local:///srv/v").objects(), Path::new("/srv/v/objects"));
        for path in ["localhost", "photos/1", "./host:6379/1", "/srv/a:1", "odd:7/1", "host:port", ":6379"] {
            assert_eq!(local(path).path, Path::new(path));
        }
        assert!(parse("").is_err() && parse("local://").is_err());
    }

    #[test]
    fn servers() {
        let all = [
            "redis://localhost/1",
            "rediss://:secret@host:6380/0?insecure-skip-verify=true",
            "unix:///run/redis.sock?db=3",
            "127.0.0.1:6379",
            "host:6379/1",
            ":secret@host:6379/1",
            "master,one,two:26379/2",
        ];
        for text in all {
            let url = parse(text).unwrap();
            assert!(url.local().is_none(), "{text}");
            assert!(!url.to_string().contains("secret"), "{url}");
        }
    }

    #[test]
    fn engines_this_version_has_not() {
        for scheme in OTHERS {
            let refused = parse(&format!("{scheme}://user:secret@host/db")).unwrap_err();
            assert!(
                refused.contains(&format!("{scheme}://")) && refused.contains("not supported yet"),
                "{refused}"
            );
            assert!(!refused.contains("secret"), "{refused}");
        }
        assert!(parse("gopher://x").unwrap_err().contains("no metadata engine gopher://"));
    }
}
