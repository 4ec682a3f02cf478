//! The closed list of errors a caller of the file system can meet, with their Linux numbers. Which error of a
//! layer becomes which of these is decided where that layer meets `vfs`.

use std::fmt;

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// An error number as Linux knows it.
        #[allow(missing_docs, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Errno { $($name,)* }

        impl Errno {
            /// Every error there is.
            pub const ALL: &'static [Errno] = &[$(Errno::$name,)*];

            /// The number Linux uses on x86-64 and ARM64.
            #[must_use]
            pub fn number(self) -> i32 {
                match self { $(Errno::$name => $number,)* }
            }

            /// A few plain words.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Errno::$name => $text,)* }
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error";
    ENXIO = 6, "no data at or behind this offset";
    EBADF = 9, "bad file handle";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EBUSY = 16, "busy";
    EEXIST = 17, "file exists";
    EXDEV = 18, "not on this volume";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENOTTY = 25, "no such command for this node";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    EPIPE = 32, "not a regular file";
    ERANGE = 34, "too long for this call";
    EDEADLK = 35, "would deadlock";
    ENAMETOOLONG = 36, "name too long";
    ENOSYS = 38, "not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many levels of links";
    ENODATA = 61, "no such attribute";
    EOVERFLOW = 75, "value too large";
    ENOTSUP = 95, "not supported";
    ETIMEDOUT = 110, "timed out";
    ESTALE = 116, "stale handle";
    EDQUOT = 122, "quota exceeded";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self, self.text())
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn numbers_are_distinct_and_positive() {
        let mut seen = std::collections::BTreeSet::new();
        for e in Errno::ALL {
            assert!(e.number() > 0);
            assert!(seen.insert(e.number()), "{e} has a number that another one has too");
        }
    }
}
