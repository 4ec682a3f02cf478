//! What the kernel is told unasked.

use super::wire;

wire! {
    NotifyPollOut { kh: u64 }
    NotifyInvalInodeOut { ino: u64, off: i64, len: i64 }
    NotifyInvalEntryOut { parent: u64, namelen: u32, flags: u32 }
    NotifyDeleteOut { parent: u64, child: u64, namelen: u32, padding: u32 }
    NotifyStoreOut { nodeid: u64, offset: u64, size: u32, padding: u32 }
    NotifyRetrieveOut { notify_unique: u64, nodeid: u64, offset: u64, size: u32, padding: u32 }
    NotifyPruneOut { count: u32, padding: u32, spare: u64 }
}

/// Kinds of notifications; they stand where an answer has its error.
pub mod notify_code {
    pub const POLL: i32 = 1;
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const STORE: i32 = 4;
    pub const RETRIEVE: i32 = 5;
    pub const DELETE: i32 = 6;
    pub const RESEND: i32 = 7;
    pub const INC_EPOCH: i32 = 8;
    pub const PRUNE: i32 = 9;
}

/// [`NotifyInvalEntryOut::flags`]: the entry is asked for again at its next use, and not dropped.
pub const EXPIRE_ONLY: u32 = 1 << 0;
