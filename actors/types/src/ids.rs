//! Newtypes for the numbers that name things, so that one can't be given where another is wanted.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// Number of a file, directory or other node; unique in the volume and never used again.
    Ino
);
id!(
    /// Number of a slice: one immutable run of bytes. 0 means zeros and is never allocated.
    SliceId
);
id!(
    /// Number of an open file or directory inside one mount.
    Handle
);

impl Ino {
    /// The root directory of a volume.
    pub const ROOT: Ino = Ino(1);
    /// The trash root; everything at or above it is trash.
    pub const TRASH: Ino = Ino(0x7FFF_FFFF_1000_0000);

    /// Whether this is the trash root or an hour directory in it.
    #[must_use]
    pub fn is_trash(self) -> bool {
        self >= Self::TRASH
    }
}

impl SliceId {
    /// The id that stands for zeros.
    pub const ZEROS: SliceId = SliceId(0);

    /// Whether records with this id show zeros instead of stored bytes.
    #[must_use]
    pub fn is_zeros(self) -> bool {
        self == Self::ZEROS
    }
}
