//! The kernel's requests by number and name.

macro_rules! opcodes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// A request of the kernel.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Opcode { $($name = $number,)* }

        impl Opcode {
            /// Every request there is.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// The request behind a number.
            #[must_use]
            pub fn of(number: u32) -> Option<Opcode> {
                Some(match number { $($number => Opcode::$name,)* _ => return None })
            }

            /// Its number.
            #[must_use]
            pub fn number(self) -> u32 {
                self as u32
            }

            /// Its name, as logs have it.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Opcode::$name => $text,)* }
            }
        }
    };
}

opcodes! {
    Lookup = 1, "lookup";
    Forget = 2, "forget";
    GetAttr = 3, "getattr";
    SetAttr = 4, "setattr";
    Readlink = 5, "readlink";
    Symlink = 6, "symlink";
    Mknod = 8, "mknod";
    Mkdir = 9, "mkdir";
    Unlink = 10, "unlink";
    Rmdir = 11, "rmdir";
    Rename = 12, "rename";
    Link = 13, "link";
    Open = 14, "open";
    Read = 15, "read";
    Write = 16, "write";
    Statfs = 17, "statfs";
    Release = 18, "release";
    Fsync = 20, "fsync";
    SetXattr = 21, "setxattr";
    GetXattr = 22, "getxattr";
    ListXattr = 23, "listxattr";
    RemoveXattr = 24, "removexattr";
    Flush = 25, "flush";
    Init = 26, "init";
    OpenDir = 27, "opendir";
    ReadDir = 28, "readdir";
    ReleaseDir = 29, "releasedir";
    FsyncDir = 30, "fsyncdir";
    GetLk = 31, "getlk";
    SetLk = 32, "setlk";
    SetLkW = 33, "setlkw";
    Access = 34, "access";
    Create = 35, "create";
    Interrupt = 36, "interrupt";
    Bmap = 37, "bmap";
    Destroy = 38, "destroy";
    Ioctl = 39, "ioctl";
    Poll = 40, "poll";
    NotifyReply = 41, "notify_reply";
    BatchForget = 42, "batch_forget";
    Fallocate = 43, "fallocate";
    ReadDirPlus = 44, "readdirplus";
    Rename2 = 45, "rename2";
    Lseek = 46, "lseek";
    CopyFileRange = 47, "copy_file_range";
    SetupMapping = 48, "setupmapping";
    RemoveMapping = 49, "removemapping";
    SyncFs = 50, "syncfs";
    TmpFile = 51, "tmpfile";
    Statx = 52, "statx";
    CopyFileRange64 = 53, "copy_file_range_64";
}

#[cfg(test)]
mod tests {
    use super::Opcode;

    #[test]
    fn numbers_lead_back() {
        for opcode in Opcode::ALL {
            assert_eq!(Opcode::of(opcode.number()), Some(*opcode));
        }
        assert_eq!(Opcode::of(0), None);
        assert_eq!(Opcode::of(4096), None, "character devices in user space are none of our business");
    }
}
