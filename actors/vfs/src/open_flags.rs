//! Linux open flags, as far as they matter here. The numbers are those of x86-64 and ARM64, on which these
//! flags agree.

/// Flags of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    const ACCESS: u32 = 0o3;
    const WRONLY: u32 = 0o1;
    const EXCL: u32 = 0o200;
    const TRUNC: u32 = 0o1000;
    const APPEND: u32 = 0o2000;

    /// Opened for reading.
    #[must_use]
    pub fn reads(self) -> bool {
        self.0 & Self::ACCESS != Self::WRONLY
    }

    /// Opened for writing.
    #[must_use]
    pub fn writes(self) -> bool {
        self.0 & Self::ACCESS != 0
    }

    /// The file must be new.
    #[must_use]
    pub fn exclusive(self) -> bool {
        self.0 & Self::EXCL != 0
    }

    /// The content goes first.
    #[must_use]
    pub fn truncates(self) -> bool {
        self.0 & Self::TRUNC != 0
    }

    /// Every write goes to the end.
    #[must_use]
    pub fn appends(self) -> bool {
        self.0 & Self::APPEND != 0
    }

    /// Bits of access(2) that the open needs.
    #[must_use]
    pub fn access_mask(self) -> u8 {
        (if self.reads() { 4 } else { 0 }) | (if self.writes() || self.truncates() { 2 } else { 0 })
    }
}
