//! The structs of the kernel's interface, field by field as `linux/fuse.h` has them at version 7.45, and the bits of
//! their flag fields. Padding is spelled out, so that each struct is its bytes.
#![allow(missing_docs)]

mod notify;
mod reply;
mod request;
mod ring;

pub use notify::*;
pub use reply::*;
pub use request::*;
pub use ring::*;

/// Major version of the interface.
pub const MAJOR: u32 = 7;
/// Newest minor version that is spoken here.
pub const MINOR: u32 = 45;
/// Oldest minor version that is spoken here.
pub const MINOR_MIN: u32 = 31;
/// Bytes a reader must have room for, at least.
pub const MIN_READ_BUFFER: usize = 8192;
/// What an interrupt's own number has set, beside the number of the request it is about.
pub const INTERRUPT_BIT: u64 = 1;

macro_rules! wire {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$about])*
            #[derive(
                zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
                Clone, Copy, Debug, Default, PartialEq, Eq,
            )]
            #[repr(C)]
            pub struct $name { $(pub $field: $kind),* }
        )*
    };
}
pub(crate) use wire;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_kernels() {
        macro_rules! sizes {
            ($($name:ident $size:literal)*) => { $(assert_eq!(size_of::<$name>(), $size, stringify!($name));)* };
        }
        sizes! {
            InHeader 40 GetattrIn 16 SetattrIn 88 MknodIn 16 MkdirIn 8 RenameIn 8 Rename2In 16 LinkIn 8 OpenIn 8
            CreateIn 16 ReadIn 40 WriteIn 40 ReleaseIn 24 FlushIn 24 FsyncIn 16 SetxattrIn 8 SetxattrExtIn 16
            GetxattrIn 8 LkIn 48 AccessIn 8 InitIn 64 InitInOld 16 InterruptIn 8 BmapIn 16 IoctlIn 32 PollIn 24
            FallocateIn 32 LseekIn 24 CopyFileRangeIn 56 SetupmappingIn 40 RemovemappingIn 8 RemovemappingOne 16
            SyncfsIn 8 StatxIn 24 ForgetIn 8 ForgetOne 16 BatchForgetIn 8 RetrieveIn 40 ExtHeader 8
            OutHeader 16 Attr 88 EntryOut 128 AttrOut 104 OpenOut 16 WriteOut 8 StatfsOut 80 GetxattrOut 8 LkOut 24
            InitOut 64 BmapOut 8 IoctlOut 16 PollOut 8 LseekOut 8 CopyFileRangeOut 8 Dirent 24 Statx 256 StatxOut 288
            NotifyPollOut 8 NotifyInvalInodeOut 24 NotifyInvalEntryOut 16 NotifyDeleteOut 24 NotifyStoreOut 24
            NotifyRetrieveOut 32 NotifyPruneOut 16 RingEntry 32 RingCommand 24
        }
    }
}
