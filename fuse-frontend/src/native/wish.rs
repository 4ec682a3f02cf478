//! What this door asks of the kernel. The same as fuser's door asks, and what that one can't.

use crate::door::capabilities::{BACKGROUND, CONGESTED};
use zest_codec::flags::InitFlags;
use zest_codec::init::Wish;
use zest_types::limits;

/// What is asked for on every mount. Not among them, on purpose: `READDIRPLUS_AUTO` and the kernel's write-back cache,
/// as fuser's door says.
const ALWAYS: InitFlags = InitFlags::ASYNC_DIO
    .or(InitFlags::PARALLEL_DIROPS)
    .or(InitFlags::DO_READDIRPLUS)
    .or(InitFlags::ATOMIC_O_TRUNC)
    .or(InitFlags::CACHE_SYMLINKS)
    .or(InitFlags::DIRECT_IO_ALLOW_MMAP)
    .or(InitFlags::HAS_EXPIRE_ONLY)
    .or(InitFlags::HAS_RESEND);

/// The wish of a mount: whether others change the volume, whether it has access control lists, whether locks are kept
/// in it, and whether set-user bits grant nothing on it. Where they do, the kernel takes them away itself: it might
/// remember those that we took.
#[must_use]
pub fn wish(shared: bool, acl: bool, locks: bool, nosuid: bool) -> Wish {
    let when = |wanted, flags| if wanted { flags } else { InitFlags::NONE };
    let flags = ALWAYS
        .or(when(shared, InitFlags::AUTO_INVAL_DATA))
        .or(when(acl, InitFlags::POSIX_ACL.or(InitFlags::DONT_MASK)))
        .or(when(locks, InitFlags::POSIX_LOCKS.or(InitFlags::FLOCK_LOCKS)))
        .or(when(nosuid, InitFlags::HANDLE_KILLPRIV_V2));
    Wish {
        flags,
        max_write: limits::MAX_IO,
        max_readahead: limits::MAX_IO,
        max_background: BACKGROUND,
        congestion_threshold: CONGESTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_wished_for_that_is_not_honoured() {
        for all in [false, true] {
            assert_eq!(wish(all, all, all, all).flags.without(InitFlags::HONOURED), InitFlags::NONE);
        }
        assert!(!wish(true, true, false, true).flags.has(InitFlags::FLOCK_LOCKS));
    }
}
