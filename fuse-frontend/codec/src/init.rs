//! INIT: what both sides agree on before the first real request.

use crate::abi::{InitIn, InitOut, MAJOR, MINOR, MINOR_MIN};
use crate::decode::Dialect;
use crate::flags::InitFlags;

/// Bytes of a page, as `max_pages` counts them.
const PAGE: u32 = 4096;
/// Pages of a request where the kernel can't be told how many.
const PAGES_UNASKED: u32 = 32;

/// What a server would like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Flags; those that are not honoured here are dropped.
    pub flags: InitFlags,
    /// Bytes of the largest write.
    pub max_write: u32,
    /// Bytes the kernel may read ahead.
    pub max_readahead: u32,
    /// Requests under way that nobody waits for.
    pub max_background: u16,
    /// From this many on the kernel slows down.
    pub congestion_threshold: u16,
}

/// What holds from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Minor version both sides speak.
    pub minor: u32,
    /// Flags both sides have.
    pub flags: InitFlags,
    /// Flags that were wished for and the kernel does not know.
    pub missing: InitFlags,
    /// How requests are read.
    pub dialect: Dialect,
    /// Bytes of the largest write.
    pub max_write: u32,
}

impl Agreement {
    /// What another process agreed on over a connection that goes on.
    #[must_use]
    pub fn of_before(minor: u32, flags: InitFlags, max_write: u32) -> Agreement {
        let dialect = Dialect { setxattr_ext: flags.has(InitFlags::SETXATTR_EXT) };
        Agreement { minor, flags, missing: InitFlags::NONE, dialect, max_write }
    }
}

/// What to do with an INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer this, and wait for another INIT of our major version.
    Again(InitOut),
    /// The kernel is too old: 7.31 is needed.
    TooOld,
    /// Answer this; it holds from now on.
    Agreed(InitOut, Agreement),
}

/// Agrees with the kernel.
#[must_use]
pub fn negotiate(init: &InitIn, wish: &Wish) -> Verdict {
    let again = InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() };
    if init.major > MAJOR {
        return Verdict::Again(again);
    }
    if init.major < MAJOR || init.minor < MINOR_MIN {
        return Verdict::TooOld;
    }
    // Without these nothing here works as it should, and every kernel since 7.31 has them.
    let always =
        InitFlags::ASYNC_READ.or(InitFlags::BIG_WRITES).or(InitFlags::MAX_PAGES).or(InitFlags::INIT_EXT);
    let offered = InitFlags::joined(init.flags, init.flags2);
    let wanted = wish.flags.or(always).and(InitFlags::HONOURED);
    let flags = wanted.and(offered);
    let missing = wanted.without(offered).without(InitFlags::INIT_EXT);
    let pages = if flags.has(InitFlags::MAX_PAGES) {
        wish.max_write.div_ceil(PAGE).clamp(1, u32::from(u16::MAX))
    } else {
        PAGES_UNASKED
    };
    let max_write = wish.max_write.min(pages * PAGE).max(PAGE);
    let (low, high) = flags.split();
    let minor = init.minor.min(MINOR);
    let out = InitOut {
        major: MAJOR,
        minor,
        max_readahead: wish.max_readahead.min(init.max_readahead),
        flags: low,
        max_background: wish.max_background,
        congestion_threshold: wish.congestion_threshold,
        max_write,
        time_gran: 1,
        max_pages: u16::try_from(pages).unwrap_or(u16::MAX),
        flags2: high,
        ..InitOut::default()
    };
    let dialect = Dialect { setxattr_ext: flags.has(InitFlags::SETXATTR_EXT) };
    Verdict::Agreed(out, Agreement { minor, flags, missing, dialect, max_write })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish {
        flags: InitFlags::ASYNC_DIO.or(InitFlags::WRITEBACK_CACHE).or(InitFlags::DIRECT_IO_ALLOW_MMAP),
        max_write: 1 << 20,
        max_readahead: 1 << 20,
        max_background: 128,
        congestion_threshold: 96,
    };

    fn agreed(init: &InitIn) -> (InitOut, Agreement) {
        match negotiate(init, &WISH) {
            Verdict::Agreed(out, agreement) => (out, agreement),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_kernel_gets_what_both_have_and_nothing_that_is_not_honoured() {
        let all = InitIn {
            major: 7,
            minor: 99,
            max_readahead: 131_072,
            flags: u32::MAX,
            flags2: u32::MAX,
            ..InitIn::default()
        };
        let (out, agreement) = agreed(&all);
        assert_eq!((out.major, out.minor, out.max_pages, out.max_readahead), (7, 45, 256, 131_072));
        assert!(agreement.flags.has(InitFlags::DIRECT_IO_ALLOW_MMAP.or(InitFlags::INIT_EXT)));
        let told = InitFlags::joined(out.flags, out.flags2);
        assert_eq!(told.without(InitFlags::HONOURED), InitFlags::NONE);
        assert!(!told.has(InitFlags::WRITEBACK_CACHE));
        assert!(!told.has(InitFlags::OVER_IO_URING), "nobody wished for it");
        assert_eq!(agreement.missing, InitFlags::NONE);
    }

    #[test]
    fn an_old_kernel_gets_no_second_word() {
        let old =
            InitIn { major: 7, minor: 31, max_readahead: 4096, flags: 1 << 15 | 1 << 5, ..InitIn::default() };
        let (out, agreement) = agreed(&old);
        assert_eq!((out.minor, out.flags2, out.flags), (31, 0, 1 << 15 | 1 << 5));
        assert_eq!(out.max_write, 32 * 4096, "requests of such a kernel have 32 pages");
        assert!(agreement.missing.has(InitFlags::DIRECT_IO_ALLOW_MMAP));
    }

    #[test]
    fn other_versions() {
        let version = |major, minor| negotiate(&InitIn { major, minor, ..InitIn::default() }, &WISH);
        assert!(matches!(version(8, 0), Verdict::Again(out) if out.major == 7));
        assert_eq!(version(7, 30), Verdict::TooOld);
        assert_eq!(version(6, 99), Verdict::TooOld);
    }
}
