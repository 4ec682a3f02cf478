//! Extended attributes that are answered before `vfs` is asked, the same at every door.

use super::DoorOptions;
use zest_types::Errno;

/// The error that ends a request about an extended attribute before `vfs` is asked; `change` says that it is to be set
/// or removed. Rules and labels nobody keeps here are *not supported* and not merely *absent*: programs that ask for
/// them with every file, `ls -l` among them, stop asking then.
pub(crate) fn xattr_gate(options: &DoorOptions, acl: bool, name: &[u8], change: bool) -> Result<(), Errno> {
    let rule = name.starts_with(b"system.posix_acl_") && acl;
    if !options.xattr && !rule {
        // Said once: the kernel does not ask again.
        return Err(Errno::ENOSYS);
    }
    match name {
        // The kernel itself asks for this one, with each write.
        b"security.capability" if !options.capability_xattr => {
            Err(if change { Errno::ENOTSUP } else { Errno::ENODATA })
        }
        b"security.selinux" if !options.selinux_xattr => Err(Errno::ENOTSUP),
        b"system.posix_acl_access" | b"system.posix_acl_default" if !acl => Err(Errno::ENOTSUP),
        _ => Ok(()),
    }
}
