//! A file name that is known to be legal: 1 to 255 bytes, no `/`, no NUL. `.` and `..` are legal here and
//! refused by the rules that create entries. Names of extended attributes may contain `/`. Knows nothing of
//! encodings: names are bytes.

use crate::{errno::Errno, limits};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A legal file name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Checks and takes a name. `EINVAL` for empty names and forbidden bytes, `ENAMETOOLONG` above 255 bytes.
    pub fn new(bytes: &[u8]) -> Result<Name, Errno> {
        if bytes.len() > limits::NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if bytes.is_empty() || bytes.iter().any(|b| matches!(b, b'/' | 0)) {
            return Err(Errno::EINVAL);
        }
        Ok(Name(bytes.into()))
    }

    /// Checks and takes the name of an extended attribute, which may contain `/`. `ERANGE` for an empty or too
    /// long one, as the kernel says it; `EINVAL` for a NUL.
    pub fn attribute(bytes: &[u8]) -> Result<Name, Errno> {
        if bytes.is_empty() || bytes.len() > limits::NAME_MAX {
            return Err(Errno::ERANGE);
        }
        if bytes.contains(&0) {
            return Err(Errno::EINVAL);
        }
        Ok(Name(bytes.into()))
    }

    /// The bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is `.` or `..`.
    #[must_use]
    pub fn is_dots(&self) -> bool {
        matches!(&*self.0, b"." | b"..")
    }
}

impl TryFrom<Vec<u8>> for Name {
    type Error = Errno;

    fn try_from(bytes: Vec<u8>) -> Result<Name, Errno> {
        Name::new(&bytes)
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Vec<u8> {
        name.0.to_vec()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_and_illegal_names() {
        assert_eq!(Name::new(b"a").unwrap().as_bytes(), b"a");
        assert_eq!(Name::new(&[b'x'; 255]).unwrap().as_bytes().len(), 255);
        assert_eq!(Name::new(&[b'x'; 256]), Err(Errno::ENAMETOOLONG));
        for bad in [&b""[..], b"a/b", b"a\0b"] {
            assert_eq!(Name::new(bad), Err(Errno::EINVAL));
        }
        assert!(Name::new(b"..").unwrap().is_dots());
        assert_eq!(Name::attribute(b"user.a/b").unwrap().as_bytes(), b"user.a/b");
        assert_eq!(Name::attribute(b""), Err(Errno::ERANGE));
        assert_eq!(Name::attribute(b"a\0"), Err(Errno::EINVAL));
    }
}
