//! Passwords on their way into the program: out of the list of processes, which everybody may read, and out of the
//! environment or a file, where they belong.

use crate::meta_url::is_server;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;

/// Where in an argument a secret stands.
type Place = std::ops::Range<usize>;

/// Options whose value is a secret.
const SECRET_OPTIONS: [&[u8]; 2] = [b"secret-key", b"session-token"];

/// The password in the URL of a metadata server: what stands between user and host.
fn password(argument: &[u8]) -> Option<Place> {
    let text = std::str::from_utf8(argument).ok()?;
    let text = text.split_once('?').map_or(text, |(text, _)| text);
    let begin = match text.split_once("://") {
        Some((scheme @ ("redis" | "rediss" | "unix"), _)) => scheme.len() + 3,
        None if is_server(text) => 0,
        _ => return None,
    };
    let end = text.rfind('@')?;
    let begin = begin + text.get(begin..end)?.find(':')? + 1;
    (begin < end).then_some(begin..end)
}

/// Whether this argument is an option whose value is a secret, and where that begins if it stands in the same one.
fn secret_option(argument: &[u8]) -> Option<Option<Place>> {
    let name = argument.strip_prefix(b"--").or_else(|| argument.strip_prefix(b"-"))?;
    let (name, value) = match name.iter().position(|byte| *byte == b'=') {
        Some(at) => (name.get(..at)?, Some(argument.len() - (name.len() - at - 1)..argument.len())),
        None => (name, None),
    };
    SECRET_OPTIONS.contains(&name).then_some(value)
}

/// Secrets in the arguments: index of the argument, and where in it.
fn secrets(arguments: &[OsString]) -> Vec<(usize, Place)> {
    let mut found = Vec::new();
    let mut value_follows = false;
    for (index, argument) in arguments.iter().enumerate().skip(1) {
        let bytes = argument.as_bytes();
        if std::mem::take(&mut value_follows) {
            found.push((index, 0..bytes.len()));
        } else if let Some(place) = secret_option(bytes) {
            value_follows = place.is_none();
            found.extend(place.map(|place| (index, place)));
        } else if let Some(place) = password(bytes) {
            found.push((index, place));
        }
    }
    found
}

/// The arguments of this process; from now on others see stars where secrets stand in them.
#[must_use]
pub fn arguments() -> Vec<OsString> {
    let given: Vec<OsString> = std::env::args_os().collect();
    let places = secrets(&given);
    if !places.is_empty() && hide(&given, &places).is_none() {
        crate::log::tell("secrets in arguments can be seen by others: better give them in the environment");
    }
    given
}

/// Writes stars over the arguments where the kernel keeps them: one behind the other, each with a zero at its end.
fn hide(given: &[OsString], places: &[(usize, Place)]) -> Option<()> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Field 48, counted behind the name of the program, which may hold anything.
    let start: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(45)?.parse().ok()?;
    let mut memory = OpenOptions::new().write(true).open("/proc/self/mem").ok()?;
    for (index, place) in places {
        let before: usize = given.get(..*index)?.iter().map(|argument| argument.len() + 1).sum();
        memory.seek(SeekFrom::Start(start + (before + place.start) as u64)).ok()?;
        memory.write_all(&vec![b'*'; place.len()]).ok()?;
    }
    Some(())
}

/// What a part of a URL stands for: `%` and two hexadecimal digits are a byte.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *byte == b'%') {
            Some(meant) => {
                out.push(meant);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    out
}

/// The arguments for another process of this program, without passwords, and the password for its environment.
#[must_use]
pub fn for_child(given: &[OsString]) -> (Vec<OsString>, Option<OsString>) {
    let mut secret = None;
    let strip = |argument: &OsString| {
        let bytes = argument.as_bytes();
        match password(bytes) {
            Some(place) => {
                let [before, word, behind] =
                    [0..place.start - 1, place.clone(), place.end..bytes.len()].map(|part| bytes.get(part));
                secret = word.map(|word| OsStr::from_bytes(&unescaped(word)).to_owned());
                let whole = [before.unwrap_or_default(), behind.unwrap_or_default()].concat();
                OsStr::from_bytes(&whole).to_owned()
            }
            None => argument.clone(),
        }
    };
    let stripped = given.iter().map(strip).collect();
    (stripped, secret)
}

/// The password for a metadata server whose URL has none. Order of the volume format's own client.
pub fn metadata_password() -> Result<Option<String>, String> {
    metadata_password_from(&|name| std::env::var(name).ok(), &|path| std::fs::read_to_string(path))
}

type Read<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

fn metadata_password_from(
    env: &dyn Fn(&str) -> Option<String>,
    read: Read<'_>,
) -> Result<Option<String>, String> {
    let set = |name| env(name).filter(|value| !value.is_empty());
    if let Some(word) = set("REDIS_PASSWORD").or_else(|| set("META_PASSWORD")) {
        return Ok(Some(word));
    }
    let Some(path) = set("META_PASSWORD_FILE") else { return Ok(None) };
    match read(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) => Err(format!("META_PASSWORD_FILE names {path}, which can't be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn hidden(text: &str) -> String {
        let mut all = os(text);
        for (index, place) in secrets(&all.clone()) {
            let mut bytes = all[index].as_bytes().to_vec();
            bytes[place].fill(b'*');
            all[index] = OsStr::from_bytes(&bytes).to_owned();
        }
        all.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn secrets_in_arguments_are_found() {
        assert_eq!(
            hidden("zest mount redis://:pa@ss:w@host:6379/1 m"),
            "zest mount redis://:*******@host:6379/1 m"
        );
        assert_eq!(hidden("zest mount redis://user:word@host m"), "zest mount redis://user:****@host m");
        assert_eq!(hidden("zest mount :word@host:6379/1 m"), "zest mount :****@host:6379/1 m");
        assert_eq!(hidden("zest format v n --secret-key abc"), "zest format v n --secret-key ***");
        assert_eq!(hidden("zest format v n -secret-key=abc -x"), "zest format v n -secret-key=*** -x");
        for plain in [
            "zest mount redis://host/1 m",
            "zest mount redis://user@host m",
            "zest mount ./a@b:c m",
            "zest mount -o fsname=a:b@c v m",
            "zest mount --bucket http://a:b@c/d v m",
        ] {
            assert_eq!(hidden(plain), plain);
        }
    }

    #[test]
    fn a_child_gets_the_password_in_its_environment() {
        let (arguments, secret) = for_child(&os("mount redis://u:pa/ss@host/1?x=y@z m"));
        assert_eq!(arguments, os("mount redis://u@host/1?x=y@z m"));
        assert_eq!(secret.unwrap(), "pa/ss");
        assert_eq!(for_child(&os("mount redis://:p%40%2fs%@host/1")).1.unwrap(), "p@/s%");
        assert_eq!(for_child(&os("mount redis://host/1 m")), (os("mount redis://host/1 m"), None));
        assert_eq!(for_child(&os("mount redis://:w@host/1")).0, os("mount redis://@host/1"));
    }

    #[test]
    fn the_environment_is_asked_in_order() {
        let read = |_: &str| Ok(" from file\n".to_owned());
        let with = |names: &[&str]| {
            let env = |name: &str| names.contains(&name).then(|| name.to_lowercase());
            metadata_password_from(&env, &read).unwrap()
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&["META_PASSWORD_FILE"]).as_deref(), Some("from file"));
        assert_eq!(with(&["META_PASSWORD_FILE", "META_PASSWORD"]).as_deref(), Some("meta_password"));
        assert_eq!(with(&["META_PASSWORD", "REDIS_PASSWORD"]).as_deref(), Some("redis_password"));
        let broken = |_: &str| Err(std::io::Error::other("gone"));
        let env = |name: &str| (name == "META_PASSWORD_FILE").then(|| "/p".to_owned());
        assert!(metadata_password_from(&env, &broken).unwrap_err().contains("/p"));
    }
}
