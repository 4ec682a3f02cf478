//! What stat shows of a node, as the volume stores it. How it becomes bytes is the codec's business.

use crate::ids::Ino;
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// The kind of a node; the numbers are those of the volume format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum FileType {
    File = 1,
    Directory = 2,
    Symlink = 3,
    Fifo = 4,
    BlockDevice = 5,
    CharDevice = 6,
    Socket = 7,
}

impl FileType {
    /// The type behind a format number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<FileType> {
        Some(match code {
            1 => FileType::File,
            2 => FileType::Directory,
            3 => FileType::Symlink,
            4 => FileType::Fifo,
            5 => FileType::BlockDevice,
            6 => FileType::CharDevice,
            7 => FileType::Socket,
            _ => return None,
        })
    }

    /// The format number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The type bits of `st_mode`.
    #[must_use]
    pub fn mode_bits(self) -> u32 {
        match self {
            FileType::File => 0o100_000,
            FileType::Directory => 0o040_000,
            FileType::Symlink => 0o120_000,
            FileType::Fifo => 0o010_000,
            FileType::BlockDevice => 0o060_000,
            FileType::CharDevice => 0o020_000,
            FileType::Socket => 0o140_000,
        }
    }

    /// The type behind the type bits of a mode; plain files may have none.
    #[must_use]
    pub fn from_mode(mode: u32) -> Option<FileType> {
        Some(match mode & 0o170_000 {
            0 | 0o100_000 => FileType::File,
            0o040_000 => FileType::Directory,
            0o120_000 => FileType::Symlink,
            0o010_000 => FileType::Fifo,
            0o060_000 => FileType::BlockDevice,
            0o020_000 => FileType::CharDevice,
            0o140_000 => FileType::Socket,
            _ => return None,
        })
    }
}

/// Bits of [`Attr::flags`].
pub mod flags {
    /// Nothing about the node may change.
    pub const IMMUTABLE: u8 = 0x01;
    /// A file may only grow at its end.
    pub const APPEND: u8 = 0x02;
    /// Removal skips the trash.
    pub const SKIP_TRASH: u8 = 0x20;
}

/// The attribute record of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    /// See [`flags`].
    pub flags: u8,
    /// What the node is.
    pub kind: FileType,
    /// Twelve permission bits, no type bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read, as far as it is kept.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Names that lead here; for a directory 2 and one for each child directory.
    pub nlink: u32,
    /// Bytes of a file, 4096 for a directory, length of the target for a symlink, else 0.
    pub length: u64,
    /// Device number of block and character devices.
    pub rdev: u32,
    /// The directory that holds the node; 0 once it had more than one name.
    pub parent: Ino,
    /// Id of the access rule, 0 for none.
    pub access_acl: u32,
    /// Id of the default rule, 0 for none.
    pub default_acl: u32,
    /// Storage tier, 0 to 3.
    pub tier: u8,
}

impl Attr {
    /// A fresh node: all three times `now`, link count and length as its kind wants them.
    #[must_use]
    pub fn new(kind: FileType, mode: u16, uid: u32, gid: u32, parent: Ino, now: Time) -> Attr {
        let directory = kind == FileType::Directory;
        Attr {
            flags: 0,
            kind,
            mode: mode & 0o7777,
            uid,
            gid,
            atime: now,
            mtime: now,
            ctime: now,
            nlink: if directory { 2 } else { 1 },
            length: if directory { 4096 } else { 0 },
            rdev: 0,
            parent,
            access_acl: 0,
            default_acl: 0,
            tier: 0,
        }
    }

    /// Whether the node is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether the node is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FileType::File
    }

    /// Whether the node sits directly inside an hour directory of the trash.
    #[must_use]
    pub fn lives_in_trash(&self) -> bool {
        self.parent > Ino::TRASH
    }
}

/// Space accounting: 4096 for nothing, else rounded up to a multiple of 4096.
#[must_use]
pub fn align4k(length: u64) -> u64 {
    if length == 0 { 4096 } else { length.div_ceil(4096).saturating_mul(4096) }
}
