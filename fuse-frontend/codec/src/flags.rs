//! What the kernel and a server can agree on at INIT: every flag by name, and which of them are honoured here. What is
//! not honoured is never offered.

macro_rules! init_flags {
    ($($name:ident = $bit:literal, $honoured:ident;)*) => {
        /// Flags of INIT, both words as one.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct InitFlags(pub u64);

        #[allow(missing_docs)]
        impl InitFlags {
            $(pub const $name: InitFlags = InitFlags(1 << $bit);)*

            /// What this codec and its doors can honour; which of it a mount wants is the door's choice.
            pub const HONOURED: InitFlags = InitFlags(0 $(| if init_flags!(@ $honoured) { 1 << $bit } else { 0 })*);

            /// Names and bits, in order.
            pub const NAMES: &'static [(&'static str, InitFlags)] =
                &[$((stringify!($name), InitFlags::$name),)*];
        }
    };
    (@ yes) => { true };
    (@ no) => { false };
}

init_flags! {
    ASYNC_READ = 0, yes;
    POSIX_LOCKS = 1, yes;
    FILE_OPS = 2, no;
    ATOMIC_O_TRUNC = 3, yes;
    EXPORT_SUPPORT = 4, no;
    BIG_WRITES = 5, yes;
    DONT_MASK = 6, yes;
    SPLICE_WRITE = 7, no;
    SPLICE_MOVE = 8, no;
    SPLICE_READ = 9, no;
    FLOCK_LOCKS = 10, yes;
    HAS_IOCTL_DIR = 11, no;
    AUTO_INVAL_DATA = 12, yes;
    DO_READDIRPLUS = 13, yes;
    READDIRPLUS_AUTO = 14, yes;
    ASYNC_DIO = 15, yes;
    WRITEBACK_CACHE = 16, no;
    NO_OPEN_SUPPORT = 17, no;
    PARALLEL_DIROPS = 18, yes;
    HANDLE_KILLPRIV = 19, no;
    POSIX_ACL = 20, yes;
    ABORT_ERROR = 21, no;
    MAX_PAGES = 22, yes;
    CACHE_SYMLINKS = 23, yes;
    NO_OPENDIR_SUPPORT = 24, no;
    EXPLICIT_INVAL_DATA = 25, yes;
    MAP_ALIGNMENT = 26, no;
    SUBMOUNTS = 27, no;
    HANDLE_KILLPRIV_V2 = 28, yes;
    SETXATTR_EXT = 29, no;
    INIT_EXT = 30, yes;
    INIT_RESERVED = 31, no;
    SECURITY_CTX = 32, no;
    HAS_INODE_DAX = 33, no;
    CREATE_SUPP_GROUP = 34, no;
    HAS_EXPIRE_ONLY = 35, yes;
    DIRECT_IO_ALLOW_MMAP = 36, yes;
    PASSTHROUGH = 37, no;
    NO_EXPORT_SUPPORT = 38, no;
    HAS_RESEND = 39, yes;
    ALLOW_IDMAP = 40, no;
    OVER_IO_URING = 41, yes;
    REQUEST_TIMEOUT = 42, no;
}

impl InitFlags {
    /// None.
    pub const NONE: InitFlags = InitFlags(0);

    /// Both words of an INIT as one; the second counts only if the first says so.
    #[must_use]
    pub fn joined(flags: u32, flags2: u32) -> InitFlags {
        let low = InitFlags(u64::from(flags));
        if low.has(InitFlags::INIT_EXT) { InitFlags(low.0 | u64::from(flags2) << 32) } else { low }
    }

    /// The two words of an INIT.
    #[must_use]
    pub fn split(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> 32) as u32)
    }

    /// Those of either.
    #[must_use]
    pub const fn or(self, other: InitFlags) -> InitFlags {
        InitFlags(self.0 | other.0)
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: InitFlags) -> InitFlags {
        InitFlags(self.0 & other.0)
    }

    /// Those of this one that are not in the other.
    #[must_use]
    pub const fn without(self, other: InitFlags) -> InitFlags {
        InitFlags(self.0 & !other.0)
    }

    /// Whether all of these are among them.
    #[must_use]
    pub const fn has(self, these: InitFlags) -> bool {
        self.0 & these.0 == these.0
    }

    /// Names of what is set; unknown bits have none.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(_, flag)| self.has(*flag)).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_has_one_name() {
        for (at, (name, flag)) in InitFlags::NAMES.iter().enumerate() {
            assert_eq!(flag.0, 1 << at, "{name}");
        }
    }

    #[test]
    fn the_second_word_counts_only_where_it_is_announced() {
        assert_eq!(InitFlags::joined(1, 8), InitFlags::ASYNC_READ);
        let both = InitFlags::joined(1 | 1 << 30, 8);
        assert!(both.has(InitFlags::HAS_EXPIRE_ONLY));
        assert_eq!(both.split(), (1 | 1 << 30, 8));
        assert_eq!(both.names().collect::<Vec<_>>(), ["ASYNC_READ", "INIT_EXT", "HAS_EXPIRE_ONLY"]);
    }

    #[test]
    fn what_would_hang_or_lose_something_is_not_honoured() {
        for never in [InitFlags::WRITEBACK_CACHE, InitFlags::SECURITY_CTX, InitFlags::SETXATTR_EXT] {
            assert!(!InitFlags::HONOURED.has(never));
        }
    }
}
