//! The URL of a volume in Redis: one server, a sentinel group, or a cluster; with TLS or on a socket of this
//! machine. Source: volume format, Redis engine, connection. Pure; shows no password. Passwords that stand
//! elsewhere are put in by whoever read them there.

use std::fmt;
use std::time::Duration;
use zest_world::{Target, Tls};

/// Why a URL can't be used. No text repeats a password.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UrlError {
    #[error("scheme {0:?} is not redis, rediss or unix")]
    Scheme(String),
    #[error("no host is named; write redis://HOST[:PORT][/DB]")]
    NoHost,
    #[error("port {0:?} is not a number from 1 to 65535")]
    Port(String),
    #[error("database {0:?} is not a number; write redis://HOST/0")]
    Database(String),
    #[error("option {0}={1:?} is not understood")]
    Option(String, String),
    #[error("option {0} is not known here")]
    UnknownOption(String),
    #[error("a %-sequence in the user or password is not two hexadecimal digits")]
    Escape,
}

/// What kind of installation a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// One server. It may turn out to be a member of a cluster.
    One(Target),
    /// Sentinels that know where the primary of this name is.
    Sentinels {
        /// Name of the primary.
        primary: String,
        /// Where sentinels listen.
        sentinels: Vec<Target>,
    },
    /// Some members of a cluster.
    Cluster(Vec<Target>),
}

/// A parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// Where servers are.
    pub servers: Servers,
    /// Who we are there.
    pub user: Option<String>,
    password: Option<String>,
    sentinel_password: Option<String>,
    /// Database; in a cluster the number that keys begin with.
    pub db: i64,
    /// First pause before a lost connection is made again.
    pub min_backoff: Duration,
    /// Longest pause.
    pub max_backoff: Duration,
    /// A server that is silent this long is taken for gone.
    pub read_timeout: Duration,
    shown: String,
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl RedisUrl {
    /// Reads a URL; one without a scheme is taken as `redis://`.
    pub fn parse(text: &str) -> Result<RedisUrl, UrlError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("redis", text));
        if !matches!(scheme, "redis" | "rediss" | "unix") {
            return Err(UrlError::Scheme(scheme.into()));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, place) =
            rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
        let mut url = RedisUrl {
            servers: Servers::Cluster(Vec::new()),
            user: None,
            password: None,
            sentinel_password: None,
            db: 0,
            min_backoff: Duration::from_millis(20),
            max_backoff: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            shown: shown(scheme, login, place),
        };
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            url.user = Some(unescape(user)?).filter(|user| !user.is_empty());
            url.password = Some(unescape(password)?).filter(|password| !password.is_empty());
        }
        let mut tls = (scheme == "rediss").then(Tls::default);
        for (name, value) in query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.replace('_', "-"), value)
        }) {
            url.option(&name, value, tls.as_mut())?;
        }
        if scheme == "unix" {
            url.servers = Servers::One(Target::Unix(place.into()));
            return if place.is_empty() { Err(UrlError::NoHost) } else { Ok(url) };
        }
        let (hosts, db) = place.split_once('/').unwrap_or((place, ""));
        if !db.is_empty() {
            url.db = database(db)?;
        }
        url.servers = servers(hosts, tls.as_ref())?;
        Ok(url)
    }

    fn option(&mut self, name: &str, value: &str, tls: Option<&mut Tls>) -> Result<(), UrlError> {
        let bad = || UrlError::Option(name.into(), value.into());
        let text = || unescape(value).map_err(|_| bad());
        match name {
            "db" => self.db = database(value)?,
            "min-retry-backoff" => self.min_backoff = duration(value).ok_or_else(bad)?,
            "max-retry-backoff" => self.max_backoff = duration(value).ok_or_else(bad)?,
            "read-timeout" => self.read_timeout = duration(value).ok_or_else(bad)?,
            // Accepted: writes wait as long as reads, and views have their own options.
            "write-timeout"
            | "route-read"
            | "client-cache"
            | "client-cache-size"
            | "client-cache-expire"
            | "client-cache-preload" => {}
            "insecure-skip-verify"
            | "tls-cert-file"
            | "tls-key-file"
            | "tls-ca-cert-file"
            | "tls-server-name" => {
                let Some(tls) = tls else { return Ok(()) };
                match name {
                    "insecure-skip-verify" => tls.insecure = !matches!(value, "false" | "0"),
                    "tls-cert-file" => tls.cert_file = Some(text()?),
                    "tls-key-file" => tls.key_file = Some(text()?),
                    "tls-ca-cert-file" => tls.ca_file = Some(text()?),
                    _ => tls.server_name = Some(text()?),
                }
            }
            _ => return Err(UrlError::UnknownOption(name.into())),
        }
        Ok(())
    }

    /// The URL with a password that stands elsewhere, where it holds none itself.
    #[must_use]
    pub fn with_password(mut self, password: Option<String>) -> RedisUrl {
        self.password = self.password.or(password);
        self
    }

    /// The URL with the password of the sentinels.
    #[must_use]
    pub fn with_sentinel_password(mut self, password: Option<String>) -> RedisUrl {
        self.sentinel_password = password;
        self
    }

    /// Whether a password is known.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    pub(crate) fn sentinel_password(&self) -> Option<&str> {
        self.sentinel_password.as_deref()
    }
}

/// The URL without password and options.
fn shown(scheme: &str, login: Option<&str>, place: &str) -> String {
    let user = login.map(|login| login.split(':').next().unwrap_or_default());
    match (login, user) {
        (Some(login), Some(user)) if login.contains(':') => format!("{scheme}://{user}:****@{place}"),
        (Some(_), Some(user)) => format!("{scheme}://{user}@{place}"),
        _ => format!("{scheme}://{place}"),
    }
}

fn database(text: &str) -> Result<i64, UrlError> {
    text.parse::<u16>().map(i64::from).map_err(|_| UrlError::Database(text.into()))
}

/// `20ms`, `1.5s`, `2m`, or seconds without a unit.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(unit)?;
    let seconds = number.parse::<f64>().ok()?
        * match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
    Duration::try_from_secs_f64(seconds).ok()
}

fn servers(hosts: &str, tls: Option<&Tls>) -> Result<Servers, UrlError> {
    if hosts.is_empty() {
        return Err(UrlError::NoHost);
    }
    let target = |host: &str, port: u16| match host.is_empty() {
        true => Err(UrlError::NoHost),
        false => Ok(Target::Tcp { host: host.into(), port, tls: tls.cloned() }),
    };
    let comma = hosts.find(',');
    let colon = hosts.find(':');
    match comma {
        Some(comma) if colon.is_none_or(|colon| comma < colon) => {
            let mut names = hosts.split(',');
            let primary = names.next().unwrap_or_default().to_owned();
            let names: Vec<&str> = names.collect();
            let last = names.last().map(|last| split_port(last, SENTINEL_PORT)).transpose()?;
            let port = last.map_or(SENTINEL_PORT, |(_, port)| port);
            let sentinels =
                names.iter().map(|name| split_port(name, port).and_then(|(host, port)| target(host, port)));
            Ok(Servers::Sentinels { primary, sentinels: sentinels.collect::<Result<_, _>>()? })
        }
        Some(_) => {
            let members = hosts.split(',').map(|name| {
                let (host, port) = split_port(name, PORT)?;
                target(host, port)
            });
            Ok(Servers::Cluster(members.collect::<Result<_, _>>()?))
        }
        None => {
            let (host, port) = split_port(hosts, PORT)?;
            Ok(Servers::One(target(host, port)?))
        }
    }
}

/// A host, in brackets where it is an IPv6 address, and its port.
fn split_port(text: &str, usual: u16) -> Result<(&str, u16), UrlError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    match port {
        None => Ok((host, usual)),
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => Err(UrlError::Port(port.into())),
            Ok(port) => Ok((host, port)),
        },
    }
}

fn unescape(text: &str) -> Result<String, UrlError> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).ok_or(UrlError::Escape);
        let value = digit()? * 16 + digit()?;
        out.push(u8::try_from(value).map_err(|_| UrlError::Escape)?);
    }
    String::from_utf8(out).map_err(|_| UrlError::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Target {
        Target::Tcp { host: host.into(), port, tls: None }
    }

    #[test]
    fn one_server_in_all_forms() {
        let url =
            RedisUrl::parse("redis://:pa%40ss@h:7000/3?read-timeout=5s&min_retry_backoff=50ms").unwrap();
        assert_eq!(url.servers, Servers::One(tcp("h", 7000)));
        assert_eq!((url.db, url.password(), url.user.as_deref()), (3, Some("pa@ss"), None));
        assert_eq!((url.read_timeout, url.min_backoff), (Duration::from_secs(5), Duration::from_millis(50)));
        assert_eq!(url.to_string(), "redis://:****@h:7000/3");
        assert!(!format!("{url:?}").contains("pa"));
        let bare = RedisUrl::parse("h").unwrap();
        assert_eq!((bare.servers, bare.db), (Servers::One(tcp("h", 6379)), 0));
        let six = RedisUrl::parse("redis://[::1]:7/1").unwrap();
        assert_eq!(six.servers, Servers::One(tcp("::1", 7)));
        let socket = RedisUrl::parse("unix:///run/r.sock?db=2").unwrap();
        assert_eq!((socket.servers, socket.db), (Servers::One(Target::Unix("/run/r.sock".into())), 2));
        let tls = RedisUrl::parse("rediss://h/0?tls-ca-cert-file=/ca.pem&insecure-skip-verify=true").unwrap();
        let wanted = Tls { insecure: true, ca_file: Some("/ca.pem".into()), ..Tls::default() };
        assert_eq!(
            tls.servers,
            Servers::One(Target::Tcp { host: "h".into(), port: 6379, tls: Some(wanted) })
        );
    }

    #[test]
    fn sentinels_and_clusters_are_told_apart_by_comma_and_colon() {
        let url = RedisUrl::parse("redis://mymaster,s1,s2:5000/1").unwrap();
        let sentinels = vec![tcp("s1", 5000), tcp("s2", 5000)];
        assert_eq!(url.servers, Servers::Sentinels { primary: "mymaster".into(), sentinels });
        let url = RedisUrl::parse("redis://a:1,b:2/4").unwrap();
        assert_eq!((url.servers, url.db), (Servers::Cluster(vec![tcp("a", 1), tcp("b", 2)]), 4));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for (text, wanted) in [
            ("http://h", UrlError::Scheme("http".into())),
            ("redis://", UrlError::NoHost),
            ("redis://h:0", UrlError::Port("0".into())),
            ("redis://h/x", UrlError::Database("x".into())),
            ("redis://:%zz@h", UrlError::Escape),
            ("redis://h?bogus=1", UrlError::UnknownOption("bogus".into())),
        ] {
            assert_eq!(RedisUrl::parse(text), Err(wanted), "{text}");
        }
    }
}
